"""State and settings of an adaptive pool, and the interface of its policies."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class Reason(StrEnum):
    """What a provider refuses for: the first two ask for fewer agents, the others for a pause."""

    BURST = "burst"
    OVERLOAD = "overload"
    QUOTA = "quota"
    BILLING = "billing"


CONGESTION = frozenset({Reason.BURST, Reason.OVERLOAD})


class Source(StrEnum):
    """Whether the agent that tells of it lives and tries again, or ended by it."""

    LIVE = "live"
    DEATH = "death"


@dataclass(frozen=True, slots=True)
class LeaseSlot:
    """Whose agent it is. Without a task, nobody can tell two agents of a project apart."""

    project: str
    task: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """One limit that one agent met. `again_at` is the provider's own word, if it gave one."""

    slot: LeaseSlot
    source: Source
    reason: Reason
    again_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Announced:
    """What a provider says of its own limit ahead of any error: the part that is used up."""

    slot: LeaseSlot
    utilisation: float
    resets_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """The operator's word on one pool. `hard_max` is in force as it stands here: never 0."""

    max_global: int = 8
    adaptive: bool = False
    policy: str = "aimd"
    hard_max: int = 16
    settle_seconds: float = 120.0
    break_seconds: float = 300.0
    min_dispatch_interval_seconds: float = 3.0


@dataclass(frozen=True, slots=True)
class PoolLoad:
    """What runs in a pool now, whether more would start if it could, and whose leases live.

    `mute`: those of programs of which nobody ever hears how their provider treats them.
    """

    active: int
    waiting: bool
    slots: frozenset[LeaseSlot] = frozenset()
    mute: frozenset[LeaseSlot] = frozenset()


class Breaker(StrEnum):
    """Whether anybody may start at all."""

    CLOSED = ""
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True)
class ClosedGate:
    """A gate that the overlay closes: which, since when, until when, and in words."""

    gate: str
    what: str
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class RateLimitEvent:
    """A report that is remembered for a while."""

    at: datetime
    slot: LeaseSlot


@dataclass(frozen=True, slots=True)
class PoolState:
    """What is known of one pool beyond the operator's word. A cap of 0: nothing yet."""

    dynamic_cap: int = 0
    settle_until: datetime | None = None
    last_decrease_at: datetime | None = None
    last_rate_limit_at: datetime | None = None
    last_probe_at: datetime | None = None
    rate_limit_events: int = 0
    recent_rate_limit_events: tuple[RateLimitEvent, ...] = ()
    recent_decreases: tuple[datetime, ...] = ()
    breaker_state: Breaker = Breaker.CLOSED
    breaker_open_at: datetime | None = None
    breaker_break_seconds: float = 0.0
    breaker_reopen_count: int = 0
    probe: LeaseSlot | None = None
    probe_admitted_at: datetime | None = None
    last_dispatch_at: datetime | None = None
    next_dispatch_at: datetime | None = None
    gate_until: datetime | None = None
    # What `served` measures: a window of answers and refusals, and what was announced last.
    window_at: datetime | None = None
    looked_at: datetime | None = None
    window_answers: int = 0
    window_refusals: int = 0
    window_deaths: int = 0
    agent_seconds: float = 0.0
    refused_before: bool = False
    agent_rate: float = 0.0
    growth: int = 0
    deaf_since: datetime | None = None
    unanswered: int = 0
    announced_utilisation: float = 0.0
    announced_at: datetime | None = None
    # Whether the gate is closed for so long that nothing is measured meanwhile; whether agents
    # died of refusals that none of them had told of.
    pausing: bool = False
    silent: bool = False
    # For how long the gate was closed when that was said: no clock makes it longer.
    gate_seconds: float = 0.0
    # When it was found that a part of what was stored could not be read.
    damaged_at: datetime | None = None


class AdaptivePolicy(Protocol):
    """A policy: pure functions of the operator's word, what is known, and the moment.

    With `adaptive` off every one of them leaves the overlay alone and closes nothing.
    """

    def cap(self, knobs: PoolConfig, overlay: PoolState) -> int:
        """How many agents the pool takes, between 1 and the hard max."""
        ...

    def passed(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, load: PoolLoad
    ) -> PoolState:
        """What time alone changes: growth, a break that is over, a probe that vanished."""
        ...

    def shut(self, knobs: PoolConfig, overlay: PoolState, now: datetime) -> ClosedGate | None:
        """The gate that is closed for everybody in the pool, if one is."""
        ...

    def admitted(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, slot: LeaseSlot, roll: float
    ) -> PoolState:
        """After a complete grant. `roll` in [0, 1) jitters the next start's moment."""
        ...

    def limited(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, report: Report
    ) -> PoolState:
        """After an agent met a limit."""
        ...

    def announced(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, word: Announced
    ) -> PoolState:
        """After a provider spoke of its limit without refusing anything."""
        ...

    def answered(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, slot: LeaseSlot, requests: int
    ) -> PoolState:
        """After so many healthy responses to one agent."""
        ...

    def released(
        self,
        knobs: PoolConfig,
        overlay: PoolState,
        now: datetime,
        slot: LeaseSlot,
        *,
        reached: bool,
    ) -> PoolState:
        """After an agent's lease ended; `reached`: its provider ever answered it."""
        ...
