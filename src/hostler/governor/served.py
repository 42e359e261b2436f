"""The policy `served`: the cap follows what the provider really serves."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil

from hostler.governor import breaker, measured, spacing
from hostler.governor.aimd import FLOOR, counted, effective_cap
from hostler.governor.overlay import (
    CONGESTION,
    Announced,
    Breaker,
    Knobs,
    Load,
    Overlay,
    Report,
    Shut,
    Slot,
    Source,
)

GATE = "limit"
# One more agent after so long without a refusal.
GROW_EVERY = timedelta(seconds=60)
# The same where the provider says that it has room: it would say so first if it had none.
GROW_EVERY_TOLD = timedelta(seconds=30)
# The same where it says that a part is used: what fills up between two looks may be used up soon.
GROW_EVERY_USED = timedelta(seconds=300)
# Agents that tell nothing of refusals until they die of them leave nothing to measure: then it is
# half after a death and one more after a long while, as `aimd` does it.
SILENT_FACTOR = 2
GROW_EVERY_SILENT = timedelta(seconds=300)
# So many more steps by one before they get larger: most rises are no more than noise.
PATIENCE = 2
# No single step is larger: starts take seconds each, and refusals come late.
LARGEST_STEP = 8
# A provider that is asked for all that it has refuses some of it.
HEADROOM = 0.94
# How much of the way to a lower measure is taken at once: one window may be a poor one.
LOWER_GAIN = 0.5
# An announced use below which there is room, and above which there is too little. The first is
# near 0: a limit of which nothing is used up refills faster than anybody asks.
LOW_USE, HIGH_USE = 0.05, 0.6
# One agent less so often while too much is used.
EASE_EVERY = timedelta(seconds=20)
# An announcement older than this says nothing of now.
FRESH = timedelta(seconds=30)
# A wait this long is a pause and not a queue: it says nothing of how many agents there may be.
PAUSE = timedelta(seconds=30)
# So many refusals over so long without a single answer: nobody is served at all.
DEAF_AFTER = timedelta(seconds=60)
DEAF_REFUSALS = 3


class Served:
    """Measured instead of guessed: no halving, growth while it is quiet, one probe when deaf."""

    def cap(self, knobs: Knobs, overlay: Overlay) -> int:
        return effective_cap(knobs, overlay)

    def passed(self, knobs: Knobs, overlay: Overlay, now: datetime, load: Load) -> Overlay:
        if (probe := breaker.survivor(overlay, now, load)) is not None:
            overlay = self.released(knobs, overlay, now, probe, reached=True)
        overlay = breaker.waited(knobs, overlay, now, load)
        if _pausing(overlay, now):
            return measured.forgotten(overlay, now)
        overlay = measured.noted(overlay, now, load.active)
        if overlay.breaker_state is not Breaker.CLOSED:
            return overlay
        if measured.is_full(overlay, now):
            overlay = judged(knobs, overlay, now, load)
        return grown(knobs, eased(knobs, overlay, now, load), now, load)

    def shut(self, knobs: Knobs, overlay: Overlay, now: datetime) -> Shut | None:  # noqa: ARG002
        return breaker.shut(overlay, now) or _gate(overlay, now) or spacing.shut(overlay, now)

    def admitted(
        self, knobs: Knobs, overlay: Overlay, now: datetime, slot: Slot, roll: float
    ) -> Overlay:
        return spacing.spaced(knobs, breaker.probing(overlay, now, slot), now, roll)

    def limited(self, knobs: Knobs, overlay: Overlay, now: datetime, report: Report) -> Overlay:
        if report.reason not in CONGESTION:
            return overlay
        overlay = _closed_until(overlay, now, report.again_at)
        deadly = report.source is Source.DEATH
        if breaker.is_of_probe(overlay, report.slot):
            overlay = counted(overlay, now)
            # While it lives it tries again by itself, and needs no other probe.
            return breaker.opened(knobs, overlay, now) if deadly else overlay
        if _pausing(overlay, now):
            return counted(overlay, now)
        return _deaf(knobs, measured.refused(overlay, now, deadly=deadly), now)

    def announced(self, knobs: Knobs, overlay: Overlay, now: datetime, word: Announced) -> Overlay:  # noqa: ARG002
        if word.utilisation >= 1 and word.resets_at is not None:
            return _closed_until(overlay, now, word.resets_at)
        if word.resets_at is not None and word.resets_at - now > PAUSE:
            # A window of hours: that it fills up is no reason to use it more slowly.
            return overlay
        return replace(overlay, announced_utilisation=word.utilisation, announced_at=now)

    def answered(
        self,
        knobs: Knobs,  # noqa: ARG002
        overlay: Overlay,
        now: datetime,
        slot: Slot,
        requests: int,
    ) -> Overlay:
        if requests < 1:
            return overlay
        overlay = measured.answered(overlay, requests)
        if overlay.breaker_state is Breaker.OPEN:
            # Somebody is served after all: whoever starts next may try.
            return breaker.half_opened(overlay)
        if overlay.probe is not None and overlay.probe == slot:
            return measured.begun(breaker.closed(overlay), now)
        return overlay

    def released(
        self,
        knobs: Knobs,  # noqa: ARG002
        overlay: Overlay,
        now: datetime,
        slot: Slot,
        *,
        reached: bool,
    ) -> Overlay:
        if overlay.probe is None or overlay.probe != slot:
            return overlay
        if not reached:
            return breaker.given_back(overlay)
        # Its provider has answered it, whether or not anybody counted.
        return measured.begun(breaker.closed(measured.answered(overlay, 0)), now)


def judged(knobs: Knobs, overlay: Overlay, now: datetime, load: Load) -> Overlay:
    """A full window: after refusals the cap goes down towards what was served."""
    cap = effective_cap(knobs, overlay)
    if measured.says_something(overlay):
        # Where fewer ran than might, the same part of all that might.
        target = measured.served_part(overlay) * max(cap, measured.usual(overlay, now))
        lower = round(cap - LOWER_GAIN * max(0.0, cap - HEADROOM * target))
        if overlay.window_refusals == overlay.window_deaths:
            # Nobody told of a refusal before, so the pace may be one of agents that were held back.
            overlay = replace(overlay, silent=True)
            lower = min(lower, cap // SILENT_FACTOR)
        overlay = _lowered(overlay, now, cap, lower)
    return measured.begun(measured.paced(overlay, now, load.active), now)


def eased(knobs: Knobs, overlay: Overlay, now: datetime, load: Load) -> Overlay:
    """One agent less, where the provider says that too much of its limit is used.

    Not before the last step down was taken: agents above the cap end in their own time.
    """
    use = _use(overlay, now)
    if use is None or use < HIGH_USE or _since(overlay.last_decrease_at, now) < EASE_EVERY:
        return overlay
    cap = effective_cap(knobs, overlay)
    if load.active > cap:
        return overlay
    return _lowered(overlay, now, cap, cap - 1)


def grown(knobs: Knobs, overlay: Overlay, now: datetime, load: Load) -> Overlay:
    """More agents while the cap binds and nobody is refused: slowly at first, then faster."""
    cap = effective_cap(knobs, overlay)
    use = _use(overlay, now)
    if use is not None and use >= LOW_USE and overlay.growth:
        overlay = replace(overlay, growth=0)
    if use is not None and use >= HIGH_USE:
        return overlay
    if not load.waiting or load.active < cap or cap >= knobs.hard_max:
        return overlay
    if overlay.last_probe_at is None:
        return replace(overlay, last_probe_at=now)
    quiet = min(_since(overlay.last_rate_limit_at, now), _since(overlay.last_decrease_at, now))
    if min(quiet, _since(overlay.last_probe_at, now)) < _patience(overlay, use):
        return overlay
    more = min(cap + _step(overlay, use), knobs.hard_max)
    growth = overlay.growth + 1 if use is None or use < LOW_USE else 0
    return replace(overlay, dynamic_cap=more, last_probe_at=now, growth=growth)


def _patience(overlay: Overlay, use: float | None) -> timedelta:
    """How long it must be quiet before there are more."""
    if use is None:
        return GROW_EVERY_SILENT if overlay.silent else GROW_EVERY
    return GROW_EVERY_TOLD if use < LOW_USE else GROW_EVERY_USED


def _step(overlay: Overlay, use: float | None) -> int:
    """How many more at once: doubled each time where there is room for sure, else one more."""
    if use is not None and use >= LOW_USE:
        return 1
    if use is not None:
        return min(1 << max(0, min(overlay.growth, LARGEST_STEP)), LARGEST_STEP)
    return 1 if overlay.silent else max(1, min(overlay.growth - PATIENCE, LARGEST_STEP))


def _lowered(overlay: Overlay, now: datetime, cap: int, lower: int) -> Overlay:
    if max(FLOOR, lower) >= cap:
        return overlay
    return replace(overlay, dynamic_cap=max(FLOOR, lower), last_decrease_at=now, growth=0)


def _deaf(knobs: Knobs, overlay: Overlay, now: datetime) -> Overlay:
    """Nobody starts where nobody is served."""
    deaf = overlay.unanswered >= DEAF_REFUSALS and _since(overlay.deaf_since, now) >= DEAF_AFTER
    if overlay.breaker_state is not Breaker.CLOSED or overlay.deaf_since is None or not deaf:
        return overlay
    return breaker.opened(knobs, overlay, now)


def _closed_until(overlay: Overlay, now: datetime, until: datetime | None) -> Overlay:
    """The later word counts: no agent's short wait opens what another's closed for longer."""
    if until is None or (overlay.gate_until is not None and overlay.gate_until >= until):
        return overlay
    pausing = _pausing(overlay, now) or until - now > PAUSE
    # Whole seconds: what is stored of a moment is coarser than a moment.
    away = float(ceil(max(0.0, (until - now).total_seconds())))
    return replace(overlay, gate_until=until, gate_seconds=away, pausing=pausing)


def _pausing(overlay: Overlay, now: datetime) -> bool:
    return overlay.pausing and overlay.gate_until is not None and now < overlay.gate_until


def _gate(overlay: Overlay, now: datetime) -> Shut | None:
    until = overlay.gate_until
    if until is None or now >= until:
        return None
    what = f"the provider asks to wait until {until:%H:%M:%S} UTC"
    return Shut(GATE, what, overlay.last_rate_limit_at, until)


def _use(overlay: Overlay, now: datetime) -> float | None:
    """What the provider last said of its use, if that is fresh."""
    return overlay.announced_utilisation if _since(overlay.announced_at, now) <= FRESH else None


def _since(moment: datetime | None, now: datetime) -> timedelta:
    return now - moment if moment is not None else timedelta.max
