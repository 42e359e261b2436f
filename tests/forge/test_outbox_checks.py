"""Doctor on the outbox: what was given up, and what waits for long."""

from __future__ import annotations

from datetime import timedelta

from hostler.forge.checks import SLOW_WRITE_AGE, writes_go_out
from hostler.health import CheckContext, CheckStatus


def ask(sandbox_repo, home):
    return list(writes_go_out(CheckContext(home, None, sandbox_repo.clock)))


def test_an_empty_outbox_is_well(sandbox_repo, home, store):
    (found,) = ask(sandbox_repo, home)
    assert (found.status, found.evidence) == (
        CheckStatus.OK,
        "0 write(s) queued, none given up",
    )


def test_a_write_that_was_given_up_is_told_for_a_week(sandbox_repo, home, post):
    post.say(404)
    post.drain()
    (found,) = ask(sandbox_repo, home)
    assert found.status is CheckStatus.WARNING and found.remedy
    assert (
        f"1 write(s) given up in the last 7 days: comment on {sandbox_repo.name}#404"
        in found.evidence
    )
    sandbox_repo.pass_time(timedelta(days=7, minutes=1).total_seconds())
    (found,) = ask(sandbox_repo, home)
    assert found.status is CheckStatus.OK


def test_a_write_that_waits_for_long_is_told(sandbox_repo, home, post):
    post.say(sandbox_repo.issue())
    sandbox_repo.pass_time(SLOW_WRITE_AGE.total_seconds())
    assert [one.status for one in ask(sandbox_repo, home)] == [CheckStatus.OK]
    sandbox_repo.pass_time(1)
    (found,) = ask(sandbox_repo, home)
    assert (
        found.status is CheckStatus.WARNING
        and "1 write(s) are waiting, the oldest since" in found.evidence
    )
    post.drain()
    assert [one.status for one in ask(sandbox_repo, home)] == [CheckStatus.OK]


def test_without_a_database_it_is_skipped(sandbox_repo, tmp_path):
    (found,) = ask(sandbox_repo, tmp_path / "nowhere")
    assert found.status is CheckStatus.SKIPPED
