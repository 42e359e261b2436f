"""The policy `served`: follow how many agents the provider serves. Pure functions."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil

from hostler.governor.adaptive import breaker, spacing
from hostler.governor.adaptive.aimd import FLOOR, counted, effective_cap
from hostler.governor.adaptive.model import (
    CONGESTION,
    Announced,
    Breaker,
    ClosedGate,
    LeaseSlot,
    PoolConfig,
    PoolLoad,
    PoolState,
    Report,
    Source,
)

# As long as it takes to see some answers of each agent; shorter ones are noise.
WINDOW = timedelta(seconds=60)
# How often what runs is noted: each note is a write.
SAMPLE_SECONDS = timedelta(seconds=5)
# After so long without a look nobody knows what ran meanwhile; a service looks once a minute.
MAX_GAP = timedelta(seconds=180)
# How much a new quiet window says of an agent's pace: work differs from minute to minute.
PACE_GAIN = 0.2
# While more of the agents than this come or go, a window says nothing of their pace.
STEADY = 0.2
# With fewer answers in a window no pace is learned.
MIN_ANSWERS = 5
# With fewer words in a window nothing is served or refused often enough to be a part of anything.
MIN_SIGNALS = 5


def answered(overlay: PoolState, requests: int) -> PoolState:
    """Healthy responses: somebody is served."""
    return replace(
        overlay,
        window_answers=overlay.window_answers + requests,
        deaf_since=None,
        unanswered=0,
    )


def refused(overlay: PoolState, now: datetime, *, deadly: bool) -> PoolState:
    """A refusal that is measured, and since when nobody was answered."""
    return replace(
        overlay,
        rate_limit_events=overlay.rate_limit_events + 1,
        last_rate_limit_at=now,
        window_refusals=overlay.window_refusals + 1,
        window_deaths=overlay.window_deaths + (1 if deadly else 0),
        deaf_since=overlay.deaf_since or now,
        unanswered=overlay.unanswered + 1,
        growth=0,
        silent=overlay.silent and deadly,
    )


def noted(overlay: PoolState, now: datetime, active: int) -> PoolState:
    """What runs, added up over time; a window that nobody looked after begins anew."""
    if overlay.window_at is None or overlay.looked_at is None:
        return begun(overlay, now)
    since = now - overlay.looked_at
    if since > MAX_GAP:
        return begun(overlay, now)
    if since < SAMPLE_SECONDS:
        return overlay
    spent = overlay.agent_seconds + active * since.total_seconds()
    return replace(overlay, looked_at=now, agent_seconds=spent)


def begun(overlay: PoolState, now: datetime) -> PoolState:
    """An empty window."""
    return replace(
        overlay,
        window_at=now,
        looked_at=now,
        window_answers=0,
        window_refusals=0,
        window_deaths=0,
        agent_seconds=0.0,
    )


def forgotten(overlay: PoolState, now: datetime) -> PoolState:
    """An empty window, where what was heard says nothing of what will be."""
    if overlay.looked_at is not None and now - overlay.looked_at < SAMPLE_SECONDS:
        return overlay
    return replace(begun(overlay, now), deaf_since=None, unanswered=0)


def is_full(overlay: PoolState, now: datetime) -> bool:
    """Whether a window is long enough to be judged."""
    return overlay.window_at is not None and now - overlay.window_at >= WINDOW


def says_something(overlay: PoolState) -> bool:
    """Whether refusals of a window are more than one agent's bad moment; a death always is.

    Where nobody was answered and all go on trying, the provider may be gone: that is the breaker's.
    """
    if overlay.window_deaths > 0:
        return True
    words = overlay.window_answers + overlay.window_refusals
    return overlay.window_refusals > 0 and overlay.window_answers > 0 and words >= MIN_SIGNALS


def paced(overlay: PoolState, now: datetime, active: int) -> PoolState:
    """How often an agent is answered that nobody holds back: the pace of windows without refusals.

    In the first one after refusals agents still wait them out, and while many start none of the
    new ones has asked yet: neither says anything.
    """
    refusals = overlay.window_refusals > 0
    if not refusals and not overlay.refused_before and _is_steady(overlay, now, active):
        pace = overlay.window_answers / overlay.agent_seconds
        known = overlay.agent_rate
        overlay = replace(overlay, agent_rate=known + PACE_GAIN * (pace - known) if known else pace)
    return replace(overlay, refused_before=refusals)


def usual(overlay: PoolState, now: datetime) -> float:
    """How many agents ran in this window, on average."""
    if overlay.window_at is None:
        return 0.0
    return overlay.agent_seconds / max(1.0, (now - overlay.window_at).total_seconds())


def served_part(overlay: PoolState) -> float:
    """The part of what its agents would have asked that the provider really served.

    Without a known pace: the part of what they asked, though whoever is refused asks more often.
    """
    if overlay.agent_rate > 0 and overlay.agent_seconds > 0:
        return overlay.window_answers / overlay.agent_seconds / overlay.agent_rate
    return overlay.window_answers / max(1, overlay.window_answers + overlay.window_refusals)


def _is_steady(overlay: PoolState, now: datetime, active: int) -> bool:
    ran = usual(overlay, now)
    enough = overlay.window_answers >= MIN_ANSWERS and ran > 0
    return enough and abs(active - ran) <= STEADY * ran


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
SILENCE_LIMIT = 2
# No single step is larger: starts take seconds each, and refusals come late.
MAX_STEP = 8
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
UNRESPONSIVE_AFTER = timedelta(seconds=60)
UNRESPONSIVE_REFUSALS = 3


class Served:
    """Measured instead of guessed: no halving, growth while it is quiet, one probe when deaf."""

    def cap(self, knobs: PoolConfig, overlay: PoolState) -> int:
        return effective_cap(knobs, overlay)

    def passed(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, load: PoolLoad
    ) -> PoolState:
        if (probe := breaker.after_probe_timeout(overlay, now, load)) is not None:
            overlay = self.released(knobs, overlay, now, probe, reached=True)
        overlay = breaker.tick(knobs, overlay, now, load)
        if _pausing(overlay, now):
            return forgotten(overlay, now)
        overlay = noted(overlay, now, load.active)
        if overlay.breaker_state is not Breaker.CLOSED:
            return overlay
        if is_full(overlay, now):
            overlay = judged(knobs, overlay, now, load)
        return grown(knobs, eased(knobs, overlay, now, load), now, load)

    def shut(self, knobs: PoolConfig, overlay: PoolState, now: datetime) -> ClosedGate | None:
        return (
            breaker.closed_gate(overlay, now)
            or _gate(overlay, now)
            or spacing.closed_gate(overlay, now)
        )

    def admitted(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, slot: LeaseSlot, roll: float
    ) -> PoolState:
        return spacing.spaced(knobs, breaker.probing(overlay, now, slot), now, roll)

    def limited(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, report: Report
    ) -> PoolState:
        if report.reason not in CONGESTION:
            return overlay
        overlay = _closed_until(overlay, now, report.again_at)
        deadly = report.source is Source.DEATH
        if breaker.is_of_probe(overlay, report.slot):
            overlay = counted(overlay, now)
            # While it lives it tries again by itself, and needs no other probe.
            return breaker.open_breaker(knobs, overlay, now) if deadly else overlay
        if _pausing(overlay, now):
            return counted(overlay, now)
        return _deaf(knobs, refused(overlay, now, deadly=deadly), now)

    def announced(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, word: Announced
    ) -> PoolState:
        if word.utilisation >= 1 and word.resets_at is not None:
            return _closed_until(overlay, now, word.resets_at)
        if word.resets_at is not None and word.resets_at - now > PAUSE:
            # A window of hours: that it fills up is no reason to use it more slowly.
            return overlay
        return replace(overlay, announced_utilisation=word.utilisation, announced_at=now)

    def answered(
        self,
        knobs: PoolConfig,
        overlay: PoolState,
        now: datetime,
        slot: LeaseSlot,
        requests: int,
    ) -> PoolState:
        if requests < 1:
            return overlay
        overlay = answered(overlay, requests)
        if overlay.breaker_state is Breaker.OPEN:
            # Somebody is served after all: whoever starts next may try.
            return breaker.half_opened(overlay)
        if overlay.probe is not None and overlay.probe == slot:
            return begun(breaker.close_breaker(overlay), now)
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
        # Its provider has answered it, whether or not anybody counted.
        return begun(breaker.close_breaker(answered(overlay, 0)), now)


def judged(knobs: PoolConfig, overlay: PoolState, now: datetime, load: PoolLoad) -> PoolState:
    """A full window: after refusals the cap goes down towards what was served."""
    cap = effective_cap(knobs, overlay)
    if says_something(overlay):
        # Where fewer ran than might, the same part of all that might.
        target = served_part(overlay) * max(cap, usual(overlay, now))
        lower = round(cap - LOWER_GAIN * max(0.0, cap - HEADROOM * target))
        if overlay.window_refusals == overlay.window_deaths:
            # Nobody told of a refusal before, so the pace may be one of agents that were held back.
            overlay = replace(overlay, silent=True)
            lower = min(lower, cap // SILENT_FACTOR)
        overlay = _lowered(overlay, now, cap, lower)
    return begun(paced(overlay, now, load.active), now)


def eased(knobs: PoolConfig, overlay: PoolState, now: datetime, load: PoolLoad) -> PoolState:
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


def grown(knobs: PoolConfig, overlay: PoolState, now: datetime, load: PoolLoad) -> PoolState:
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


def _patience(overlay: PoolState, use: float | None) -> timedelta:
    """How long it must be quiet before there are more."""
    if use is None:
        return GROW_EVERY_SILENT if overlay.silent else GROW_EVERY
    return GROW_EVERY_TOLD if use < LOW_USE else GROW_EVERY_USED


def _step(overlay: PoolState, use: float | None) -> int:
    """How many more at once: doubled each time where there is room for sure, else one more."""
    if use is not None and use >= LOW_USE:
        return 1
    if use is not None:
        return min(1 << max(0, min(overlay.growth, MAX_STEP)), MAX_STEP)
    return 1 if overlay.silent else max(1, min(overlay.growth - SILENCE_LIMIT, MAX_STEP))


def _lowered(overlay: PoolState, now: datetime, cap: int, lower: int) -> PoolState:
    if max(FLOOR, lower) >= cap:
        return overlay
    return replace(overlay, dynamic_cap=max(FLOOR, lower), last_decrease_at=now, growth=0)


def _deaf(knobs: PoolConfig, overlay: PoolState, now: datetime) -> PoolState:
    """Nobody starts where nobody is served."""
    deaf = (
        overlay.unanswered >= UNRESPONSIVE_REFUSALS
        and _since(overlay.deaf_since, now) >= UNRESPONSIVE_AFTER
    )
    if overlay.breaker_state is not Breaker.CLOSED or overlay.deaf_since is None or not deaf:
        return overlay
    return breaker.open_breaker(knobs, overlay, now)


def _closed_until(overlay: PoolState, now: datetime, until: datetime | None) -> PoolState:
    """The later word counts: no agent's short wait opens what another's closed for longer."""
    if until is None or (overlay.gate_until is not None and overlay.gate_until >= until):
        return overlay
    pausing = _pausing(overlay, now) or until - now > PAUSE
    # Whole seconds: what is stored of a moment is coarser than a moment.
    away = float(ceil(max(0.0, (until - now).total_seconds())))
    return replace(overlay, gate_until=until, gate_seconds=away, pausing=pausing)


def _pausing(overlay: PoolState, now: datetime) -> bool:
    return overlay.pausing and overlay.gate_until is not None and now < overlay.gate_until


def _gate(overlay: PoolState, now: datetime) -> ClosedGate | None:
    until = overlay.gate_until
    if until is None or now >= until:
        return None
    what = f"the provider asks to wait until {until:%H:%M:%S} UTC"
    return ClosedGate(GATE, what, overlay.last_rate_limit_at, until)


def _use(overlay: PoolState, now: datetime) -> float | None:
    """What the provider last said of its use, if that is fresh."""
    return overlay.announced_utilisation if _since(overlay.announced_at, now) <= FRESH else None


def _since(moment: datetime | None, now: datetime) -> timedelta:
    return now - moment if moment is not None else timedelta.max
