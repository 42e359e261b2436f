"""Doctor on the outbox: what was given up, and what waits for long."""

from __future__ import annotations

from datetime import timedelta

from hostler.forge.checks import SLOW_WRITE_AGE, writes_go_out
from hostler.health import CheckContext, CheckStatus


def ask(house, home):
    return list(writes_go_out(CheckContext(home, None, house.clock)))


def test_an_empty_outbox_is_well(house, home, store):
    (found,) = ask(house, home)
    assert (found.status, found.evidence) == (
        CheckStatus.OK,
        "0 write(s) on the way, none given up",
    )


def test_a_write_that_was_given_up_is_told_for_a_week(house, home, post):
    post.say(404)
    post.drain()
    (found,) = ask(house, home)
    assert found.status is CheckStatus.WARNING and found.remedy
    assert f"1 write(s) given up in the last 7 days: comment on {house.name}#404" in found.evidence
    house.pass_time(timedelta(days=7, minutes=1).total_seconds())
    (found,) = ask(house, home)
    assert found.status is CheckStatus.OK


def test_a_write_that_waits_for_long_is_told(house, home, post):
    post.say(house.issue())
    house.pass_time(SLOW_WRITE_AGE.total_seconds())
    assert [one.status for one in ask(house, home)] == [CheckStatus.OK]
    house.pass_time(1)
    (found,) = ask(house, home)
    assert (
        found.status is CheckStatus.WARNING
        and "1 write(s) wait, the oldest since" in found.evidence
    )
    post.drain()
    assert [one.status for one in ask(house, home)] == [CheckStatus.OK]


def test_without_a_database_it_is_skipped(house, tmp_path):
    (found,) = ask(house, tmp_path / "nowhere")
    assert found.status is CheckStatus.SKIPPED
