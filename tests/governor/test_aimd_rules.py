"""The numbers and borders of the policy `aimd`, of its breaker and of its spacing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hostler.governor.adaptive import breaker, spacing
from hostler.governor.adaptive.aimd import (
    Aimd,
    change_cap,
    count_event,
    decrease_cap,
    effective_cap,
    increase_cap,
    is_settling,
    remember_event,
)
from hostler.governor.adaptive.model import (
    BreakerState,
    LeaseSlot,
    LimitAnnouncement,
    LimitReport,
    PoolConfig,
    PoolLoad,
    PoolState,
    RateLimitEvent,
    Reason,
    Source,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KNOBS = PoolConfig(max_global=8, hard_max=16, settle_seconds=120.0, break_seconds=300.0)
A, B, C = LeaseSlot("a", "t1"), LeaseSlot("b", "t2"), LeaseSlot("c", "t3")
QUIET = PoolLoad(0, waiting=False)
AIMD = Aimd()


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def ahead(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def seen(*slots: LeaseSlot) -> tuple[RateLimitEvent, ...]:
    return tuple(RateLimitEvent(NOW, slot) for slot in slots)


def death(slot: LeaseSlot = A, reason: Reason = Reason.BURST) -> LimitReport:
    return LimitReport(slot, Source.DEATH, reason)


# -- the cap ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("learned", "cap"), [(0, 8), (1, 1), (5, 5), (16, 16), (17, 16), (-3, 1)])
def test_the_cap_in_force_is_the_learned_one_within_its_bounds(learned, cap):
    assert effective_cap(KNOBS, PoolState(dynamic_cap=learned)) == cap


def test_a_hard_max_below_one_leaves_one_agent():
    assert effective_cap(replace(KNOBS, hard_max=0), PoolState()) == 1
    assert AIMD.cap(KNOBS, PoolState(dynamic_cap=3)) == 3


@pytest.mark.parametrize(
    ("cap", "after_one", "after_burst"),
    [(16, 8, 4), (12, 6, 3), (9, 4, 2), (8, 4, 2), (4, 2, 1), (3, 1, 1), (2, 1, 1)],
)
def test_one_refused_agent_halves_the_cap_and_a_burst_quarters_it(cap, after_one, after_burst):
    state = PoolState(dynamic_cap=cap, recent_rate_limit_events=seen(A, B))
    assert decrease_cap(KNOBS, state, NOW).dynamic_cap == after_one
    state = replace(state, recent_rate_limit_events=seen(A, B, C))
    assert decrease_cap(KNOBS, state, NOW).dynamic_cap == after_burst


def test_a_lowered_cap_settles_and_is_remembered():
    after = decrease_cap(KNOBS, PoolState(dynamic_cap=8), NOW)
    assert after.settle_until == ahead(120) and after.last_decrease_at == NOW
    assert after.recent_decreases == (NOW,) and after.breaker_state is BreakerState.CLOSED


def test_nothing_is_lowered_while_a_change_settles_or_the_breaker_is_not_closed():
    waiting = PoolState(dynamic_cap=8, settle_until=ahead(1))
    assert decrease_cap(KNOBS, waiting, NOW) is waiting
    for breaker_state in (BreakerState.OPEN, BreakerState.HALF_OPEN):
        held = PoolState(dynamic_cap=8, breaker_state=breaker_state)
        assert decrease_cap(KNOBS, held, NOW) is held


def test_a_change_has_settled_at_its_moment():
    assert is_settling(PoolState(settle_until=ahead(1)), NOW)
    assert not is_settling(PoolState(settle_until=NOW), NOW)
    assert not is_settling(PoolState(), NOW)


def test_a_change_settles_for_the_operators_seconds_and_never_in_the_past():
    assert change_cap(KNOBS, PoolState(), NOW, 3) == PoolState(
        dynamic_cap=3, settle_until=ahead(120)
    )
    none = replace(KNOBS, settle_seconds=-5.0)
    assert change_cap(none, PoolState(), NOW, 3).settle_until == NOW
    half = replace(KNOBS, settle_seconds=0.5)
    assert change_cap(half, PoolState(), NOW, 3).settle_until == ahead(0.5)


def test_at_one_agent_a_refusal_opens_the_breaker():
    after = decrease_cap(KNOBS, PoolState(dynamic_cap=1), NOW)
    assert after.breaker_state is BreakerState.OPEN and after.dynamic_cap == 1
    assert after.recent_decreases == () and after.last_decrease_at is None


def test_the_third_decrease_within_ten_minutes_opens_the_breaker():
    two = (ago(600), ago(1))
    after = decrease_cap(KNOBS, PoolState(dynamic_cap=8, recent_decreases=two), NOW)
    assert after.breaker_state is BreakerState.OPEN and after.dynamic_cap == 4
    one_old = (ago(600.001), ago(1))
    after = decrease_cap(KNOBS, PoolState(dynamic_cap=8, recent_decreases=one_old), NOW)
    assert after.breaker_state is BreakerState.CLOSED and after.recent_decreases == (ago(1), NOW)


# -- what is remembered ----------------------------------------------------------------------------


def test_each_refusal_is_counted_with_its_moment():
    after = count_event(PoolState(rate_limit_events=4), NOW)
    assert (after.rate_limit_events, after.last_rate_limit_at) == (5, NOW)


def test_an_agent_is_remembered_once_and_for_thirty_seconds():
    known = (RateLimitEvent(ago(30), B), RateLimitEvent(ago(30.001), C), RateLimitEvent(ago(5), A))
    after = remember_event(PoolState(recent_rate_limit_events=known), NOW, A)
    assert after.recent_rate_limit_events == (RateLimitEvent(ago(30), B), RateLimitEvent(NOW, A))


def test_the_last_64_agents_are_remembered():
    many = tuple(RateLimitEvent(ago(1), LeaseSlot("p", f"t{number}")) for number in range(70))
    after = remember_event(
        PoolState(recent_rate_limit_events=many), NOW, A
    ).recent_rate_limit_events
    assert len(after) == 64 and after[-1] == RateLimitEvent(NOW, A) and after[0] == many[7]


# -- growth ----------------------------------------------------------------------------------------


def test_the_first_look_starts_the_quiet_while():
    assert increase_cap(KNOBS, PoolState(), NOW) == PoolState(last_probe_at=NOW)


@pytest.mark.parametrize(
    ("quiet", "cap"), [(299.9, 8), (300, 9), (599.9, 9), (600, 10), (3000, 16), (9999, 16)]
)
def test_one_agent_more_for_each_quiet_five_minutes_up_to_the_hard_max(quiet, cap):
    before = PoolState(dynamic_cap=8, last_probe_at=ago(quiet))
    after = increase_cap(KNOBS, before, NOW)
    assert effective_cap(KNOBS, after) == cap
    if cap == 8:
        assert after is before
    else:
        assert after.last_probe_at == NOW and after.settle_until == ahead(120)


def test_the_quiet_while_begins_when_the_last_change_has_settled():
    late = PoolState(dynamic_cap=8, settle_until=ago(299), last_probe_at=ago(900))
    assert increase_cap(KNOBS, late, NOW) is late
    early = PoolState(dynamic_cap=8, settle_until=ago(300), last_probe_at=ago(900))
    assert increase_cap(KNOBS, early, NOW).dynamic_cap == 9
    alone = PoolState(dynamic_cap=8, settle_until=ago(300))
    assert increase_cap(KNOBS, alone, NOW).dynamic_cap == 9


def test_at_the_hard_max_the_steps_are_not_saved_up():
    before = PoolState(dynamic_cap=16, last_probe_at=ago(3000))
    assert increase_cap(KNOBS, before, NOW) == replace(before, last_probe_at=NOW)
    one = replace(KNOBS, hard_max=0)
    before = PoolState(dynamic_cap=1, last_probe_at=ago(3000))
    assert increase_cap(one, before, NOW) == replace(before, last_probe_at=NOW)


def test_nothing_grows_while_a_change_settles_or_the_breaker_is_not_closed():
    settles = PoolState(dynamic_cap=8, settle_until=ahead(1), last_probe_at=ago(3000))
    assert increase_cap(KNOBS, settles, NOW) is settles
    for breaker_state in (BreakerState.OPEN, BreakerState.HALF_OPEN):
        held = PoolState(dynamic_cap=8, breaker_state=breaker_state, last_probe_at=ago(3000))
        assert increase_cap(KNOBS, held, NOW) is held


# -- reports ---------------------------------------------------------------------------------------


def test_a_limit_that_asks_for_a_pause_changes_nothing():
    before = PoolState(dynamic_cap=8)
    for reason in (Reason.QUOTA, Reason.BILLING):
        assert AIMD.on_limit(KNOBS, before, NOW, death(reason=reason)) is before


def test_a_living_agent_that_is_refused_is_counted_only():
    report = LimitReport(A, Source.LIVE, Reason.BURST)
    assert AIMD.on_limit(KNOBS, PoolState(dynamic_cap=8), NOW, report) == PoolState(
        dynamic_cap=8, rate_limit_events=1, last_rate_limit_at=NOW
    )


def test_an_agent_that_died_of_a_limit_is_remembered_and_lowers_the_cap():
    after = AIMD.on_limit(KNOBS, PoolState(dynamic_cap=8), NOW, death(reason=Reason.OVERLOAD))
    assert after.dynamic_cap == 4 and after.rate_limit_events == 1
    assert after.recent_rate_limit_events == seen(A)


def test_a_probe_that_dies_of_a_limit_opens_the_breaker_for_twice_as_long():
    probing = PoolState(
        dynamic_cap=8,
        breaker_state=BreakerState.HALF_OPEN,
        breaker_break_seconds=300.0,
        probe=A,
        probe_admitted_at=ago(5),
    )
    after = AIMD.on_limit(KNOBS, probing, NOW, death())
    assert after.breaker_state is BreakerState.OPEN and after.breaker_break_seconds == 600.0
    assert after.rate_limit_events == 1 and after.recent_rate_limit_events == ()
    other = AIMD.on_limit(KNOBS, probing, NOW, death(B))
    assert other.breaker_state is BreakerState.HALF_OPEN and other.dynamic_cap == 8


def test_announcements_and_answers_teach_it_nothing():
    before = PoolState(dynamic_cap=8)
    assert AIMD.on_announcement(KNOBS, before, NOW, LimitAnnouncement(A, 0.5)) is before
    assert AIMD.on_answers(KNOBS, before, NOW, A, 3) is before


def test_a_probe_that_was_answered_closes_the_breaker_at_one_agent():
    probing = PoolState(dynamic_cap=8, breaker_state=BreakerState.HALF_OPEN, probe=A)
    after = AIMD.on_release(KNOBS, probing, NOW, A, reached=True)
    assert after == PoolState(dynamic_cap=1, settle_until=ahead(120))
    again = AIMD.on_release(KNOBS, probing, NOW, A, reached=False)
    assert again == replace(probing, probe=None)
    assert AIMD.on_release(KNOBS, probing, NOW, B, reached=True) is probing
    assert AIMD.on_release(KNOBS, PoolState(), NOW, A, reached=True) == PoolState()


def test_time_alone_closes_the_breaker_by_a_mute_probe_that_lives():
    probing = PoolState(
        dynamic_cap=8, breaker_state=BreakerState.HALF_OPEN, probe=A, probe_admitted_at=ago(1800)
    )
    load = PoolLoad(1, waiting=True, slots=frozenset({A}), unobserved=frozenset({A}))
    after = AIMD.advance(KNOBS, probing, NOW, load)
    assert after.breaker_state is BreakerState.CLOSED and after.dynamic_cap == 1
    heard = replace(load, unobserved=frozenset())
    assert AIMD.advance(KNOBS, probing, NOW, heard).breaker_state is BreakerState.HALF_OPEN


def test_the_breaker_is_told_before_the_spacing():
    both = PoolState(
        breaker_state=BreakerState.OPEN,
        breaker_open_at=NOW,
        breaker_break_seconds=300.0,
        next_dispatch_at=ahead(1),
    )
    assert AIMD.closed_gate(KNOBS, both, NOW).gate == "breaker"
    spaced = replace(both, breaker_state=BreakerState.CLOSED)
    assert AIMD.closed_gate(KNOBS, spaced, NOW).gate == "spacing"
    assert AIMD.closed_gate(KNOBS, PoolState(), NOW) is None


# -- the breaker -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "seconds"), [(-9, 600), (0, 600), (1, 1200), (2, 2400), (3, 3600), (5000, 3600)]
)
def test_each_break_in_a_row_is_twice_as_long_up_to_an_hour(count, seconds):
    again = PoolState(breaker_state=BreakerState.HALF_OPEN, breaker_reopen_count=count)
    after = breaker.open_breaker(KNOBS, again, NOW)
    assert after.breaker_break_seconds == seconds
    assert after.breaker_reopen_count == max(0, count) + 1


def test_the_first_break_is_as_long_as_the_operator_says():
    first = PoolState(
        breaker_reopen_count=7, recent_decreases=(NOW,), probe=A, probe_admitted_at=NOW
    )
    assert breaker.open_breaker(KNOBS, first, NOW) == PoolState(
        breaker_state=BreakerState.OPEN, breaker_open_at=NOW, breaker_break_seconds=300.0
    )
    long = replace(KNOBS, break_seconds=7200.0)
    assert breaker.open_breaker(long, PoolState(), NOW).breaker_break_seconds == 7200.0
    none = replace(KNOBS, break_seconds=-1.0)
    assert breaker.open_breaker(none, PoolState(), NOW).breaker_break_seconds == 0.0
    tiny = replace(KNOBS, break_seconds=1e-6)
    often = PoolState(breaker_state=BreakerState.OPEN, breaker_reopen_count=99)
    assert breaker.open_breaker(tiny, often, NOW).breaker_break_seconds == 1e-6 * 2**30
    half = replace(KNOBS, break_seconds=0.5)
    assert breaker.open_breaker(half, PoolState(), NOW).breaker_break_seconds == 0.5


def opened(seconds_ago: float) -> PoolState:
    return PoolState(
        breaker_state=BreakerState.OPEN,
        breaker_open_at=ago(seconds_ago),
        breaker_break_seconds=300.0,
    )


def test_a_break_is_over_at_its_moment():
    assert breaker.half_open_if_due(opened(299.9), NOW) == opened(299.9)
    assert breaker.half_open_if_due(opened(300), NOW).breaker_state is BreakerState.HALF_OPEN
    closed = PoolState(breaker_open_at=ago(999))
    assert breaker.half_open_if_due(closed, NOW) is closed


def test_an_open_breaker_says_since_when_and_until_when():
    closed = breaker.closed_gate(opened(100), NOW)
    assert (closed.gate, closed.since, closed.until) == ("breaker", ago(100), ahead(200))
    assert "12:03:20 UTC" in closed.what
    assert (
        breaker.closed_gate(opened(300), NOW) is None
        and breaker.closed_gate(PoolState(), NOW) is None
    )


def test_a_break_without_a_beginning_ends_after_its_seconds():
    damaged = PoolState(breaker_state=BreakerState.OPEN, breaker_break_seconds=60.0)
    assert breaker.closed_gate(damaged, NOW).until == ahead(60)


def test_while_a_probe_tries_everybody_else_waits_without_an_end():
    tries = PoolState(breaker_state=BreakerState.HALF_OPEN, probe=A, probe_admitted_at=ago(9))
    closed = breaker.closed_gate(tries, NOW)
    assert (closed.gate, closed.since, closed.until) == ("breaker", ago(9), None)
    assert "probing with a t1" in closed.what
    nameless = replace(tries, probe=LeaseSlot("a"))
    assert "probing with a" in breaker.closed_gate(nameless, NOW).what


def test_the_first_to_start_after_a_break_is_the_probe():
    after = breaker.admit_probe(opened(300), NOW, A)
    assert (after.probe, after.probe_admitted_at) == (A, NOW)
    assert breaker.admit_probe(after, ahead(1), B) is after
    assert breaker.admit_probe(opened(10), NOW, A).probe is None
    assert breaker.admit_probe(PoolState(), NOW, A) == PoolState()


def test_a_probe_that_vanished_half_an_hour_ago_has_failed():
    tries = PoolState(breaker_state=BreakerState.HALF_OPEN, probe=A, probe_admitted_at=ago(1800))
    assert breaker.tick(KNOBS, tries, NOW, QUIET).breaker_state is BreakerState.OPEN
    younger = replace(tries, probe_admitted_at=ago(1799))
    assert breaker.tick(KNOBS, younger, NOW, QUIET) is younger
    alive = PoolLoad(1, waiting=False, slots=frozenset({A}))
    assert breaker.tick(KNOBS, tries, NOW, alive) is tries
    undated = replace(tries, probe_admitted_at=None)
    assert breaker.tick(KNOBS, undated, NOW, QUIET) is undated
    none = replace(tries, probe=None)
    assert breaker.tick(KNOBS, none, NOW, QUIET) is none


def test_a_break_that_is_over_waits_for_a_probe():
    assert breaker.tick(KNOBS, opened(300), NOW, QUIET).breaker_state is BreakerState.HALF_OPEN


def test_a_mute_probe_survives_after_half_an_hour():
    load = PoolLoad(1, waiting=False, unobserved=frozenset({A}))
    tries = PoolState(breaker_state=BreakerState.HALF_OPEN, probe=A, probe_admitted_at=ago(1800))
    assert breaker.timed_out_probe(tries, NOW, load) == A
    assert breaker.timed_out_probe(replace(tries, probe_admitted_at=ago(1799)), NOW, load) is None
    assert breaker.timed_out_probe(replace(tries, probe_admitted_at=None), NOW, load) is None
    assert breaker.timed_out_probe(tries, NOW, QUIET) is None


def test_a_report_without_a_task_may_be_the_probes():
    tries = PoolState(breaker_state=BreakerState.HALF_OPEN, probe=A)
    assert breaker.is_of_probe(tries, A) and breaker.is_of_probe(tries, LeaseSlot("a"))
    assert not breaker.is_of_probe(tries, B) and not breaker.is_of_probe(
        tries, LeaseSlot("a", "t9")
    )
    assert not breaker.is_of_probe(PoolState(), A)


def test_closing_forgets_everything_but_the_cap():
    before = PoolState(
        dynamic_cap=3,
        breaker_state=BreakerState.HALF_OPEN,
        breaker_open_at=NOW,
        breaker_break_seconds=5.0,
        breaker_reopen_count=2,
        probe=A,
        probe_admitted_at=NOW,
        damaged_at=NOW,
        rate_limit_events=7,
    )
    assert breaker.close_breaker(before) == PoolState(dynamic_cap=3, rate_limit_events=7)
    assert breaker.drop_probe(before) == replace(before, probe=None, probe_admitted_at=None)


# -- the spacing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("roll", "seconds"), [(0.0, 1.5), (0.5, 3.0), (1.0, 4.5)])
def test_starts_keep_half_to_one_and_a_half_of_the_distance(roll, seconds):
    after = spacing.schedule_next_start(KNOBS, PoolState(), NOW, roll)
    assert after == PoolState(last_dispatch_at=NOW, next_dispatch_at=ahead(seconds))


def test_a_negative_distance_is_none_and_a_probe_is_exempt():
    none = replace(KNOBS, min_dispatch_interval_seconds=-3.0)
    assert spacing.schedule_next_start(none, PoolState(), NOW, 1.0).next_dispatch_at == NOW
    half = replace(KNOBS, min_dispatch_interval_seconds=0.5)
    assert spacing.schedule_next_start(half, PoolState(), NOW, 0.5).next_dispatch_at == ahead(0.5)
    tries = PoolState(breaker_state=BreakerState.HALF_OPEN)
    assert spacing.schedule_next_start(KNOBS, tries, NOW, 1.0) is tries


def test_the_next_may_start_at_its_moment():
    waits = PoolState(last_dispatch_at=ago(1), next_dispatch_at=ahead(2))
    closed = spacing.closed_gate(waits, NOW)
    assert (closed.gate, closed.since, closed.until) == ("spacing", ago(1), ahead(2))
    assert spacing.closed_gate(replace(waits, next_dispatch_at=NOW), NOW) is None
    assert spacing.closed_gate(PoolState(), NOW) is None
    assert spacing.closed_gate(replace(waits, breaker_state=BreakerState.HALF_OPEN), NOW) is None


def test_a_start_is_spaced_and_may_be_the_probe():
    after = AIMD.on_start(KNOBS, PoolState(), NOW, A, 0.5)
    assert after == PoolState(last_dispatch_at=NOW, next_dispatch_at=ahead(3))
    assert AIMD.on_start(KNOBS, opened(300), NOW, A, 0.5).probe == A
