"""Keep a distance between two starts in a pool. Pure functions."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hostler.governor.adaptive.model import Breaker, ClosedGate, PoolConfig, PoolState

GATE = "spacing"


def closed_gate(overlay: PoolState, now: datetime) -> ClosedGate | None:
    """What stands before everybody right after a start. A probe is alone, and exempt."""
    until = overlay.next_dispatch_at
    if overlay.breaker_state is not Breaker.CLOSED or until is None or now >= until:
        return None
    what = "another agent has just started"
    return ClosedGate(GATE, what, overlay.last_dispatch_at, until)


def spaced(knobs: PoolConfig, overlay: PoolState, now: datetime, roll: float) -> PoolState:
    """After a start: half of the distance for the lowest roll, half more for the highest."""
    if overlay.breaker_state is not Breaker.CLOSED:
        return overlay
    distance = timedelta(seconds=max(0.0, knobs.min_dispatch_interval_seconds) * (0.5 + roll))
    return replace(overlay, last_dispatch_at=now, next_dispatch_at=now + distance)
