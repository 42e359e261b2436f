"""Circuit breaker: open, half-open with one probe, closed. Pure functions."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hostler.backoff import backoff
from hostler.governor.adaptive.model import (
    BreakerState,
    ClosedGate,
    LeaseSlot,
    PoolConfig,
    PoolLoad,
    PoolState,
)
from hostler.governor.adaptive.state import max_break

GATE = "breaker"
# A probe whose lease is gone counts as failed after this long.
PROBE_TIMEOUT = timedelta(minutes=30)


def open_breaker(config: PoolConfig, state: PoolState, now: datetime) -> PoolState:
    """Open the breaker: no start for a while, twice as long each time in a row."""
    again = state.breaker_state is not BreakerState.CLOSED
    count = max(0, state.breaker_reopen_count) + 1 if again else 0
    return replace(
        state,
        breaker_state=BreakerState.OPEN,
        breaker_open_at=now,
        breaker_break_seconds=backoff(count, max(0.0, config.break_seconds), max_break(config)),
        breaker_reopen_count=count,
        probe=None,
        probe_admitted_at=None,
        recent_decreases=(),
    )


def tick(config: PoolConfig, state: PoolState, now: datetime, load: PoolLoad) -> PoolState:
    """Half-open after the break. A probe that vanished long ago counts as failed."""
    state = half_open_if_due(state, now)
    if state.probe is None or state.probe in load.slots:
        return state
    admitted = state.probe_admitted_at
    if admitted is None or now - admitted < PROBE_TIMEOUT:
        return state
    return open_breaker(config, state, now)


def timed_out_probe(state: PoolState, now: datetime, load: PoolLoad) -> LeaseSlot | None:
    """Return a probe whose responses are not followed, once it has run for long enough.

    No refusal was reported meanwhile, so it counts as a success. If that was wrong, the next
    refusal reopens the breaker.
    """
    probe, admitted = state.probe, state.probe_admitted_at
    if probe not in load.unobserved or admitted is None or now - admitted < PROBE_TIMEOUT:
        return None
    return probe


def half_open_if_due(state: PoolState, now: datetime) -> PoolState:
    """Half-open the breaker if its break is over."""
    if state.breaker_state is not BreakerState.OPEN or now < _break_ends(state, now):
        return state
    return half_open(state)


def half_open(state: PoolState) -> PoolState:
    """Allow one probe."""
    return replace(state, breaker_state=BreakerState.HALF_OPEN, probe=None, probe_admitted_at=None)


def closed_gate(state: PoolState, now: datetime) -> ClosedGate | None:
    """Return the gate that is closed while the breaker is open, or a probe is running."""
    state = half_open_if_due(state, now)
    if state.breaker_state is BreakerState.OPEN:
        until = _break_ends(state, now)
        what = f"circuit breaker open until {until:%H:%M:%S} UTC"
        return ClosedGate(GATE, what, state.breaker_open_at, until)
    if state.probe is None:
        return None
    owner = " ".join(filter(None, (state.probe.project, state.probe.task)))
    what = f"circuit breaker half-open: probing with {owner}"
    return ClosedGate(GATE, what, state.probe_admitted_at)


def admit_probe(state: PoolState, now: datetime, slot: LeaseSlot) -> PoolState:
    """Make the first start after a break the probe."""
    state = half_open_if_due(state, now)
    if state.breaker_state is not BreakerState.HALF_OPEN or state.probe is not None:
        return state
    return replace(state, probe=slot, probe_admitted_at=now)


def is_of_probe(state: PoolState, slot: LeaseSlot) -> bool:
    """Return True if a report may be the probe's. One without a task may be any agent's."""
    probe = state.probe
    return probe is not None and slot in (probe, LeaseSlot(probe.project))


def drop_probe(state: PoolState) -> PoolState:
    """Forget a probe that ended without a response: another agent has to try."""
    return replace(state, probe=None, probe_admitted_at=None)


def close_breaker(state: PoolState) -> PoolState:
    """Close the breaker. The cap is not changed."""
    return replace(
        state,
        breaker_state=BreakerState.CLOSED,
        breaker_open_at=None,
        breaker_break_seconds=0.0,
        breaker_reopen_count=0,
        probe=None,
        probe_admitted_at=None,
        damaged_at=None,
    )


def _break_ends(state: PoolState, now: datetime) -> datetime:
    return (state.breaker_open_at or now) + timedelta(seconds=state.breaker_break_seconds)
