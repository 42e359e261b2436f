"""Simulated hours: what many repositories cost when they are polled as the budget says."""

from __future__ import annotations

import random

import pytest
from rate_limit_hours import Town

from hostler.forge.github.rate_limit.limits import MAX_STRETCH


def now_and_then(share: float):
    dice = random.Random(7)
    return lambda now: dice.random() < share


def after(town: Town, seconds: float) -> list[float]:
    return [idle for at, idle, _ in town.stretches if at >= seconds]


def swings(values: list[float], least: float = 0.1) -> int:
    """How often a course turns round, by more than a tenth."""
    turns, direction, last = 0, 0, values[0]
    for value in values:
        if abs(value - last) > least * last:
            moved = 1 if value > last else -1
            turns += moved == -direction
            direction, last = moved, value
    return turns


def long(*values: float):
    """A sample of the long campaigns."""
    return pytest.param(*values, marks=pytest.mark.soak)


# Every run goes beyond the first reset of the hour; the long campaigns go further.
@pytest.mark.parametrize(
    ("share", "hours"), [(0.04, 1.1), long(0.0, 2), long(0.02, 2), long(0.04, 2)]
)
def test_300_repositories_fit_without_any_stretch(share, hours):
    town = Town(30, 270, changes=now_and_then(share), writes_every=60).run(hours)
    assert town.most_points <= 720
    assert max(town.paid_by_hour) <= 2000
    assert set(after(town, 0)) == {1.0}
    assert town.longest_wait_of_a_write == 0


@pytest.mark.parametrize(
    ("active", "idle", "rest", "hours"),
    [(100, 900, 4.6, 1.6), long(100, 900, 4.6, 3), long(10, 590, 1.6, 3)],
)
def test_more_than_fit_stretch_to_a_rest_and_stay_there(active, idle, rest, hours):
    town = Town(active, idle, writes_every=20).run(hours)
    assert town.most_points <= 720
    assert swings([idle for _, idle, _ in town.stretches]) == 0
    assert all(abs(stretch - rest) < 0.1 * rest for stretch in after(town, 5400))
    assert town.longest_wait_of_a_write <= 10
    # An active one is looked at more often, even now.
    assert town.polls[True] / active > 1.5 * town.polls[False] / idle


def test_where_everything_changes_the_hour_is_kept_and_writes_go_out():
    town = Town(30, 270, changes=lambda now: True, writes_every=10).run(3)
    assert town.most_points <= 720
    assert max(town.paid_by_hour) <= 4000
    assert town.longest_wait_of_a_write <= 10
    assert town.written > 1000


@pytest.mark.parametrize("hours", [1.1, long(2)])
def test_a_burst_passes_and_polls_come_back(hours):
    """A first look at everything is paid for; then nothing changes any more."""
    town = Town(30, 270, changes=lambda now: now < 130).run(hours)
    stretches = after(town, 130)
    assert 1.0 < max(stretches) < MAX_STRETCH
    assert swings(stretches) == 0
    assert set(after(town, 3000)) == {1.0}


@pytest.mark.parametrize("hours", [1.1, long(2)])
def test_far_more_than_can_ever_fit_stays_below_the_limits(hours):
    town = Town(300, 1700, interval=30, changes=now_and_then(0.5), writes_every=9).run(hours)
    assert town.most_points <= 720
    assert max(town.paid_by_hour) <= 4000
    assert town.longest_wait_of_a_write <= 60
