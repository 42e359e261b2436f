"""The policy `aimd`: how far down, how slowly up, and what settles in between."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pool_traces import Pool, config, traces

from hostler.governor.adaptive.aimd import MAX_REMEMBERED_EVENTS, PROBE_EVERY
from hostler.governor.adaptive.controller import POLICIES
from hostler.governor.adaptive.model import (
    BreakerState,
    LeaseSlot,
    LimitReport,
    PoolConfig,
    PoolState,
    Reason,
    Source,
)

AIMD = POLICIES["aimd"]
ANT, BEE, CAT = LeaseSlot("ant", "1"), LeaseSlot("bee", "1"), LeaseSlot("cat", "1")


def pool(cap: int = 8, hard_max: int = 16, **more: float) -> Pool:
    return Pool(AIMD, PoolConfig(max_global=cap, adaptive=True, hard_max=hard_max, **more))


@pytest.mark.parametrize(("cap", "half"), [(16, 8), (9, 4), (8, 4), (3, 1), (2, 1)])
def test_halve_from_various_caps(cap, half):
    yard = pool(cap)
    yard.die(ANT)
    assert yard.cap == half
    assert yard.state.last_decrease_at == yard.now


@pytest.mark.parametrize("cap", [2, 3, 5])
def test_floor_at_one(cap):
    yard = pool(cap)
    for slot in (ANT, BEE, CAT):
        yard.die(slot)
        yard.wait(121)
    assert yard.cap == 1


def test_settle_suppresses_a_double_halve_and_counts_the_event():
    yard = pool(16)
    yard.die(ANT)
    yard.wait(119)
    yard.die(BEE)
    assert yard.cap == 8
    assert yard.state.rate_limit_events == 2
    yard.wait(1)
    yard.die(ANT)
    assert yard.cap == 4


def test_a_burst_of_distinct_slots_quarters():
    yard = pool(16)
    yard.die(ANT)
    yard.wait(100)
    yard.die(BEE)
    yard.wait(10)
    yard.die(CAT)
    yard.wait(10)
    yard.die(ANT)
    assert yard.cap == 2


def test_the_same_slot_again_and_again_is_no_burst():
    yard = pool(16)
    yard.die(ANT)
    yard.wait(110)
    for _ in range(5):
        yard.wait(2)
        yard.die(ANT)
    assert yard.cap == 4


def test_reports_older_than_the_window_are_no_burst():
    yard = pool(16)
    yard.die(ANT)
    yard.wait(80)
    yard.die(BEE)
    yard.wait(9)
    yard.die(CAT)
    yard.wait(31)
    yard.die(ANT)
    assert yard.cap == 4


def test_the_history_of_reports_is_bounded():
    yard = pool(16)
    for number in range(3 * MAX_REMEMBERED_EVENTS):
        yard.die(LeaseSlot("ant", str(number)))
    assert len(yard.state.recent_rate_limit_events) == MAX_REMEMBERED_EVENTS
    yard.wait(31)
    yard.die(ANT)
    assert len(yard.state.recent_rate_limit_events) == 1


def test_additive_probe_climbs_past_the_starting_cap_up_to_the_hard_max():
    yard = pool(2, hard_max=4)
    caps = []
    for _ in range(30):
        yard.look()
        caps.append(yard.cap)
        yard.wait(60)
    assert sorted(caps) == caps and set(caps) == {2, 3, 4}


def test_settle_freezes_growth_and_the_probe_clock_starts_at_its_end():
    yard = pool(8)
    yard.die(ANT)
    yard.wait(120 + 299)
    yard.look()
    assert yard.cap == 4
    yard.wait(1)
    yard.look()
    assert yard.cap == 5
    # A step up settles as well: 120 s and then five quiet minutes.
    yard.die(BEE)
    assert yard.cap == 5
    yard.wait(419)
    yard.look()
    assert yard.cap == 5
    yard.wait(1)
    yard.look()
    assert yard.cap == 6


def test_a_pool_that_nobody_looked_at_grows_by_all_its_quiet_whiles_at_once():
    yard = pool(4)
    yard.look()
    yard.wait(1000)
    yard.look()
    assert yard.cap == 7


def test_time_at_the_hard_max_is_not_saved_for_later():
    yard = pool(4, hard_max=4)
    for _ in range(20):
        yard.look()
        yard.wait(300)
    yard.config = PoolConfig(max_global=4, adaptive=True, hard_max=8)
    yard.look()
    assert yard.cap == 5


@pytest.mark.parametrize("reason", [Reason.QUOTA, Reason.BILLING])
@pytest.mark.parametrize("source", Source)
def test_used_up_windows_and_bills_do_not_move_the_cap(reason, source):
    yard = pool(8)
    yard.limit(LimitReport(ANT, source, reason))
    assert yard.state == PoolState()


@pytest.mark.parametrize("reason", [Reason.BURST, Reason.OVERLOAD])
def test_an_agent_that_lives_and_tries_again_is_counted_and_no_more(reason):
    yard = pool(8)
    yard.limit(LimitReport(ANT, Source.LIVE, reason))
    assert yard.cap == 8
    assert (yard.state.rate_limit_events, yard.state.last_rate_limit_at) == (1, yard.now)


@given(config, traces)
def test_at_most_one_change_per_settle_window(config, trace):
    yard = Pool(AIMD, config)
    changed_at, cap = None, yard.cap
    for kind, _ in yard.play(trace):
        yard.look()
        if yard.cap == cap:
            continue
        # The end of a probe sets the cap to 1 whatever settles: nobody else was there.
        if kind != "end":
            assert changed_at is None or (yard.now - changed_at).total_seconds() >= 120
        changed_at, cap = yard.now, yard.cap


@given(config, traces)
def test_it_grows_only_after_full_five_minutes_and_by_no_more_than_those(config, trace):
    yard = Pool(AIMD, config)
    yard.look()
    anchor, cap = yard.now, yard.cap
    for _ in yard.play(trace):
        yard.look()
        if yard.cap > cap:
            assert (yard.now - anchor) // PROBE_EVERY >= yard.cap - cap
        if yard.cap != cap:
            anchor, cap = yard.now + timedelta(seconds=120), yard.cap


@given(config, traces)
def test_deaths_alone_lower_the_cap(config, trace):
    yard = Pool(AIMD, config)
    for seconds, step in trace:
        yard.wait(seconds)
        yard.look()
        before = yard.cap
        yard.take(step)
        if yard.cap < before:
            assert (step[0] == "end" and yard.state.breaker_state is BreakerState.CLOSED) or (
                step[0] == "limit" and step[1].source is Source.DEATH
            )


@given(st.integers(1, 64), st.integers(1, 64), st.integers(0, 200))
def test_the_effective_cap_is_the_learned_one_within_its_bounds(most, start, learned):
    told = PoolConfig(max_global=start, adaptive=True, hard_max=most)
    cap = AIMD.cap(told, PoolState(dynamic_cap=learned))
    assert cap == max(1, min(learned or start, most))
