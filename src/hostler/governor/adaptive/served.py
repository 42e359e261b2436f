"""The policy `served`: follow how many agents the provider serves. Pure functions."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from math import ceil

from hostler.governor.adaptive import breaker, spacing
from hostler.governor.adaptive.aimd import FLOOR, count_event, effective_cap
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
    Source,
)

# Long enough for some answers of each agent; shorter windows are noise.
WINDOW = timedelta(seconds=60)
# How often the number of agents is sampled: each sample is a write.
SAMPLE_SECONDS = timedelta(seconds=5)
# After a longer gap it is unknown what ran. The service samples once a minute.
MAX_GAP = timedelta(seconds=180)
# Weight of a new quiet window in the learned pace: work differs from minute to minute.
PACE_GAIN = 0.2
# With more agents than this part starting or ending, a window says nothing about the pace.
STEADY = 0.2
# With fewer answers in a window no pace is learned.
MIN_ANSWERS = 5
# With fewer answers and refusals in a window, no rate can be computed.
MIN_SIGNALS = 5


def count_answers(state: PoolState, requests: int) -> PoolState:
    """Count healthy responses."""
    return replace(
        state,
        window_answers=state.window_answers + requests,
        unanswered_since=None,
        unanswered_refusals=0,
    )


def count_refusal(state: PoolState, now: datetime, *, deadly: bool) -> PoolState:
    """Count a refusal, and remember since when no agent was answered."""
    return replace(
        state,
        rate_limit_events=state.rate_limit_events + 1,
        last_rate_limit_at=now,
        window_refusals=state.window_refusals + 1,
        window_deaths=state.window_deaths + (1 if deadly else 0),
        unanswered_since=state.unanswered_since or now,
        unanswered_refusals=state.unanswered_refusals + 1,
        growth=0,
        refusals_unreported=state.refusals_unreported and deadly,
    )


def add_usage(state: PoolState, now: datetime, active: int) -> PoolState:
    """Add agent-seconds to the window; start a new one after a gap."""
    if state.window_at is None or state.sampled_at is None:
        return new_window(state, now)
    since = now - state.sampled_at
    if since > MAX_GAP:
        return new_window(state, now)
    if since < SAMPLE_SECONDS:
        return state
    spent = state.agent_seconds + active * since.total_seconds()
    return replace(state, sampled_at=now, agent_seconds=spent)


def new_window(state: PoolState, now: datetime) -> PoolState:
    """Start an empty window."""
    return replace(
        state,
        window_at=now,
        sampled_at=now,
        window_answers=0,
        window_refusals=0,
        window_deaths=0,
        agent_seconds=0.0,
    )


def discard_window(state: PoolState, now: datetime) -> PoolState:
    """Start an empty window, because what was measured does not predict anything."""
    if state.sampled_at is not None and now - state.sampled_at < SAMPLE_SECONDS:
        return state
    return replace(new_window(state, now), unanswered_since=None, unanswered_refusals=0)


def is_full(state: PoolState, now: datetime) -> bool:
    """Return True if the window is long enough to be judged."""
    return state.window_at is not None and now - state.window_at >= WINDOW


def is_conclusive(state: PoolState) -> bool:
    """Return True if the window's refusals are more than one agent's bad moment.

    A death always is. Where no agent was answered and all keep retrying, the provider may be down,
    which is the breaker's business.
    """
    if state.window_deaths > 0:
        return True
    signals = state.window_answers + state.window_refusals
    return state.window_refusals > 0 and state.window_answers > 0 and signals >= MIN_SIGNALS


def learn_pace(state: PoolState, now: datetime, active: int) -> PoolState:
    """Learn how often an agent is answered, from windows without refusals.

    The first window after refusals is skipped, since agents still wait them out, and so are windows
    in which many agents start.
    """
    refusals = state.window_refusals > 0
    if not refusals and not state.refused_before and _is_steady(state, now, active):
        pace = state.window_answers / state.agent_seconds
        known = state.agent_rate
        state = replace(state, agent_rate=known + PACE_GAIN * (pace - known) if known else pace)
    return replace(state, refused_before=refusals)


def average_agents(state: PoolState, now: datetime) -> float:
    """Return how many agents ran in this window, on average."""
    if state.window_at is None:
        return 0.0
    return state.agent_seconds / max(1.0, (now - state.window_at).total_seconds())


def served_fraction(state: PoolState) -> float:
    """Return the part of what the agents would have requested that was served.

    Without a known pace: the part of what they requested, though refused agents ask more often.
    """
    if state.agent_rate > 0 and state.agent_seconds > 0:
        return state.window_answers / state.agent_seconds / state.agent_rate
    return state.window_answers / max(1, state.window_answers + state.window_refusals)


def _is_steady(state: PoolState, now: datetime, active: int) -> bool:
    average = average_agents(state, now)
    enough = state.window_answers >= MIN_ANSWERS and average > 0
    return enough and abs(active - average) <= STEADY * average


GATE = "limit"
# Add an agent after this long without a refusal.
GROW_EVERY = timedelta(seconds=60)
# The same while the provider announces free capacity: it would announce a shortage first.
GROW_EVERY_TOLD = timedelta(seconds=30)
# The same while it announces that a part is used, which may soon be used up.
GROW_EVERY_USED = timedelta(seconds=300)
# Agents that do not report refusals before they die leave nothing to measure: lower and grow as
# `aimd` does.
SILENT_FACTOR = 2
GROW_EVERY_SILENT = timedelta(seconds=300)
# This many steps of one before they get larger: most rises are noise.
SINGLE_STEPS = 2
# No step is larger: starts take seconds each, and refusals come late.
MAX_STEP = 8
# A provider whose whole capacity is used refuses some requests.
HEADROOM = 0.94
# How much of the way to a lower measure is taken at once: one window may be an outlier.
LOWER_GAIN = 0.5
# Announced use below which there is room, and above which there is too little. The first is near 0:
# an unused limit refills faster than agents use it.
LOW_USE, HIGH_USE = 0.05, 0.6
# Remove an agent this often while too much is used.
EASE_EVERY = timedelta(seconds=20)
# Older announcements are ignored.
FRESH = timedelta(seconds=30)
# A longer wait is a pause, and says nothing about how many agents may run.
PAUSE = timedelta(seconds=30)
# This many refusals over this long without an answer: the provider serves no agent.
UNRESPONSIVE_AFTER = timedelta(seconds=60)
UNRESPONSIVE_REFUSALS = 3


class Served:
    """Measure instead of guessing: no halving, growth while quiet, one probe if unresponsive."""

    def cap(self, config: PoolConfig, state: PoolState) -> int:
        return effective_cap(config, state)

    def advance(
        self, config: PoolConfig, state: PoolState, now: datetime, load: PoolLoad
    ) -> PoolState:
        if (probe := breaker.timed_out_probe(state, now, load)) is not None:
            state = self.on_release(config, state, now, probe, reached=True)
        state = breaker.tick(config, state, now, load)
        if _pausing(state, now):
            return discard_window(state, now)
        state = add_usage(state, now, load.active)
        if state.breaker_state is not BreakerState.CLOSED:
            return state
        if is_full(state, now):
            state = judge_window(config, state, now, load)
        return grow(config, ease(config, state, now, load), now, load)

    def closed_gate(self, config: PoolConfig, state: PoolState, now: datetime) -> ClosedGate | None:
        return (
            breaker.closed_gate(state, now)
            or _limit_gate(state, now)
            or spacing.closed_gate(state, now)
        )

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
        state = _close_until(state, now, report.again_at)
        deadly = report.source is Source.DEATH
        if breaker.is_of_probe(state, report.slot):
            state = count_event(state, now)
            # While it runs it retries by itself; no other probe is needed.
            return breaker.open_breaker(config, state, now) if deadly else state
        if _pausing(state, now):
            return count_event(state, now)
        return _open_if_unresponsive(config, count_refusal(state, now, deadly=deadly), now)

    def on_announcement(
        self, config: PoolConfig, state: PoolState, now: datetime, announcement: LimitAnnouncement
    ) -> PoolState:
        if announcement.utilisation >= 1 and announcement.resets_at is not None:
            return _close_until(state, now, announcement.resets_at)
        if announcement.resets_at is not None and announcement.resets_at - now > PAUSE:
            # A window of hours is there to be used up.
            return state
        return replace(state, announced_utilisation=announcement.utilisation, announced_at=now)

    def on_answers(
        self,
        config: PoolConfig,
        state: PoolState,
        now: datetime,
        slot: LeaseSlot,
        requests: int,
    ) -> PoolState:
        if requests < 1:
            return state
        state = count_answers(state, requests)
        if state.breaker_state is BreakerState.OPEN:
            # A request succeeded while open: allow a probe now.
            return breaker.half_open(state)
        if state.probe is not None and state.probe == slot:
            return new_window(breaker.close_breaker(state), now)
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
        # The provider answered it, even if no answer was counted.
        return new_window(breaker.close_breaker(count_answers(state, 0)), now)


def judge_window(config: PoolConfig, state: PoolState, now: datetime, load: PoolLoad) -> PoolState:
    """Judge a full window: after refusals, lower the cap towards what was served."""
    cap = effective_cap(config, state)
    if is_conclusive(state):
        # If fewer ran than the cap allows, take the same part of the cap.
        target = served_fraction(state) * max(cap, average_agents(state, now))
        lower = round(cap - LOWER_GAIN * max(0.0, cap - HEADROOM * target))
        if state.window_refusals == state.window_deaths:
            # No refusal was reported before the deaths, so the pace may be that of throttled
            # agents.
            state = replace(state, refusals_unreported=True)
            lower = min(lower, cap // SILENT_FACTOR)
        state = _lower_cap(state, now, cap, lower)
    return new_window(learn_pace(state, now, load.active), now)


def ease(config: PoolConfig, state: PoolState, now: datetime, load: PoolLoad) -> PoolState:
    """Remove one agent if the provider announces that too much is used.

    Not before the last step down took effect: agents above the cap end in their own time.
    """
    use = _announced_use(state, now)
    if use is None or use < HIGH_USE or _since(state.last_decrease_at, now) < EASE_EVERY:
        return state
    cap = effective_cap(config, state)
    if load.active > cap:
        return state
    return _lower_cap(state, now, cap, cap - 1)


def grow(config: PoolConfig, state: PoolState, now: datetime, load: PoolLoad) -> PoolState:
    """Add agents while the cap binds and none is refused: slowly at first, then faster."""
    cap = effective_cap(config, state)
    use = _announced_use(state, now)
    if use is not None and use >= LOW_USE and state.growth:
        state = replace(state, growth=0)
    if use is not None and use >= HIGH_USE:
        return state
    if not load.waiting or load.active < cap or cap >= config.hard_max:
        return state
    if state.last_probe_at is None:
        return replace(state, last_probe_at=now)
    quiet = min(_since(state.last_rate_limit_at, now), _since(state.last_decrease_at, now))
    if min(quiet, _since(state.last_probe_at, now)) < _growth_interval(state, use):
        return state
    more = min(cap + _step(state, use), config.hard_max)
    growth = state.growth + 1 if use is None or use < LOW_USE else 0
    return replace(state, dynamic_cap=more, last_probe_at=now, growth=growth)


def _growth_interval(state: PoolState, use: float | None) -> timedelta:
    """Return how long it must be quiet before the cap grows."""
    if use is None:
        return GROW_EVERY_SILENT if state.refusals_unreported else GROW_EVERY
    return GROW_EVERY_TOLD if use < LOW_USE else GROW_EVERY_USED


def _step(state: PoolState, use: float | None) -> int:
    """Return the size of the next step: doubling while there is room, else one."""
    if use is not None and use >= LOW_USE:
        return 1
    if use is not None:
        return min(1 << max(0, min(state.growth, MAX_STEP)), MAX_STEP)
    return 1 if state.refusals_unreported else max(1, min(state.growth - SINGLE_STEPS, MAX_STEP))


def _lower_cap(state: PoolState, now: datetime, cap: int, lower: int) -> PoolState:
    if max(FLOOR, lower) >= cap:
        return state
    return replace(state, dynamic_cap=max(FLOOR, lower), last_decrease_at=now, growth=0)


def _open_if_unresponsive(config: PoolConfig, state: PoolState, now: datetime) -> PoolState:
    """Open the breaker if the provider serves no agent."""
    unresponsive = (
        state.unanswered_refusals >= UNRESPONSIVE_REFUSALS
        and _since(state.unanswered_since, now) >= UNRESPONSIVE_AFTER
    )
    if (
        state.breaker_state is not BreakerState.CLOSED
        or state.unanswered_since is None
        or not unresponsive
    ):
        return state
    return breaker.open_breaker(config, state, now)


def _close_until(state: PoolState, now: datetime, until: datetime | None) -> PoolState:
    """Close the gate until a time. An earlier time does not shorten it."""
    if until is None or (state.gate_until is not None and state.gate_until >= until):
        return state
    pausing = _pausing(state, now) or until - now > PAUSE
    # Round up to whole seconds: stored times are less precise.
    away = float(ceil(max(0.0, (until - now).total_seconds())))
    return replace(state, gate_until=until, gate_seconds=away, pausing=pausing)


def _pausing(state: PoolState, now: datetime) -> bool:
    return state.pausing and state.gate_until is not None and now < state.gate_until


def _limit_gate(state: PoolState, now: datetime) -> ClosedGate | None:
    until = state.gate_until
    if until is None or now >= until:
        return None
    what = f"the provider asks to wait until {until:%H:%M:%S} UTC"
    return ClosedGate(GATE, what, state.last_rate_limit_at, until)


def _announced_use(state: PoolState, now: datetime) -> float | None:
    """Return the announced use if it is fresh, else None."""
    return state.announced_utilisation if _since(state.announced_at, now) <= FRESH else None


def _since(time: datetime | None, now: datetime) -> timedelta:
    return now - time if time is not None else timedelta.max
