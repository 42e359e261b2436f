"""Rules: starts in a pool keep a distance, so that no herd leaves at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hostler.governor.overlay import Breaker, Knobs, Overlay, Shut

GATE = "spacing"


def shut(overlay: Overlay, now: datetime) -> Shut | None:
    """What stands before everybody right after a start. A probe is alone, and exempt."""
    until = overlay.next_dispatch_at
    if overlay.breaker_state is not Breaker.CLOSED or until is None or now >= until:
        return None
    what = "another agent has just started"
    return Shut(GATE, what, overlay.last_dispatch_at, until)


def spaced(knobs: Knobs, overlay: Overlay, now: datetime, roll: float) -> Overlay:
    """After a start: half of the distance for the lowest roll, half more for the highest."""
    if overlay.breaker_state is not Breaker.CLOSED:
        return overlay
    distance = timedelta(seconds=max(0.0, knobs.min_dispatch_interval_seconds) * (0.5 + roll))
    return replace(overlay, last_dispatch_at=now, next_dispatch_at=now + distance)
