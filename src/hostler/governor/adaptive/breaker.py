"""Circuit breaker: open, half-open with one probe, closed. Pure functions."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hostler.governor.adaptive.model import (
    Breaker,
    ClosedGate,
    LeaseSlot,
    PoolConfig,
    PoolLoad,
    PoolState,
)
from hostler.governor.adaptive.state import max_break

GATE = "breaker"
# After this long without the probe's lease nobody waits for news of it.
PROBE_TIMEOUT = timedelta(minutes=30)
# Far beyond what fits below the longest break: a number may be damaged, a power may not overflow.
MAX_DOUBLINGS = 30


def open_breaker(knobs: PoolConfig, overlay: PoolState, now: datetime) -> PoolState:
    """Nobody starts for a while; each time in a row for twice as long."""
    again = overlay.breaker_state is not Breaker.CLOSED
    count = max(0, overlay.breaker_reopen_count) + 1 if again else 0
    doubled = max(0.0, knobs.break_seconds) * 2.0 ** min(count, MAX_DOUBLINGS)
    return replace(
        overlay,
        breaker_state=Breaker.OPEN,
        breaker_open_at=now,
        breaker_break_seconds=min(doubled, max_break(knobs)),
        breaker_reopen_count=count,
        probe=None,
        probe_admitted_at=None,
        recent_decreases=(),
    )


def tick(knobs: PoolConfig, overlay: PoolState, now: datetime, load: PoolLoad) -> PoolState:
    """A break that is over asks for a probe; a probe that vanished long ago counts as failed."""
    overlay = half_open_if_due(overlay, now)
    if overlay.probe is None or overlay.probe in load.slots:
        return overlay
    admitted = overlay.probe_admitted_at
    if admitted is None or now - admitted < PROBE_TIMEOUT:
        return overlay
    return open_breaker(knobs, overlay, now)


def after_probe_timeout(overlay: PoolState, now: datetime, load: PoolLoad) -> LeaseSlot | None:
    """A probe of which nobody will ever hear, but which has lived on for so long.

    Nobody was told of a refusal meanwhile. Whoever starts next is refused if that was wrong, and
    opens it again; otherwise all would wait for as long as it lives.
    """
    probe, admitted = overlay.probe, overlay.probe_admitted_at
    if probe not in load.mute or admitted is None or now - admitted < PROBE_TIMEOUT:
        return None
    return probe


def half_open_if_due(overlay: PoolState, now: datetime) -> PoolState:
    """Half-open, once the break is over."""
    if overlay.breaker_state is not Breaker.OPEN or now < _break_ends(overlay, now):
        return overlay
    return half_opened(overlay)


def half_opened(overlay: PoolState) -> PoolState:
    """One may try."""
    return replace(overlay, breaker_state=Breaker.HALF_OPEN, probe=None, probe_admitted_at=None)


def closed_gate(overlay: PoolState, now: datetime) -> ClosedGate | None:
    """What stands before everybody while it is open, or while somebody tries."""
    overlay = half_open_if_due(overlay, now)
    if overlay.breaker_state is Breaker.OPEN:
        until = _break_ends(overlay, now)
        what = f"the provider refused too often, and nobody starts until {until:%H:%M:%S} UTC"
        return ClosedGate(GATE, what, overlay.breaker_open_at, until)
    if overlay.probe is None:
        return None
    whose = " ".join(filter(None, (overlay.probe.project, overlay.probe.task)))
    what = f"the provider refused too often, and one agent ({whose}) tries whether it answers again"
    return ClosedGate(GATE, what, overlay.probe_admitted_at)


def probing(overlay: PoolState, now: datetime, slot: LeaseSlot) -> PoolState:
    """Whoever starts first after a break is the probe."""
    overlay = half_open_if_due(overlay, now)
    if overlay.breaker_state is not Breaker.HALF_OPEN or overlay.probe is not None:
        return overlay
    return replace(overlay, probe=slot, probe_admitted_at=now)


def is_of_probe(overlay: PoolState, slot: LeaseSlot) -> bool:
    """Whether a report may be the probe's: one without a task may be of any agent there."""
    probe = overlay.probe
    return probe is not None and slot in (probe, LeaseSlot(probe.project))


def return_probe(overlay: PoolState) -> PoolState:
    """The probe ended without a word from its provider: another one has to try."""
    return replace(overlay, probe=None, probe_admitted_at=None)


def close_breaker(overlay: PoolState) -> PoolState:
    """Everything as before the first refusal, but for the cap."""
    return replace(
        overlay,
        breaker_state=Breaker.CLOSED,
        breaker_open_at=None,
        breaker_break_seconds=0.0,
        breaker_reopen_count=0,
        probe=None,
        probe_admitted_at=None,
        damaged_at=None,
    )


def _break_ends(overlay: PoolState, now: datetime) -> datetime:
    return (overlay.breaker_open_at or now) + timedelta(seconds=overlay.breaker_break_seconds)
