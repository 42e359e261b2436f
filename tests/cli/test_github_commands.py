"""`hostler github cost`: what the settings cost, without a service and mostly without GitHub."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from intake_yard import lay_database

from hostler.sandbox.auth import token_for
from hostler.sandbox.server import running
from hostler.store import open_store
from hostler.store.pull_requests import PullRow, PullStatus, add_pull


@pytest.fixture
def configured(home):
    """Settings with so many repositories of alice's."""

    def write(count, *, github="", **runtime):
        home.mkdir(exist_ok=True)
        lines = ["[runtime]", *(f"{name} = {value}" for name, value in runtime.items())]
        lines += ["[github]", github]
        for number in range(count):
            lines += [f"[repo.r{number}]", 'owner = "alice"', f'name = "r{number}"']
        (home / "hostler.toml").write_text("\n".join(lines) + "\n")

    return write


@pytest.fixture
def follow(home):
    """Pull requests that are followed, by the number of their repository."""

    def add(**statuses):
        lay_database(home)
        with closing(open_store(home)) as store, store.write() as tx:
            for name, status in statuses.items():
                add_pull(tx, PullRow(f"alice/{name}", 7, 1, "t1", "topic", status))

    return add


def told(done):
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_without_a_database_everything_is_idle(hostler, configured):
    configured(100, poll_interval_seconds=60)
    done = hostler("github", "cost")
    assert (done.code, "all repositories count as idle" in done.err) == (0, True)
    assert "100: 0 active, 100 idle" in done.out
    assert "5,000 requests per hour; Hostler may use 80 %" in done.out
    (line,) = [line for line in done.out.splitlines() if line.startswith("points/minute")]
    assert line.split() == ["points/minute", "140", "1,000", "720"]
    assert "Within the limits now." in done.out
    assert "Over the limit in the worst case: idle repositories are polled up to" in done.out


def test_what_is_stored_says_who_is_active(hostler, configured, follow):
    configured(4, poll_interval_seconds=60)
    states = {"r0": PullStatus.AWAITING_FEEDBACK, "r1": PullStatus.BLOCKED, "r2": PullStatus.MERGED}
    follow(**states)
    found = told(hostler("github", "cost", "--json"))
    assert (found["repositories"], found["active"]) == (4, 2)
    assert found["now"]["points_per_minute"] == pytest.approx(2 * 4 + 2 * 1.4)
    assert found["now"]["requests_per_hour"] == pytest.approx(60 * (2 * 4 + 2 * 1.4))
    assert found["now"]["primary_per_hour"] == 0
    assert found["now"]["fits"] is True
    assert found["worst"]["polls"]["points_per_minute"] == 4 * 7
    assert found["worst"]["writes"] == {
        "requests_per_hour": 400,
        "primary_per_hour": 400,
        "points_per_minute": 300,
    }
    assert found["may_be_used"] == {"primary_per_hour": 4000, "points_per_minute": 720}
    assert (found["limit"], found["remaining"], found["advice"]) == (5000, None, [])


def test_what_does_not_fit_is_told_with_what_to_change(hostler, configured):
    configured(300, poll_interval_seconds=10)
    done = hostler("github", "cost")
    assert done.code == 0
    assert "Over the limit: idle repositories are polled up to 3.9 times less often" in done.out
    for key in ("runtime.poll_interval_seconds to 39", "Watch 77 repositories", "GitHub App"):
        assert key in done.out


def test_few_that_are_polled_seldom_always_fit(hostler, configured):
    configured(2, poll_interval_seconds=600)
    assert "Within the limits, even in the worst case." in hostler("github", "cost").out


def test_no_repository_costs_nothing(hostler):
    found = told(hostler("github", "cost", "--json"))
    assert found["now"]["requests_per_hour"] == found["worst"]["requests_per_hour"] == 0


def test_settings_that_read_more_say_so(hostler, configured):
    configured(1, enable_incremental_comment_fetch="false")
    assert "whole threads are read" in hostler("github", "cost").out


def test_asked_github_tells_the_real_limit_for_free(hostler, configured):
    seed = {"users": [{"login": "bot"}]}
    with running(seed, git=False, primary_limit=9000) as sandbox:
        configured(2, github=f'api_url = "{sandbox.url}"')
        env = {"GITHUB_TOKEN": token_for("bot")}
        found = told(hostler("github", "cost", "--ask", "--json", env=env))
        assert (found["limit"], found["remaining"]) == (9000, 9000)
        assert found["may_be_used"]["primary_per_hour"] == 7200
        assert sandbox.app.pipeline.ledger.answer({})["totals"]["primary"] == 0
        done = hostler("github", "cost", "--ask", env=env)
        assert "9,000 requests per hour, 9,000 left" in done.out
        assert "ghp_" not in done.out + done.err


def test_without_ask_nobody_is_asked(hostler, configured):
    configured(2, github='api_url = "http://127.0.0.1:9"')
    assert hostler("github", "cost").code == 0
    done = hostler("github", "cost", "--ask", env={"GITHUB_TOKEN": token_for("bot")})
    assert done.code == 1
    assert "could not be reached" in done.err and "Traceback" not in done.err


def test_asking_without_a_token_says_what_is_missing(hostler, configured):
    configured(2)
    done = hostler("github", "cost", "--ask", env={"PATH": ""})
    assert (done.code, "GITHUB_TOKEN" in done.err) == (1, True)


@pytest.mark.parametrize("argv", [["cost", "--often"], ["cots"], ["cost", "extra"]])
def test_bad_input_gets_a_line(hostler, argv):
    done = hostler("github", *argv)
    assert done.code == 2
    assert done.err and "Traceback" not in done.err


def test_broken_settings_are_named(hostler, configured):
    configured(1, poll_interval_seconds=1)
    done = hostler("github", "cost")
    assert (done.code, "poll_interval_seconds" in done.err) == (2, True)
