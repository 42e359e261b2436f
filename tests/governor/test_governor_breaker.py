"""The breaker of `aimd`: what opens it, the one probe, and what closes it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pool_traces import Pool

from hostler.governor.adaptive.controller import POLICIES
from hostler.governor.adaptive.model import (
    BreakerState,
    LeaseSlot,
    LimitReport,
    PoolConfig,
    Reason,
    Source,
)

AIMD = POLICIES["aimd"]
ANT, BEE = LeaseSlot("ant", "1"), LeaseSlot("bee", "1")
DAY = timedelta(days=1)


def pool(cap: int = 1, **more: float) -> Pool:
    return Pool(AIMD, PoolConfig(max_global=cap, adaptive=True, **more))


def half_open() -> Pool:
    yard = pool()
    yard.die(ANT)
    yard.wait(300)
    return yard


def with_probe(slot: LeaseSlot = ANT) -> Pool:
    yard = half_open()
    assert yard.start(slot)
    return yard


def breaker_state(yard: Pool) -> BreakerState:
    return yard.state.breaker_state


def break_of(yard: Pool) -> float:
    return yard.state.breaker_break_seconds


def test_opens_on_an_event_at_the_floor():
    yard = pool()
    yard.die(ANT)
    assert breaker_state(yard) is BreakerState.OPEN and break_of(yard) == 300
    assert not yard.start(BEE)
    closed = AIMD.closed_gate(yard.config, yard.state, yard.now)
    assert closed.gate == "breaker" and (closed.until - yard.now).total_seconds() == 300


def test_opens_on_three_decreases_in_ten_minutes():
    yard = pool(16)
    for _ in range(3):
        assert breaker_state(yard) is BreakerState.CLOSED
        yard.die(ANT)
        yard.wait(200)
    assert breaker_state(yard) is BreakerState.OPEN


def test_three_decreases_over_a_longer_time_do_not_open():
    yard = pool(16)
    for _ in range(3):
        yard.die(ANT)
        yard.wait(301)
    assert breaker_state(yard) is BreakerState.CLOSED and yard.cap == 2


def test_an_event_at_the_floor_while_a_change_settles_does_not_open():
    yard = pool(2)
    yard.die(ANT)
    yard.wait(60)
    yard.die(BEE)
    assert breaker_state(yard) is BreakerState.CLOSED and yard.cap == 1


def test_every_start_is_denied_until_the_break_is_over():
    yard = pool(break_seconds=50.0)
    yard.die(ANT)
    yard.wait(49.9)
    assert not yard.start(ANT) and not yard.start(BEE)
    yard.wait(0.1)
    assert yard.start(BEE)


def test_half_open_admits_exactly_one():
    yard = half_open()
    assert yard.start(BEE)
    yard.config = PoolConfig(max_global=8, adaptive=True)
    assert not any(yard.start(slot) for slot in (ANT, BEE, LeaseSlot("cat")))
    closed = AIMD.closed_gate(yard.config, yard.state, yard.now)
    assert closed.gate == "breaker" and "bee 1" in closed.what


def test_closes_on_a_clean_release_of_the_probe_with_a_cap_of_one():
    yard = pool(16)
    for _ in range(3):
        yard.die(ANT)
        yard.wait(200)
    yard.wait(300)
    assert yard.start(BEE)
    yard.end(BEE)
    assert breaker_state(yard) is BreakerState.CLOSED
    assert yard.cap == 1
    assert yard.start(ANT)


def test_a_clean_release_forgets_how_often_it_was_opened_again():
    yard = with_probe(ANT)
    yard.limit(LimitReport(ANT, Source.DEATH, Reason.OVERLOAD))
    yard.end(ANT)
    assert yard.state.breaker_reopen_count == 1
    yard.wait(600)
    assert yard.start(BEE)
    yard.end(BEE)
    assert (breaker_state(yard), yard.state.breaker_reopen_count) == (BreakerState.CLOSED, 0)


def test_the_release_of_another_lease_closes_nothing():
    yard = half_open()
    yard.live.append(BEE)
    yard.config = PoolConfig(max_global=8, adaptive=True)
    yard.start(ANT)
    yard.end(BEE)
    assert breaker_state(yard) is BreakerState.HALF_OPEN and yard.state.probe == ANT


@pytest.mark.parametrize("slot", [ANT, LeaseSlot("ant")])
def test_reopens_doubled_on_a_report_for_the_probe(slot):
    yard = with_probe(ANT)
    yard.limit(LimitReport(slot, Source.DEATH, Reason.OVERLOAD))
    assert breaker_state(yard) is BreakerState.OPEN
    assert (break_of(yard), yard.state.breaker_reopen_count) == (600, 1)
    yard.end(ANT)
    assert breaker_state(yard) is BreakerState.OPEN


@pytest.mark.parametrize("slot", [ANT, LeaseSlot("ant")])
def test_a_probe_that_is_refused_and_lives_is_counted_and_its_end_decides(slot):
    yard = with_probe(ANT)
    events = yard.state.rate_limit_events
    yard.limit(LimitReport(slot, Source.LIVE, Reason.OVERLOAD))
    assert yard.state.rate_limit_events == events + 1
    assert breaker_state(yard) is BreakerState.HALF_OPEN and yard.state.probe == ANT
    yard.end(ANT)
    assert (breaker_state(yard), yard.cap) == (BreakerState.CLOSED, 1)


@pytest.mark.parametrize("slot", [BEE, LeaseSlot("bee"), LeaseSlot("ant", "2")])
def test_reports_of_others_do_not_reopen(slot):
    yard = with_probe(ANT)
    yard.limit(LimitReport(slot, Source.DEATH, Reason.BURST))
    assert breaker_state(yard) is BreakerState.HALF_OPEN and yard.state.probe == ANT


def test_the_break_doubles_up_to_an_hour():
    yard = pool()
    yard.die(ANT)
    breaks = [break_of(yard)]
    for _ in range(6):
        yard.wait(break_of(yard))
        assert yard.start(ANT)
        yard.die(ANT)
        breaks.append(break_of(yard))
    assert breaks == [300, 600, 1200, 2400, 3600, 3600, 3600]


def test_a_crashed_probe_counts_as_failed_after_its_timeout():
    yard = with_probe(ANT)
    yard.vanish(ANT)
    yard.wait(30 * 60 - 1)
    yard.look()
    assert breaker_state(yard) is BreakerState.HALF_OPEN and not yard.start(BEE)
    yard.wait(1)
    yard.look()
    assert (breaker_state(yard), break_of(yard)) == (BreakerState.OPEN, 600)


def test_a_probe_that_lives_is_waited_for():
    yard = with_probe(ANT)
    yard.wait(DAY.total_seconds())
    yard.look()
    assert breaker_state(yard) is BreakerState.HALF_OPEN and yard.state.probe == ANT


def test_a_probe_that_never_reached_its_provider_closes_nothing_and_another_may_try():
    yard = with_probe(ANT)
    yard.end(ANT, reached=False)
    assert breaker_state(yard) is BreakerState.HALF_OPEN
    assert yard.start(BEE) and not yard.start(ANT)
    yard.end(BEE)
    assert breaker_state(yard) is BreakerState.CLOSED


def test_a_break_from_the_future_ends_in_its_own_time():
    yard = pool()
    yard.die(ANT)
    yard.wait(-DAY.total_seconds())
    yard.look()
    yard.wait(300)
    assert yard.start(ANT)


@pytest.mark.parametrize("policy", ["aimd", "served"])
def test_a_probe_that_nobody_follows_closes_it_when_it_has_lived_for_long(policy):
    yard = Pool(
        POLICIES[policy], PoolConfig(max_global=1, adaptive=True), unobserved=frozenset({ANT})
    )
    yard.state = with_probe(ANT).state
    yard.live, yard.now = [ANT], yard.state.probe_admitted_at
    yard.wait(30 * 60 - 1)
    assert not yard.start(BEE) and breaker_state(yard) is BreakerState.HALF_OPEN
    yard.wait(1)
    yard.look()
    assert breaker_state(yard) is BreakerState.CLOSED and yard.cap == 1
    # It was wrong: the next one is refused, and opens it again.
    yard.wait(300)
    yard.die(BEE)
    assert policy == "served" or breaker_state(yard) is BreakerState.OPEN


def test_a_probe_that_is_followed_is_waited_for_as_long_as_it_lives():
    yard = with_probe()
    yard.wait(30 * 3600)
    assert not yard.start(BEE) and breaker_state(yard) is BreakerState.HALF_OPEN
