"""The policy `aimd`: raise the cap step by step, lower it by a factor. Pure functions."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hostler.governor.adaptive import breaker, spacing
from hostler.governor.adaptive.model import (
    CONGESTION,
    BreakerState,
    ClosedGate,
    LeaseSlot,
    LimitAnnouncement,
    LimitReport,
    PoolConfig,
    PoolLoad,
    PoolState,
    RateLimitEvent,
    Source,
)

FLOOR = 1
# Add one agent after each such time without a change.
PROBE_EVERY = timedelta(seconds=300)
# This many agents refused within this time are a burst, which lowers the cap by more.
BURST_WINDOW = timedelta(seconds=30)
BURST_SLOTS = 3
FACTOR, BURST_FACTOR = 2, 4
# This many decreases within this time open the breaker: lowering does not help.
DECREASES_WINDOW = timedelta(minutes=10)
DECREASES_THAT_OPEN = 3
# More events than this are not needed to see a burst.
MAX_REMEMBERED_EVENTS = 64


class Aimd:
    """Additive increase, multiplicative decrease, with settle windows and a breaker."""

    def cap(self, config: PoolConfig, state: PoolState) -> int:
        return effective_cap(config, state)

    def advance(
        self, config: PoolConfig, state: PoolState, now: datetime, load: PoolLoad
    ) -> PoolState:
        if (probe := breaker.timed_out_probe(state, now, load)) is not None:
            state = self.on_release(config, state, now, probe, reached=True)
        return increase_cap(config, breaker.tick(config, state, now, load), now)

    def closed_gate(self, config: PoolConfig, state: PoolState, now: datetime) -> ClosedGate | None:
        return breaker.closed_gate(state, now) or spacing.closed_gate(state, now)

    def on_start(
        self, config: PoolConfig, state: PoolState, now: datetime, slot: LeaseSlot, fraction: float
    ) -> PoolState:
        return spacing.schedule_next_start(
            config, breaker.admit_probe(state, now, slot), now, fraction
        )

    def on_limit(
        self, config: PoolConfig, state: PoolState, now: datetime, report: LimitReport
    ) -> PoolState:
        if report.reason not in CONGESTION:
            return state
        state = count_event(state, now)
        if report.source is Source.LIVE:
            # A probe too: while it runs it retries by itself, and its end decides.
            return state
        if breaker.is_of_probe(state, report.slot):
            return breaker.open_breaker(config, state, now)
        return decrease_cap(config, remember_event(state, now, report.slot), now)

    def on_announcement(
        self, config: PoolConfig, state: PoolState, now: datetime, announcement: LimitAnnouncement
    ) -> PoolState:
        return state

    def on_answers(
        self,
        config: PoolConfig,
        state: PoolState,
        now: datetime,
        slot: LeaseSlot,
        requests: int,
    ) -> PoolState:
        return state

    def on_release(
        self,
        config: PoolConfig,
        state: PoolState,
        now: datetime,
        slot: LeaseSlot,
        *,
        reached: bool,
    ) -> PoolState:
        if state.probe is None or state.probe != slot:
            return state
        if not reached:
            return breaker.drop_probe(state)
        return change_cap(config, breaker.close_breaker(state), now, FLOOR)


def effective_cap(config: PoolConfig, state: PoolState) -> int:
    """Return the cap in force: the adaptive one if set, within its bounds."""
    return max(FLOOR, min(state.dynamic_cap or config.max_global, config.hard_max))


def change_cap(config: PoolConfig, state: PoolState, now: datetime, cap: int) -> PoolState:
    """Set the cap, and start the settle window."""
    settle_until = now + timedelta(seconds=max(0.0, config.settle_seconds))
    return replace(state, dynamic_cap=cap, settle_until=settle_until)


def is_settling(state: PoolState, now: datetime) -> bool:
    """Return True during the settle window after a change."""
    return state.settle_until is not None and now < state.settle_until


def count_event(state: PoolState, now: datetime) -> PoolState:
    """Count a rate-limit event, whether or not it changes the cap."""
    events = state.rate_limit_events + 1
    return replace(state, rate_limit_events=events, last_rate_limit_at=now)


def remember_event(state: PoolState, now: datetime, slot: LeaseSlot) -> PoolState:
    """Remember which agents were refused lately, each once."""
    recent_events = (
        seen
        for seen in state.recent_rate_limit_events
        if seen.slot != slot and now - seen.at <= BURST_WINDOW
    )
    recent = (*recent_events, RateLimitEvent(now, slot))[-MAX_REMEMBERED_EVENTS:]
    return replace(state, recent_rate_limit_events=recent)


def decrease_cap(config: PoolConfig, state: PoolState, now: datetime) -> PoolState:
    """Lower the cap, unless it settles or the breaker is open. At the floor, open the breaker."""
    if state.breaker_state is not BreakerState.CLOSED or is_settling(state, now):
        return state
    cap = effective_cap(config, state)
    if cap == FLOOR:
        return breaker.open_breaker(config, state, now)
    burst = len(state.recent_rate_limit_events) >= BURST_SLOTS
    lower = change_cap(config, state, now, max(FLOOR, cap // (BURST_FACTOR if burst else FACTOR)))
    recent = tuple(at for at in state.recent_decreases if now - at <= DECREASES_WINDOW)
    lower = replace(lower, last_decrease_at=now, recent_decreases=(*recent, now))
    if len(lower.recent_decreases) < DECREASES_THAT_OPEN:
        return lower
    return breaker.open_breaker(config, lower, now)


def increase_cap(config: PoolConfig, state: PoolState, now: datetime) -> PoolState:
    """Add one agent for each full quiet period since the last change settled."""
    if state.breaker_state is not BreakerState.CLOSED or is_settling(state, now):
        return state
    anchors = [at for at in (state.settle_until, state.last_probe_at) if at is not None]
    if not anchors:
        return replace(state, last_probe_at=now)
    steps = (now - max(anchors)) // PROBE_EVERY
    if steps < 1:
        return state
    # Move the anchor at the upper bound too: raising the bound later must not release saved steps.
    state = replace(state, last_probe_at=now)
    cap = effective_cap(config, state)
    raised = min(cap + steps, max(FLOOR, config.hard_max))
    return state if raised <= cap else change_cap(config, state, now, raised)
