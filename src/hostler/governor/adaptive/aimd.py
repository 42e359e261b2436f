"""The policy `aimd`: raise the cap step by step, lower it by a factor. Pure functions."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hostler.governor.adaptive import breaker, spacing
from hostler.governor.adaptive.model import (
    CONGESTION,
    Announced,
    Breaker,
    ClosedGate,
    LeaseSlot,
    PoolConfig,
    PoolLoad,
    PoolState,
    RateLimitEvent,
    Report,
    Source,
)

FLOOR = 1
# One more agent after each such quiet while.
PROBE_EVERY = timedelta(seconds=300)
# So many different agents within so long were refused at once: it takes more than a halving.
BURST_WINDOW = timedelta(seconds=30)
BURST_SLOTS = 3
FACTOR, BURST_FACTOR = 2, 4
# So many decreases within so long mean that lowering does not help.
DECREASES_WINDOW = timedelta(minutes=10)
DECREASES_THAT_OPEN = 3
# More agents than this need not be told apart to see a burst.
REMEMBERED = 64


class Aimd:
    """Additive increase, multiplicative decrease, with settle windows and a breaker."""

    def cap(self, knobs: PoolConfig, overlay: PoolState) -> int:
        return effective_cap(knobs, overlay)

    def passed(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, load: PoolLoad
    ) -> PoolState:
        if (probe := breaker.after_probe_timeout(overlay, now, load)) is not None:
            overlay = self.released(knobs, overlay, now, probe, reached=True)
        return grown(knobs, breaker.tick(knobs, overlay, now, load), now)

    def shut(self, knobs: PoolConfig, overlay: PoolState, now: datetime) -> ClosedGate | None:
        return breaker.closed_gate(overlay, now) or spacing.closed_gate(overlay, now)

    def admitted(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, slot: LeaseSlot, roll: float
    ) -> PoolState:
        return spacing.spaced(knobs, breaker.probing(overlay, now, slot), now, roll)

    def limited(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, report: Report
    ) -> PoolState:
        if report.reason not in CONGESTION:
            return overlay
        overlay = counted(overlay, now)
        if report.source is Source.LIVE:
            # A probe too: while it lives it tries again by itself, and its end decides.
            return overlay
        if breaker.is_of_probe(overlay, report.slot):
            return breaker.open_breaker(knobs, overlay, now)
        return lowered(knobs, remembered(overlay, now, report.slot), now)

    def announced(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, word: Announced
    ) -> PoolState:
        return overlay

    def answered(
        self,
        knobs: PoolConfig,
        overlay: PoolState,
        now: datetime,
        slot: LeaseSlot,
        requests: int,
    ) -> PoolState:
        return overlay

    def released(
        self,
        knobs: PoolConfig,
        overlay: PoolState,
        now: datetime,
        slot: LeaseSlot,
        *,
        reached: bool,
    ) -> PoolState:
        if overlay.probe is None or overlay.probe != slot:
            return overlay
        if not reached:
            return breaker.return_probe(overlay)
        return changed(knobs, breaker.close_breaker(overlay), now, FLOOR)


def effective_cap(knobs: PoolConfig, overlay: PoolState) -> int:
    """The cap in force: the learned one if there is one, within its bounds."""
    return max(FLOOR, min(overlay.dynamic_cap or knobs.max_global, knobs.hard_max))


def changed(knobs: PoolConfig, overlay: PoolState, now: datetime, cap: int) -> PoolState:
    """Another cap. It settles: who started under the old one may be heard of for a while."""
    settled = now + timedelta(seconds=max(0.0, knobs.settle_seconds))
    return replace(overlay, dynamic_cap=cap, settle_until=settled)


def settling(overlay: PoolState, now: datetime) -> bool:
    """Whether the last change is too fresh for another one."""
    return overlay.settle_until is not None and now < overlay.settle_until


def counted(overlay: PoolState, now: datetime) -> PoolState:
    """One more refusal that was heard of, whatever comes of it."""
    events = overlay.rate_limit_events + 1
    return replace(overlay, rate_limit_events=events, last_rate_limit_at=now)


def remembered(overlay: PoolState, now: datetime, slot: LeaseSlot) -> PoolState:
    """The agents that were refused lately: each once, however often it says so."""
    kept = (
        seen
        for seen in overlay.recent_rate_limit_events
        if seen.slot != slot and now - seen.at <= BURST_WINDOW
    )
    recent = (*kept, RateLimitEvent(now, slot))[-REMEMBERED:]
    return replace(overlay, recent_rate_limit_events=recent)


def lowered(knobs: PoolConfig, overlay: PoolState, now: datetime) -> PoolState:
    """Fewer agents, unless a change settles or nobody starts anyway; the breaker at the floor."""
    if overlay.breaker_state is not Breaker.CLOSED or settling(overlay, now):
        return overlay
    cap = effective_cap(knobs, overlay)
    if cap == FLOOR:
        return breaker.open_breaker(knobs, overlay, now)
    burst = len(overlay.recent_rate_limit_events) >= BURST_SLOTS
    lower = changed(knobs, overlay, now, max(FLOOR, cap // (BURST_FACTOR if burst else FACTOR)))
    recent = tuple(at for at in overlay.recent_decreases if now - at <= DECREASES_WINDOW)
    lower = replace(lower, last_decrease_at=now, recent_decreases=(*recent, now))
    if len(lower.recent_decreases) < DECREASES_THAT_OPEN:
        return lower
    return breaker.open_breaker(knobs, lower, now)


def grown(knobs: PoolConfig, overlay: PoolState, now: datetime) -> PoolState:
    """One agent more for each full quiet while since the last change settled."""
    if overlay.breaker_state is not Breaker.CLOSED or settling(overlay, now):
        return overlay
    anchors = [at for at in (overlay.settle_until, overlay.last_probe_at) if at is not None]
    if not anchors:
        return replace(overlay, last_probe_at=now)
    steps = (now - max(anchors)) // PROBE_EVERY
    if steps < 1:
        return overlay
    # At the bound too: a bound that is raised later opens no backlog of steps.
    overlay = replace(overlay, last_probe_at=now)
    cap = effective_cap(knobs, overlay)
    wider = min(cap + steps, max(FLOOR, knobs.hard_max))
    return overlay if wider <= cap else changed(knobs, overlay, now, wider)
