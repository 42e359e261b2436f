"""What every policy promises, over random histories."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pool_traces import SLOTS, START, Pool, knobs, reports, slots, steps, traces, words

from hostler.governor.adaptive.controller import POLICIES
from hostler.governor.adaptive.model import Breaker, PoolConfig, PoolState, RateLimitEvent

policies = pytest.mark.parametrize("name", sorted(POLICIES))
any_moment = st.none() | st.integers(-(10**6), 10**6).map(lambda s: START + timedelta(seconds=s))
moments = st.integers(-(10**6), 10**6).map(lambda s: START + timedelta(seconds=s))
overlays = st.builds(
    PoolState,
    dynamic_cap=st.integers(-3, 99),
    settle_until=any_moment,
    last_decrease_at=any_moment,
    last_rate_limit_at=any_moment,
    last_probe_at=any_moment,
    rate_limit_events=st.integers(0, 9),
    recent_rate_limit_events=st.lists(st.builds(RateLimitEvent, moments, slots), max_size=4).map(
        tuple
    ),
    recent_decreases=st.lists(moments, max_size=4).map(tuple),
    breaker_state=st.sampled_from(Breaker),
    breaker_open_at=any_moment,
    breaker_break_seconds=st.floats(0, 10**7),
    breaker_reopen_count=st.integers(0, 99),
    probe=st.none() | slots,
    probe_admitted_at=any_moment,
    last_dispatch_at=any_moment,
    next_dispatch_at=any_moment,
    gate_until=any_moment,
    pausing=st.booleans(),
    silent=st.booleans(),
    window_at=any_moment,
    looked_at=any_moment,
    window_answers=st.integers(-1, 500),
    window_refusals=st.integers(-1, 500),
    window_deaths=st.integers(-1, 500),
    agent_seconds=st.floats(-1, 10**5),
    refused_before=st.booleans(),
    agent_rate=st.floats(),
    growth=st.integers(-1, 10**4),
    deaf_since=any_moment,
    unanswered=st.integers(0, 9),
    announced_utilisation=st.floats(),
    announced_at=any_moment,
    gate_seconds=st.floats(0, 10**6),
    damaged_at=any_moment,
)


@policies
@given(knobs, overlays, traces)
def test_the_cap_stays_between_one_and_the_hard_max(name, knobs, overlay, trace):
    pool = Pool(POLICIES[name], knobs, overlay=overlay)
    assert 1 <= pool.cap <= knobs.hard_max
    for kind, started in pool.play(trace):
        assert 1 <= pool.cap <= knobs.hard_max
        assert not (kind == "start" and started) or len(pool.live) <= pool.cap


@policies
@given(knobs, overlays, traces)
def test_adaptive_off_ignores_every_field_even_when_set_by_hand(name, knobs, overlay, trace):
    off = replace(knobs, adaptive=False)
    learned, fresh = Pool(POLICIES[name], off, overlay=overlay), Pool(POLICIES[name], off)
    assert list(learned.play(trace)) == list(fresh.play(trace))
    assert learned.overlay is overlay and learned.cap == knobs.max_global
    assert POLICIES[name].shut(off, overlay, START) is None


@policies
@given(knobs, traces)
def test_the_breaker_never_admits_two_probes(name, knobs, trace):
    pool = Pool(POLICIES[name], knobs)
    for seconds, step in trace:
        pool.wait(seconds)
        before = POLICIES[name].passed(pool.knobs, pool.overlay, pool.now, pool.load())
        started = pool.take(step)
        if step[0] == "start" and before.breaker_state is not Breaker.CLOSED:
            assert not started or before.probe is None
            assert not started or pool.overlay.probe == step[1]
        if pool.overlay.probe is not None:
            assert pool.overlay.breaker_state is Breaker.HALF_OPEN
            assert not pool.start(SLOTS[0])


@policies
@given(knobs, overlays, traces)
def test_from_every_state_patience_alone_admits_again(name, knobs, overlay, trace):
    pool = Pool(POLICIES[name], knobs, overlay=overlay)
    list(pool.play(trace))
    pool.live.clear()
    for _ in range(4):
        pool.look()
        pool.wait(timedelta(days=1).total_seconds())
    assert pool.start(SLOTS[0])


@policies
@given(knobs, traces, st.integers(-(10**7), 10**7))
def test_a_clock_that_jumps_does_not_wedge(name, knobs, trace, jump):
    pool = Pool(POLICIES[name], knobs)
    list(pool.play(trace))
    pool.wait(jump)
    pool.look()
    pool.live.clear()
    for _ in range(4):
        pool.wait(timedelta(days=1).total_seconds())
        pool.look()
    assert pool.start(SLOTS[0])


@policies
@given(knobs, overlays, st.floats(0, 0.99))
def test_a_denial_says_why_and_when(name, knobs, overlay, roll):
    pool = Pool(POLICIES[name], knobs, overlay=overlay)
    pool.look()
    shut = POLICIES[name].shut(knobs, pool.overlay, pool.now)
    if shut is not None:
        assert shut.gate and shut.what
        assert shut.until is None or shut.until > pool.now
        assert shut.until is not None or pool.overlay.probe is not None


@policies
@given(knobs, overlays, steps)
def test_nothing_happens_in_no_time_twice(name, knobs, overlay, step):
    pool = Pool(POLICIES[name], knobs, overlay=overlay)
    pool.take(step)
    pool.look()
    once = pool.overlay
    pool.look()
    assert pool.overlay == once


@policies
@given(knobs, overlays, reports, words)
def test_the_same_input_gives_the_same_answer(name, knobs, overlay, report, word):
    control = POLICIES[name]
    first = control.limited(knobs, overlay, START, report)
    assert first == control.limited(knobs, overlay, START, report)
    said = control.announced(knobs, first, START, word)
    assert said == control.announced(knobs, first, START, word)


def test_the_operators_word_is_the_start():
    for control in POLICIES.values():
        assert control.cap(PoolConfig(max_global=5, adaptive=True, hard_max=9), PoolState()) == 5
        assert control.cap(PoolConfig(max_global=20, adaptive=True, hard_max=9), PoolState()) == 9
