"""State and settings of an adaptive pool, and the interface of its policies."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

# The distance between two starts varies by this part of it, up and down.
SPACING_JITTER = 0.5


class Reason(StrEnum):
    """Why a provider refuses. The first two ask for fewer agents, the others for a pause."""

    BURST = "burst"
    OVERLOAD = "overload"
    QUOTA = "quota"
    BILLING = "billing"


CONGESTION = frozenset({Reason.BURST, Reason.OVERLOAD})


class Source(StrEnum):
    """Whether the agent that met a limit keeps retrying, or ended because of it."""

    LIVE = "live"
    DEATH = "death"


@dataclass(frozen=True, slots=True)
class LeaseSlot:
    """An agent by project and task. Without a task, it may be any agent of the project."""

    project: str
    task: str = ""


@dataclass(frozen=True, slots=True)
class LimitReport:
    """One limit that one agent met. `again_at` is the provider's retry time, if it gave one."""

    slot: LeaseSlot
    source: Source
    reason: Reason
    again_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LimitAnnouncement:
    """A limit that a provider announced before any error: how much of it is used."""

    slot: LeaseSlot
    utilisation: float
    resets_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """The operator's settings of one pool. `hard_max` is in force as it is here: never 0."""

    max_global: int = 8
    adaptive: bool = False
    policy: str = "aimd"
    hard_max: int = 16
    settle_seconds: float = 120.0
    break_seconds: float = 300.0
    min_dispatch_interval_seconds: float = 3.0


@dataclass(frozen=True, slots=True)
class PoolLoad:
    """What runs in a pool, whether more agents wait, and whose leases are alive.

    `unobserved` are programs whose provider responses are not followed (`hostler wrap`).
    """

    active: int
    waiting: bool
    slots: frozenset[LeaseSlot] = frozenset()
    unobserved: frozenset[LeaseSlot] = frozenset()


class BreakerState(StrEnum):
    """The state of a circuit breaker."""

    CLOSED = ""
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True)
class ClosedGate:
    """A gate closed by the adaptive policy: which, why, since when and until when."""

    gate: str
    what: str
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class RateLimitEvent:
    """A rate-limit report that is remembered for a while."""

    at: datetime
    slot: LeaseSlot


@dataclass(frozen=True, slots=True)
class PoolState:
    """What is known of one pool beyond its settings. A `dynamic_cap` of 0 means: not set yet."""

    dynamic_cap: int = 0
    settle_until: datetime | None = None
    last_decrease_at: datetime | None = None
    last_rate_limit_at: datetime | None = None
    last_probe_at: datetime | None = None
    rate_limit_events: int = 0
    recent_rate_limit_events: tuple[RateLimitEvent, ...] = ()
    recent_decreases: tuple[datetime, ...] = ()
    breaker_state: BreakerState = BreakerState.CLOSED
    breaker_open_at: datetime | None = None
    breaker_break_seconds: float = 0.0
    breaker_reopen_count: int = 0
    probe: LeaseSlot | None = None
    probe_admitted_at: datetime | None = None
    last_dispatch_at: datetime | None = None
    next_dispatch_at: datetime | None = None
    gate_until: datetime | None = None
    # Measured by `served`: a window of answers and refusals, and the last announcement.
    window_at: datetime | None = None
    sampled_at: datetime | None = None
    window_answers: int = 0
    window_refusals: int = 0
    window_deaths: int = 0
    agent_seconds: float = 0.0
    refused_before: bool = False
    agent_rate: float = 0.0
    growth: int = 0
    unanswered_since: datetime | None = None
    unanswered_refusals: int = 0
    announced_utilisation: float = 0.0
    announced_at: datetime | None = None
    # The gate is closed for so long that nothing is measured meanwhile.
    pausing: bool = False
    # Agents died of refusals that none of them had reported.
    refusals_unreported: bool = False
    # How long the gate was closed for when it closed. A clock that is set back must not extend it.
    gate_seconds: float = 0.0
    # When a part of the stored state was found unreadable.
    damaged_at: datetime | None = None


class AdaptivePolicy(Protocol):
    """A policy for adaptive caps: pure functions of settings, state, event and time.

    With `adaptive` off, all of them return the state unchanged and close no gate.
    """

    def cap(self, config: PoolConfig, state: PoolState) -> int:
        """Return how many agents the pool takes, between 1 and the hard max."""
        ...

    def advance(
        self, config: PoolConfig, state: PoolState, now: datetime, load: PoolLoad
    ) -> PoolState:
        """Apply what time alone changes: growth, the end of a break, a vanished probe."""
        ...

    def closed_gate(self, config: PoolConfig, state: PoolState, now: datetime) -> ClosedGate | None:
        """Return the gate that is closed for all starts in the pool, or None."""
        ...

    def on_start(
        self, config: PoolConfig, state: PoolState, now: datetime, slot: LeaseSlot, fraction: float
    ) -> PoolState:
        """Apply a granted lease. `fraction` in [0, 1) jitters the time of the next start."""
        ...

    def on_limit(
        self, config: PoolConfig, state: PoolState, now: datetime, report: LimitReport
    ) -> PoolState:
        """Apply a limit that an agent met."""
        ...

    def on_announcement(
        self, config: PoolConfig, state: PoolState, now: datetime, announcement: LimitAnnouncement
    ) -> PoolState:
        """Apply a provider's announcement of its limit."""
        ...

    def on_answers(
        self, config: PoolConfig, state: PoolState, now: datetime, slot: LeaseSlot, requests: int
    ) -> PoolState:
        """Apply healthy responses to one agent."""
        ...

    def on_release(
        self,
        config: PoolConfig,
        state: PoolState,
        now: datetime,
        slot: LeaseSlot,
        *,
        reached: bool,
    ) -> PoolState:
        """Apply the end of a lease. `reached`: the provider answered the agent at least once."""
        ...
