"""The policies that are compared: those of the governor, and two to measure them by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from hostler.governor.adaptive.controller import POLICIES
from hostler.governor.adaptive.model import (
    AdaptivePolicy,
    ClosedGate,
    LeaseSlot,
    LimitAnnouncement,
    LimitReport,
    PoolConfig,
    PoolLoad,
    PoolState,
)
from hostler.sim.scenario import Scenario


class Plain:
    """The operator's cap, and nothing learned."""

    def cap(self, config: PoolConfig, state: PoolState) -> int:
        return config.max_global

    def advance(
        self, config: PoolConfig, state: PoolState, now: datetime, load: PoolLoad
    ) -> PoolState:
        return state

    def closed_gate(self, config: PoolConfig, state: PoolState, now: datetime) -> ClosedGate | None:
        return None

    def on_start(
        self,
        config: PoolConfig,
        state: PoolState,
        now: datetime,
        slot: LeaseSlot,
        roll: float,
    ) -> PoolState:
        return state

    def on_limit(
        self, config: PoolConfig, state: PoolState, now: datetime, report: LimitReport
    ) -> PoolState:
        return state

    def on_announcement(
        self, config: PoolConfig, state: PoolState, now: datetime, word: LimitAnnouncement
    ) -> PoolState:
        return state

    def on_answers(
        self,
        config: PoolConfig,
        state: PoolState,
        now: datetime,
        slot: LeaseSlot,
        requests: int,
    ) -> PoolState:
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
        return state


class Netflix(Plain):
    """The AIMD of Netflix's concurrency-limits: a tenth less per refusal, one more per answer."""

    BACKOFF = 0.9

    # What runs is kept where another policy keeps its agents' seconds.

    def cap(self, config: PoolConfig, state: PoolState) -> int:
        return max(1, min(state.dynamic_cap or config.max_global, config.hard_max))

    def advance(
        self, config: PoolConfig, state: PoolState, now: datetime, load: PoolLoad
    ) -> PoolState:
        return replace(state, agent_seconds=float(load.active))

    def on_limit(
        self, config: PoolConfig, state: PoolState, now: datetime, report: LimitReport
    ) -> PoolState:
        return replace(state, dynamic_cap=max(1, int(self.cap(config, state) * self.BACKOFF)))

    def on_answers(
        self,
        config: PoolConfig,
        state: PoolState,
        now: datetime,
        slot: LeaseSlot,
        requests: int,
    ) -> PoolState:
        cap = self.cap(config, state)
        # One by one: the last answers of a look may find the limit too far above what runs.
        for _ in range(requests):
            cap += 1 if state.agent_seconds * 2 >= cap and cap < config.hard_max else 0
        return replace(state, dynamic_cap=cap)


class Oracle(Plain):
    """It is told the ceiling of each moment. It cannot stop agents either, nor see ahead."""

    def __init__(self, ceiling: Callable[[datetime], float]) -> None:
        self._ceiling = ceiling

    def cap(self, config: PoolConfig, state: PoolState) -> int:
        return max(1, min(state.dynamic_cap, config.hard_max))

    def advance(
        self, config: PoolConfig, state: PoolState, now: datetime, load: PoolLoad
    ) -> PoolState:
        return replace(state, dynamic_cap=int(self._ceiling(now)))

    def closed_gate(self, config: PoolConfig, state: PoolState, now: datetime) -> ClosedGate | None:
        return ClosedGate("limit", "there is an outage") if state.dynamic_cap < 1 else None


Ceiling = Callable[[datetime], float]


@dataclass(frozen=True, slots=True)
class Contestant:
    """A policy, what the operator told it, and what its world gives it beside refusals."""

    control: Callable[[Ceiling], AdaptivePolicy]
    config: Callable[[Scenario], PoolConfig]
    headers: bool = False
    strict_shares: bool = False


def _learning(scenario: Scenario) -> PoolConfig:
    return PoolConfig(max_global=scenario.max_global, hard_max=scenario.hard_max, adaptive=True)


def _fixed(cap: int) -> Contestant:
    config = PoolConfig(max_global=cap, hard_max=cap)
    return Contestant(lambda _: POLICIES["aimd"], lambda _: config)


def _real(name: str, *, headers: bool = False, strict_shares: bool = False) -> Contestant:
    return Contestant(lambda _: POLICIES[name], _learning, headers, strict_shares)


CONTESTANTS: Mapping[str, Contestant] = {
    "fixed_8": _fixed(8),
    "fixed_24": _fixed(24),
    "aimd_strict": _real("aimd", strict_shares=True),
    "aimd": _real("aimd"),
    "served": _real("served"),
    "served_headers": _real("served", headers=True),
    "netflix": Contestant(lambda _: Netflix(), _learning),
    "oracle": Contestant(Oracle, _learning),
}
