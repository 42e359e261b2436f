"""What every policy promises, over random histories."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pool_traces import SLOTS, START, Pool, config, reports, slots, steps, traces, words

from hostler.governor.adaptive.controller import POLICIES
from hostler.governor.adaptive.model import BreakerState, PoolConfig, PoolState, RateLimitEvent

policies = pytest.mark.parametrize("name", sorted(POLICIES))
any_moment = st.none() | st.integers(-(10**6), 10**6).map(lambda s: START + timedelta(seconds=s))
moments = st.integers(-(10**6), 10**6).map(lambda s: START + timedelta(seconds=s))
states = st.builds(
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
    breaker_state=st.sampled_from(BreakerState),
    breaker_open_at=any_moment,
    breaker_break_seconds=st.floats(0, 10**7),
    breaker_reopen_count=st.integers(0, 99),
    probe=st.none() | slots,
    probe_admitted_at=any_moment,
    last_dispatch_at=any_moment,
    next_dispatch_at=any_moment,
    gate_until=any_moment,
    pausing=st.booleans(),
    refusals_unreported=st.booleans(),
    window_at=any_moment,
    sampled_at=any_moment,
    window_answers=st.integers(-1, 500),
    window_refusals=st.integers(-1, 500),
    window_deaths=st.integers(-1, 500),
    agent_seconds=st.floats(-1, 10**5),
    refused_before=st.booleans(),
    agent_rate=st.floats(),
    growth=st.integers(-1, 10**4),
    unanswered_since=any_moment,
    unanswered_refusals=st.integers(0, 9),
    announced_utilisation=st.floats(),
    announced_at=any_moment,
    gate_seconds=st.floats(0, 10**6),
    damaged_at=any_moment,
)


@policies
@given(config, states, traces)
def test_the_cap_stays_between_one_and_the_hard_max(name, config, state, trace):
    pool = Pool(POLICIES[name], config, state=state)
    assert 1 <= pool.cap <= config.hard_max
    for kind, started in pool.play(trace):
        assert 1 <= pool.cap <= config.hard_max
        assert not (kind == "start" and started) or len(pool.live) <= pool.cap


@policies
@given(config, states, traces)
def test_adaptive_off_ignores_every_field_even_when_set_by_hand(name, config, state, trace):
    off = replace(config, adaptive=False)
    learned, fresh = Pool(POLICIES[name], off, state=state), Pool(POLICIES[name], off)
    assert list(learned.play(trace)) == list(fresh.play(trace))
    assert learned.state is state and learned.cap == config.max_global
    assert POLICIES[name].closed_gate(off, state, START) is None


@policies
@given(config, traces)
def test_the_breaker_never_admits_two_probes(name, config, trace):
    pool = Pool(POLICIES[name], config)
    for seconds, step in trace:
        pool.wait(seconds)
        before = POLICIES[name].advance(pool.config, pool.state, pool.now, pool.load())
        started = pool.take(step)
        if step[0] == "start" and before.breaker_state is not BreakerState.CLOSED:
            assert not started or before.probe is None
            assert not started or pool.state.probe == step[1]
        if pool.state.probe is not None:
            assert pool.state.breaker_state is BreakerState.HALF_OPEN
            assert not pool.start(SLOTS[0])


@policies
@given(config, states, traces)
def test_from_every_state_patience_alone_admits_again(name, config, state, trace):
    pool = Pool(POLICIES[name], config, state=state)
    list(pool.play(trace))
    pool.live.clear()
    for _ in range(4):
        pool.look()
        pool.wait(timedelta(days=1).total_seconds())
    assert pool.start(SLOTS[0])


@policies
@given(config, traces, st.integers(-(10**7), 10**7))
def test_a_clock_that_jumps_does_not_wedge(name, config, trace, jump):
    pool = Pool(POLICIES[name], config)
    list(pool.play(trace))
    pool.wait(jump)
    pool.look()
    pool.live.clear()
    for _ in range(4):
        pool.wait(timedelta(days=1).total_seconds())
        pool.look()
    assert pool.start(SLOTS[0])


@policies
@given(config, states, st.floats(0, 0.99))
def test_a_denial_says_why_and_when(name, config, state, roll):
    pool = Pool(POLICIES[name], config, state=state)
    pool.look()
    closed = POLICIES[name].closed_gate(config, pool.state, pool.now)
    if closed is not None:
        assert closed.gate and closed.what
        assert closed.until is None or closed.until > pool.now
        assert closed.until is not None or pool.state.probe is not None


@policies
@given(config, states, steps)
def test_nothing_happens_in_no_time_twice(name, config, state, step):
    pool = Pool(POLICIES[name], config, state=state)
    pool.take(step)
    pool.look()
    once = pool.state
    pool.look()
    assert pool.state == once


@policies
@given(config, states, reports, words)
def test_the_same_input_gives_the_same_answer(name, config, state, report, word):
    control = POLICIES[name]
    first = control.on_limit(config, state, START, report)
    assert first == control.on_limit(config, state, START, report)
    said = control.on_announcement(config, first, START, word)
    assert said == control.on_announcement(config, first, START, word)


def test_the_operators_word_is_the_start():
    for control in POLICIES.values():
        assert control.cap(PoolConfig(max_global=5, adaptive=True, hard_max=9), PoolState()) == 5
        assert control.cap(PoolConfig(max_global=20, adaptive=True, hard_max=9), PoolState()) == 9
