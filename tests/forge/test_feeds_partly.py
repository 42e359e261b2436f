"""Polls of which a part fails, now or for weeks: the other parts are read all the same."""

from __future__ import annotations

import pytest
from feeds_yard import Yard

from hostler.errors import GitHubPollingError


@pytest.fixture
def yard(house, store):
    return Yard(house, store)


def fail(house, route, count=None):
    house.fault("status", status=500, method="GET", route=route, count=count)


def polls(yard, count):
    """So many polls, each of which tells of its failure."""
    for _ in range(count):
        yard.house.pass_time(60)
        assert yard.poll().error is not None


def test_a_tripwire_that_fails_makes_nobody_deaf(git_house, house, yard):
    number = house.pull()
    yard.follow(number)
    yard.settle()
    fail(house, f"/repos/{house.name}/issues")
    house.say(number, "hello?")
    polls(yard, 1)
    assert "hello?" in yard.bodies("issue_comment")


def test_threads_that_fail_let_others_go_first(git_house, house, yard):
    numbers = [house.pull(f"topic{place}") for place in range(4)]
    house.say(numbers[3], "an old word")
    house.pass_time(10 * 86_400)
    yard.settle()
    for number in numbers:
        yard.follow(number)
    for number in numbers[:3]:
        fail(house, f"/repos/{house.name}/pulls/{number}/reviews")
    polls(yard, 2)
    assert "an old word" in yard.bodies("issue_comment")


def test_a_sweep_that_fails_goes_on_to_the_next(git_house, house, yard):
    numbers = [house.pull(f"topic{place}") for place in range(3)]
    for number in numbers:
        yard.follow(number)
    yard.settle()
    house.pass_time(3600)
    yard.settle()
    for part in ("", "/reviews"):
        fail(house, f"/repos/{house.name}/pulls/{numbers[0]}{part}")
    swept = set()
    for _ in range(8):
        house.pass_time(60)
        swept |= {path for path, _ in yard.asked()}
    assert {f"pulls/{number}" for number in numbers} <= swept


def test_a_part_that_fails_for_good_costs_an_idle_repository_no_more(house, store):
    """Its rhythm goes on: what else there is to read is read every fifth time."""
    yard = Yard(house, store, operations=house.issue())
    fail(house, "*/issues/1/comments")
    polls(yard, 3)
    asked = []
    for _ in range(10):
        house.pass_time(60)
        asked += [path for path, _ in yard.asked()]
    assert 0 < asked.count("pulls/comments") <= 3


def test_a_host_that_is_away_is_left_alone_soon(git_house, house, yard):
    numbers = [house.pull(f"topic{place}") for place in range(4)]
    for number in numbers:
        yard.follow(number)
    fail(house, "*")
    house.sandbox.app.pipeline.ledger.clear()
    with pytest.raises(GitHubPollingError):
        yard.poll()
    # Three parts, three tries each, and the time.
    assert len(house.ledger()) <= 10
