"""Rule: what is stored of a pool, as it may be believed after a jump of the clock or damage."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hostler.governor.overlay import Breaker, Knobs, Overlay, Seen
from hostler.store.transaction import clamped_deadline, not_after

# The longest break there is, unless the operator asks for a longer first one.
LONGEST_BREAK_SECONDS = 3600.0
# The jitter of the spacing reaches from half of it to half of it more.
MOST_SPACING = 1.5
# A provider's word on when to come back is believed for a day: a longer pause parks the pool.
LONGEST_GATE = timedelta(days=1)


def believed(knobs: Knobs, overlay: Overlay, now: datetime) -> Overlay:
    """Past moments are not after now, and deadlines no farther ahead than they could be set.

    What it changes must be stored: a deadline that is clamped anew at each look never passes.
    """
    overlay = _whole(knobs, overlay, now)
    if not _is_off(knobs, overlay, now):
        return overlay
    return replace(
        overlay,
        settle_until=_deadline(overlay.settle_until, now, knobs.settle_seconds),
        last_decrease_at=_past(overlay.last_decrease_at, now),
        last_rate_limit_at=_past(overlay.last_rate_limit_at, now),
        last_probe_at=_past(overlay.last_probe_at, now),
        recent_rate_limit_events=tuple(
            Seen(not_after(seen.at, now), seen.slot) for seen in overlay.recent_rate_limit_events
        ),
        recent_decreases=tuple(not_after(at, now) for at in overlay.recent_decreases),
        breaker_open_at=_past(overlay.breaker_open_at, now),
        breaker_break_seconds=min(overlay.breaker_break_seconds, longest_break(knobs)),
        probe_admitted_at=_past(overlay.probe_admitted_at, now),
        last_dispatch_at=_past(overlay.last_dispatch_at, now),
        next_dispatch_at=_deadline(overlay.next_dispatch_at, now, longest_spacing(knobs)),
        window_at=_past(overlay.window_at, now),
        looked_at=_past(overlay.looked_at, now),
        deaf_since=_past(overlay.deaf_since, now),
        announced_at=_past(overlay.announced_at, now),
        gate_until=_deadline(overlay.gate_until, now, longest_gate(overlay)),
        damaged_at=_past(overlay.damaged_at, now),
    )


def longest_break(knobs: Knobs) -> float:
    """How long the breaker may stay open at most, in seconds."""
    return max(LONGEST_BREAK_SECONDS, knobs.break_seconds)


def longest_gate(overlay: Overlay) -> float:
    """How long the gate may stay closed at most, in seconds: as was said, if that is known."""
    most = LONGEST_GATE.total_seconds()
    return min(overlay.gate_seconds, most) if overlay.gate_seconds > 0 else most


def longest_spacing(knobs: Knobs) -> float:
    """How far ahead of a start the next one may be held, in seconds."""
    return MOST_SPACING * max(0.0, knobs.min_dispatch_interval_seconds)


def _whole(knobs: Knobs, overlay: Overlay, now: datetime) -> Overlay:
    """What belongs together, where damaged rows hold only a part of it."""
    if overlay.breaker_state is Breaker.OPEN and overlay.breaker_open_at is None:
        least = max(overlay.breaker_break_seconds, knobs.break_seconds)
        overlay = replace(overlay, breaker_open_at=now, breaker_break_seconds=least)
    if overlay.probe is None:
        return overlay
    if overlay.breaker_state is not Breaker.HALF_OPEN:
        return replace(overlay, probe=None, probe_admitted_at=None)
    if overlay.probe_admitted_at is None:
        return replace(overlay, probe_admitted_at=now)
    return overlay


def _is_off(knobs: Knobs, overlay: Overlay, now: datetime) -> bool:
    return (
        _is_ahead(knobs, overlay, now)
        or any(at is not None and at > now for at in _past_moments(overlay))
        or overlay.breaker_break_seconds > longest_break(knobs)
    )


def _past_moments(overlay: Overlay) -> tuple[datetime | None, ...]:
    return (
        overlay.last_decrease_at,
        overlay.last_rate_limit_at,
        overlay.last_probe_at,
        overlay.breaker_open_at,
        overlay.probe_admitted_at,
        overlay.last_dispatch_at,
        overlay.window_at,
        overlay.looked_at,
        overlay.deaf_since,
        overlay.announced_at,
        overlay.damaged_at,
        *overlay.recent_decreases,
        *[seen.at for seen in overlay.recent_rate_limit_events],
    )


def _is_ahead(knobs: Knobs, overlay: Overlay, now: datetime) -> bool:
    """Whether a deadline lies farther ahead than it could have been set."""
    deadlines = (
        (overlay.settle_until, knobs.settle_seconds),
        (overlay.next_dispatch_at, longest_spacing(knobs)),
        (overlay.gate_until, longest_gate(overlay)),
    )
    return any(
        at is not None and at > now and at > now + timedelta(seconds=most) for at, most in deadlines
    )


def _past(stored: datetime | None, now: datetime) -> datetime | None:
    return stored and not_after(stored, now)


def _deadline(stored: datetime | None, now: datetime, seconds: float) -> datetime | None:
    return stored and clamped_deadline(stored, now, timedelta(seconds=max(0.0, seconds)))
