"""Fair shares: sums, the strict formula, weights, turns; and against brute force."""

from __future__ import annotations

from itertools import product
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.governor import gates
from hostler.governor.gates import UNLIMITED, ProjectDemand, circle_of, shares, turn_at

NAMES = ["ant", "bee", "cat", "dog", "elk", "fox"]
turns = st.integers(-1000, 10**9)


any_more = st.none() | st.integers(0, 7)
any_weight = st.integers(1, 4)


def demands(more=any_more, weight=any_weight, most=6):
    one = st.tuples(st.integers(0, 4), more, weight)
    return st.lists(one, max_size=most).map(
        lambda given: [ProjectDemand(name, *rest) for name, rest in zip(NAMES, given, strict=False)]
    )


def strict(cap: int, names: list[str], turn: int) -> dict[str, int]:
    """The formula, as it is written down."""
    n = len(names)
    base, rem = divmod(cap, n)
    return {
        name: base + (1 if (index + turn) % n < rem else 0)
        for index, name in enumerate(sorted(names))
    }


@given(st.integers(0, 20), demands(), turns)
def test_shares_sum_to_what_there_is_or_to_what_is_wanted(cap, wanted, turn):
    dealt = shares(cap, wanted, turn)
    assert sum(dealt.values()) == min(cap, sum(demand.total for demand in wanted))
    assert all(0 <= dealt[demand.project] <= demand.total for demand in wanted)


@given(st.integers(0, 30), st.lists(st.sampled_from(NAMES), unique=True, min_size=1), turns)
def test_with_unknown_wishes_it_is_the_strict_formula(cap, names, turn):
    assert shares(cap, [ProjectDemand(name) for name in names], turn) == strict(cap, names, turn)


@given(st.integers(0, 30), st.lists(st.sampled_from(NAMES), unique=True, min_size=1), turns,
       st.integers(2, 9))  # fmt: skip
def test_equal_weights_are_as_good_as_none(cap, names, turn, weight):
    heavy = [ProjectDemand(name, weight=weight) for name in names]
    assert shares(cap, heavy, turn) == strict(cap, names, turn)


def fairest(cap: int, wanted: list[ProjectDemand]) -> list[int]:
    """Brute force: of all ways to give away as much as possible, the least gets the most, …"""
    totals = [min(demand.total, cap) for demand in wanted]
    given = min(cap, sum(totals))
    ways = (way for way in product(*(range(total + 1) for total in totals)) if sum(way) == given)
    return max(sorted(way) for way in ways)


@given(st.integers(0, 7), demands(weight=st.just(1), most=4), turns)
def test_no_other_way_is_fairer(cap, wanted, turn):
    assert sorted(shares(cap, wanted, turn).values()) == fairest(cap, wanted)


def one_by_one(cap: int, wanted: list[ProjectDemand], turn: int) -> dict[str, int]:
    """The words of the rule, slot by slot, without short cuts."""
    wanted = sorted(wanted, key=lambda demand: demand.project)
    places = circle_of(tuple(demand.weight for demand in wanted))
    dealt = {demand.project: 0 for demand in wanted}
    at = -turn
    idle = 0
    while cap > 0 and places and idle < len(places):
        demand = wanted[places[at % len(places)]]
        at += 1
        if dealt[demand.project] < demand.total:
            dealt[demand.project] += 1
            cap -= 1
            idle = 0
        else:
            idle += 1
    return dealt


@given(st.integers(0, 40), demands(), turns)
def test_whole_rounds_are_a_short_cut_and_nothing_else(cap, wanted, turn):
    assert shares(cap, wanted, turn) == one_by_one(cap, wanted, turn)


def test_many_slots_are_dealt_in_few_rounds(monkeypatch):
    rounds = Mock(wraps=gates._whole_rounds)
    monkeypatch.setattr(gates, "_whole_rounds", rounds)
    dealt = shares(1000, [ProjectDemand("ant"), ProjectDemand("bee", more=7)], 0)
    assert dealt == {"ant": 993, "bee": 7} and rounds.call_count < 5


@given(st.integers(1, 20), st.lists(st.integers(1, 6), min_size=1, max_size=5), turns)
def test_over_all_turns_everybody_gets_exactly_its_weight(cap, weights, turn):
    wanted = [ProjectDemand(NAMES[index], weight=weight) for index, weight in enumerate(weights)]
    circle = len(circle_of(tuple(weights)))
    dealt = [shares(cap, wanted, turn + step) for step in range(circle)]
    for demand in wanted:
        total = sum(one[demand.project] for one in dealt)
        assert total * sum(weights) == cap * circle * demand.weight


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 40), turns)
def test_in_each_turn_nobody_is_far_from_its_part(weights, cap, turn):
    wanted = [ProjectDemand(NAMES[index], weight=weight) for index, weight in enumerate(weights)]
    dealt = shares(cap, wanted, turn)
    for demand in wanted:
        assert abs(dealt[demand.project] - cap * demand.weight / sum(weights)) < max(
            2, len(weights)
        )


@given(demands(more=st.integers(1, 3)), st.integers(1, 3), turns)
def test_whoever_wants_one_gets_a_turn(wanted, cap, turn):
    circle = len(circle_of(tuple(demand.weight for demand in wanted))) or 1
    for demand in wanted:
        assert any(shares(cap, wanted, turn + step)[demand.project] for step in range(circle))


@given(st.integers(0, 12), demands(), turns, st.data())
def test_who_leaves_takes_nothing_from_the_others_in_whole_slots(cap, wanted, turn, data):
    """Rotation may move one slot of what does not divide; nobody loses more than that."""
    if not wanted:
        return
    gone = data.draw(st.sampled_from(wanted))
    if any(demand.weight > 1 for demand in wanted):
        return
    before = shares(cap, wanted, turn)
    after = shares(cap, [demand for demand in wanted if demand is not gone], turn)
    assert all(after[name] >= before[name] - 1 for name in after)


def test_a_wish_for_nothing_and_a_damaged_one_get_nothing():
    assert shares(
        8, [ProjectDemand("a", 0, 0), ProjectDemand("b", 0, -3), ProjectDemand("c", weight=-1)], 0
    ) == {
        "a": 0,
        "b": 0,
        "c": 8,
    }
    assert shares(8, [], 5) == {}
    assert ProjectDemand("a").total == UNLIMITED


@pytest.mark.parametrize(
    ("seconds", "window", "turn"), [(0, 60, 0), (59.9, 60, 0), (60, 60, 1), (-1, 60, -1)]
)
def test_turns_follow_the_clock(seconds, window, turn):
    assert turn_at(seconds, window) == turn
