"""Keep a distance between two starts in a pool. Pure functions."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hostler.governor.adaptive.model import (
    SPACING_JITTER,
    BreakerState,
    ClosedGate,
    PoolConfig,
    PoolState,
)

GATE = "spacing"


def closed_gate(state: PoolState, now: datetime) -> ClosedGate | None:
    """Return the gate that is closed right after a start. A probe is exempt."""
    until = state.next_dispatch_at
    if state.breaker_state is not BreakerState.CLOSED or until is None or now >= until:
        return None
    what = "another agent has just started"
    return ClosedGate(GATE, what, state.last_dispatch_at, until)


def schedule_next_start(
    config: PoolConfig, state: PoolState, now: datetime, fraction: float
) -> PoolState:
    """Schedule the next start, with jitter by a random fraction in [0, 1)."""
    if state.breaker_state is not BreakerState.CLOSED:
        return state
    jitter = 1 - SPACING_JITTER + 2 * SPACING_JITTER * fraction
    distance = timedelta(seconds=max(0.0, config.min_dispatch_interval_seconds) * jitter)
    return replace(state, last_dispatch_at=now, next_dispatch_at=now + distance)
