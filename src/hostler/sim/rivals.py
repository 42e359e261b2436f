"""What the policies are measured against: a known rule from elsewhere, and one that cheats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from hostler.governor.adaptive.model import (
    Announced,
    ClosedGate,
    LeaseSlot,
    PoolConfig,
    PoolLoad,
    PoolState,
    Report,
)


class Plain:
    """The operator's cap, and nothing learned."""

    def cap(self, knobs: PoolConfig, overlay: PoolState) -> int:
        return knobs.max_global

    def passed(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, load: PoolLoad
    ) -> PoolState:
        return overlay

    def shut(self, knobs: PoolConfig, overlay: PoolState, now: datetime) -> ClosedGate | None:
        return None

    def admitted(
        self,
        knobs: PoolConfig,
        overlay: PoolState,
        now: datetime,
        slot: LeaseSlot,
        roll: float,
    ) -> PoolState:
        return overlay

    def limited(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, report: Report
    ) -> PoolState:
        return overlay

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
        return overlay


class Netflix(Plain):
    """The AIMD of Netflix's concurrency-limits: a tenth less per refusal, one more per answer."""

    BACKOFF = 0.9

    # What runs is kept where another policy keeps its agents' seconds.

    def cap(self, knobs: PoolConfig, overlay: PoolState) -> int:
        return max(1, min(overlay.dynamic_cap or knobs.max_global, knobs.hard_max))

    def passed(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, load: PoolLoad
    ) -> PoolState:
        return replace(overlay, agent_seconds=float(load.active))

    def limited(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, report: Report
    ) -> PoolState:
        return replace(overlay, dynamic_cap=max(1, int(self.cap(knobs, overlay) * self.BACKOFF)))

    def answered(
        self,
        knobs: PoolConfig,
        overlay: PoolState,
        now: datetime,
        slot: LeaseSlot,
        requests: int,
    ) -> PoolState:
        cap = self.cap(knobs, overlay)
        # One by one: the last answers of a look may find the limit too far above what runs.
        for _ in range(requests):
            cap += 1 if overlay.agent_seconds * 2 >= cap and cap < knobs.hard_max else 0
        return replace(overlay, dynamic_cap=cap)


class Oracle(Plain):
    """It is told the ceiling of each moment. It cannot stop agents either, nor see ahead."""

    def __init__(self, ceiling: Callable[[datetime], float]) -> None:
        self._ceiling = ceiling

    def cap(self, knobs: PoolConfig, overlay: PoolState) -> int:
        return max(1, min(overlay.dynamic_cap, knobs.hard_max))

    def passed(
        self, knobs: PoolConfig, overlay: PoolState, now: datetime, load: PoolLoad
    ) -> PoolState:
        return replace(overlay, dynamic_cap=int(self._ceiling(now)))

    def shut(self, knobs: PoolConfig, overlay: PoolState, now: datetime) -> ClosedGate | None:
        return ClosedGate("limit", "there is an outage") if overlay.dynamic_cap < 1 else None
