"""What is learned of a pool, as text and back; whatever is damaged lets nobody in."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.governor.adaptive.controller import adaptive_pool
from hostler.governor.adaptive.model import (
    BreakerState,
    LeaseSlot,
    PoolConfig,
    PoolLoad,
    PoolState,
    RateLimitEvent,
)
from hostler.governor.adaptive.state import DAMAGED, dump_state, load_state

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KNOBS = PoolConfig(max_global=8, adaptive=True, hard_max=16)

moments = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)).map(
    lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=UTC)
)
maybe = st.none() | moments
slots = st.builds(LeaseSlot, st.text(max_size=9), st.text(max_size=9))
numbers, seconds = st.integers(0, 99), st.floats(0, 9999)
states = st.builds(
    PoolState,
    numbers,
    *[maybe] * 4,
    numbers,
    st.lists(st.builds(RateLimitEvent, moments, slots), max_size=3).map(tuple),
    st.lists(moments, max_size=3).map(tuple),
    st.sampled_from(BreakerState),
    maybe,
    seconds,
    numbers,
    st.none() | slots,
    maybe,
    maybe,
    maybe,
    maybe,
    maybe,
    maybe,
    agent_seconds=seconds,
    refused_before=st.booleans(),
    agent_rate=seconds,
    gate_seconds=numbers.map(float),
    damaged_at=maybe,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


@given(states)
def test_what_is_stored_is_read_again(state):
    assert load_state(dump_state(state)) == state


def test_nothing_known_is_no_text():
    assert dump_state(PoolState()) == "" and load_state("") == PoolState()


@given(states, st.dictionaries(st.text(max_size=9).map("x_{}".format), json_values))
def test_names_that_nobody_knows_are_dropped(state, more):
    raw = json.loads(dump_state(state) or "{}")
    assert load_state(json.dumps({**more, **raw})) == state


@pytest.mark.parametrize(
    "text", ["{", "[]", "7", "null", "\0", '{"a":' * 100_000], ids=list("abcdef")
)
def test_a_text_that_is_none_means_as_few_agents_as_can_be(text):
    assert load_state(text) == DAMAGED
    known = adaptive_pool(KNOBS, text, NOW, PoolLoad(0, True))
    assert known.cap == 1 and known.state.damaged_at == NOW


OPEN = PoolState(
    dynamic_cap=4,
    breaker_state=BreakerState.OPEN,
    breaker_open_at=NOW,
    breaker_break_seconds=600.0,
    breaker_reopen_count=1,
)


@given(st.integers(1, len(dump_state(OPEN)) - 1))
def test_a_text_that_was_cut_off_lets_nobody_in_for_as_long_as_a_break_may_last(cut):
    known = adaptive_pool(KNOBS, dump_state(OPEN)[:cut], NOW, PoolLoad(0, True))
    assert known.closed_gate.until == NOW + timedelta(hours=1) and known.cap == 1
    # It is stored so, and passes; whoever is answered then ends the damage too.
    later = adaptive_pool(
        KNOBS, dump_state(known.state), NOW + timedelta(hours=1), PoolLoad(0, True)
    )
    assert later.closed_gate is None and later.state.damaged_at == NOW
    probing = load_state(later.state_after_start(LeaseSlot("ant", "t1"), 0.5))
    assert (
        adaptive_pool(KNOBS, dump_state(probing), later.now, PoolLoad(1, True)).closed_gate
        is not None
    )
    done = later.control.on_release(KNOBS, probing, later.now, LeaseSlot("ant", "t1"), reached=True)
    assert (done.breaker_state, done.damaged_at) == (BreakerState.CLOSED, None)


def test_an_open_breaker_without_its_moment_and_length_has_just_opened():
    known = adaptive_pool(KNOBS, '{"breaker_state":"open"}', NOW, PoolLoad(0, True))
    assert known.closed_gate.until == NOW + timedelta(seconds=KNOBS.break_seconds)


def test_damage_of_one_value_is_remembered_and_that_of_nothing_is_not():
    assert load_state('{"dynamic_cap": "many", "growth": 2}').damaged_at is not None
    assert load_state('{"dynamic_cap": 3, "growth": 2}').damaged_at is None


@given(states, st.sampled_from([one.name for one in fields(PoolState)]), json_values)
def test_nothing_that_is_stored_breaks_a_rule(state, name, garbage):
    raw = {**json.loads(dump_state(state) or "{}"), name: garbage}
    known = adaptive_pool(KNOBS, json.dumps(raw), NOW, PoolLoad(1, True))
    assert 1 <= known.cap <= KNOBS.hard_max
    assert load_state(dump_state(known.state)) == known.state


@given(json_values)
def test_a_damaged_cap_is_the_lowest_and_a_damaged_breaker_is_open(garbage):
    known = load_state(json.dumps({"dynamic_cap": garbage, "breaker_state": garbage}))
    if type(garbage) is not int or garbage < 0:
        assert known.dynamic_cap == 1
    if garbage not in ("", "open", "half-open"):
        assert known.breaker_state is BreakerState.OPEN


def test_a_breaker_of_which_all_is_lost_stays_open_for_as_long_as_it_may():
    known = adaptive_pool(KNOBS, '{"breaker_state": 7}', NOW, PoolLoad(0, True))
    assert known.closed_gate.until == NOW + timedelta(seconds=3600)


@pytest.mark.parametrize("name", ["breaker_open_at", "probe", "probe_admitted_at"])
def test_a_breaker_of_which_a_part_is_lost_has_just_opened(name):
    tries = replace(
        PoolState(dynamic_cap=1),
        breaker_state=BreakerState.HALF_OPEN,
        breaker_open_at=NOW,
        breaker_break_seconds=300.0,
        probe=LeaseSlot("ant", "t1"),
        probe_admitted_at=NOW,
    )
    raw = {**json.loads(dump_state(tries)), name: 7}
    known = adaptive_pool(KNOBS, json.dumps(raw), NOW + timedelta(hours=1), PoolLoad(0, True))
    assert known.state.breaker_state is BreakerState.OPEN
    assert known.closed_gate.until == NOW + timedelta(hours=1, seconds=300)
    # It is stored so, and passes.
    later = known.now + timedelta(seconds=301)
    assert (
        adaptive_pool(KNOBS, dump_state(known.state), later, PoolLoad(0, True)).closed_gate is None
    )
