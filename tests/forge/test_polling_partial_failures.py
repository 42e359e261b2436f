"""Polls of which a part fails, now or for weeks: the other parts are read all the same."""

from __future__ import annotations

import pytest
from polling_fixture import PolledRepo

from hostler.errors import GitHubPollingError


@pytest.fixture
def polled_repo(sandbox_repo, store):
    return PolledRepo(sandbox_repo, store)


def fail(sandbox_repo, route, count=None):
    sandbox_repo.fault("status", status=500, method="GET", route=route, count=count)


def polls(polled_repo, count):
    """So many polls, each of which tells of its failure."""
    for _ in range(count):
        polled_repo.sandbox_repo.pass_time(60)
        assert polled_repo.poll().error is not None


def test_a_tripwire_that_fails_makes_nobody_deaf(sandbox_git_repo, sandbox_repo, polled_repo):
    number = sandbox_repo.pull()
    polled_repo.follow(number)
    polled_repo.settle()
    fail(sandbox_repo, f"/repos/{sandbox_repo.name}/issues")
    sandbox_repo.say(number, "hello?")
    polls(polled_repo, 1)
    assert "hello?" in polled_repo.bodies("issue_comment")


def test_threads_that_fail_let_others_go_first(sandbox_git_repo, sandbox_repo, polled_repo):
    numbers = [sandbox_repo.pull(f"topic{place}") for place in range(4)]
    sandbox_repo.say(numbers[3], "an old word")
    sandbox_repo.pass_time(10 * 86_400)
    polled_repo.settle()
    for number in numbers:
        polled_repo.follow(number)
    for number in numbers[:3]:
        fail(sandbox_repo, f"/repos/{sandbox_repo.name}/pulls/{number}/reviews")
    polls(polled_repo, 2)
    assert "an old word" in polled_repo.bodies("issue_comment")


def test_a_sweep_that_fails_goes_on_to_the_next(sandbox_git_repo, sandbox_repo, polled_repo):
    numbers = [sandbox_repo.pull(f"topic{place}") for place in range(3)]
    for number in numbers:
        polled_repo.follow(number)
    polled_repo.settle()
    sandbox_repo.pass_time(3600)
    polled_repo.settle()
    for part in ("", "/reviews"):
        fail(sandbox_repo, f"/repos/{sandbox_repo.name}/pulls/{numbers[0]}{part}")
    swept = set()
    for _ in range(8):
        sandbox_repo.pass_time(60)
        swept |= {path for path, _ in polled_repo.asked()}
    assert {f"pulls/{number}" for number in numbers} <= swept


def test_a_part_that_fails_for_good_costs_an_idle_repository_no_more(sandbox_repo, store):
    """Its rhythm goes on: what else there is to read is read every fifth time."""
    polled_repo = PolledRepo(sandbox_repo, store, operations=sandbox_repo.issue())
    fail(sandbox_repo, "*/issues/1/comments")
    polls(polled_repo, 3)
    asked = []
    for _ in range(10):
        sandbox_repo.pass_time(60)
        asked += [path for path, _ in polled_repo.asked()]
    assert 0 < asked.count("pulls/comments") <= 3


def test_a_host_that_is_away_is_left_alone_soon(sandbox_git_repo, sandbox_repo, polled_repo):
    numbers = [sandbox_repo.pull(f"topic{place}") for place in range(4)]
    for number in numbers:
        polled_repo.follow(number)
    fail(sandbox_repo, "*")
    sandbox_repo.sandbox.app.pipeline.ledger.clear()
    with pytest.raises(GitHubPollingError):
        polled_repo.poll()
    # Three parts, three tries each, and the time.
    assert len(sandbox_repo.ledger()) <= 10
