"""What the policies are measured against: a known rule from elsewhere, and one that cheats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from hostler.governor.overlay import Announced, Knobs, Load, Overlay, Report, Shut, Slot


class Plain:
    """The operator's cap, and nothing learned."""

    def cap(self, knobs: Knobs, overlay: Overlay) -> int:  # noqa: ARG002
        return knobs.max_global

    def passed(self, knobs: Knobs, overlay: Overlay, now: datetime, load: Load) -> Overlay:  # noqa: ARG002
        return overlay

    def shut(self, knobs: Knobs, overlay: Overlay, now: datetime) -> Shut | None:  # noqa: ARG002
        return None

    def admitted(
        self,
        knobs: Knobs,  # noqa: ARG002
        overlay: Overlay,
        now: datetime,  # noqa: ARG002
        slot: Slot,  # noqa: ARG002
        roll: float,  # noqa: ARG002
    ) -> Overlay:
        return overlay

    def limited(self, knobs: Knobs, overlay: Overlay, now: datetime, report: Report) -> Overlay:  # noqa: ARG002
        return overlay

    def announced(self, knobs: Knobs, overlay: Overlay, now: datetime, word: Announced) -> Overlay:  # noqa: ARG002
        return overlay

    def answered(
        self,
        knobs: Knobs,  # noqa: ARG002
        overlay: Overlay,
        now: datetime,  # noqa: ARG002
        slot: Slot,  # noqa: ARG002
        requests: int,  # noqa: ARG002
    ) -> Overlay:
        return overlay

    def released(
        self,
        knobs: Knobs,  # noqa: ARG002
        overlay: Overlay,
        now: datetime,  # noqa: ARG002
        slot: Slot,  # noqa: ARG002
        *,
        reached: bool,  # noqa: ARG002
    ) -> Overlay:
        return overlay


class Netflix(Plain):
    """The AIMD of Netflix's concurrency-limits: a tenth less per refusal, one more per answer."""

    BACKOFF = 0.9

    # What runs is kept where another policy keeps its agents' seconds.

    def cap(self, knobs: Knobs, overlay: Overlay) -> int:
        return max(1, min(overlay.dynamic_cap or knobs.max_global, knobs.hard_max))

    def passed(self, knobs: Knobs, overlay: Overlay, now: datetime, load: Load) -> Overlay:  # noqa: ARG002
        return replace(overlay, agent_seconds=float(load.active))

    def limited(self, knobs: Knobs, overlay: Overlay, now: datetime, report: Report) -> Overlay:  # noqa: ARG002
        return replace(overlay, dynamic_cap=max(1, int(self.cap(knobs, overlay) * self.BACKOFF)))

    def answered(
        self,
        knobs: Knobs,
        overlay: Overlay,
        now: datetime,  # noqa: ARG002
        slot: Slot,  # noqa: ARG002
        requests: int,
    ) -> Overlay:
        cap = self.cap(knobs, overlay)
        # One by one: the last answers of a look may find the limit too far above what runs.
        for _ in range(requests):
            cap += 1 if overlay.agent_seconds * 2 >= cap and cap < knobs.hard_max else 0
        return replace(overlay, dynamic_cap=cap)


class Oracle(Plain):
    """It is told the ceiling of each moment. It cannot stop agents either, nor see ahead."""

    def __init__(self, ceiling: Callable[[datetime], float]) -> None:
        self._ceiling = ceiling

    def cap(self, knobs: Knobs, overlay: Overlay) -> int:
        return max(1, min(overlay.dynamic_cap, knobs.hard_max))

    def passed(self, knobs: Knobs, overlay: Overlay, now: datetime, load: Load) -> Overlay:  # noqa: ARG002
        return replace(overlay, dynamic_cap=int(self._ceiling(now)))

    def shut(self, knobs: Knobs, overlay: Overlay, now: datetime) -> Shut | None:  # noqa: ARG002
        return Shut("limit", "there is an outage") if overlay.dynamic_cap < 1 else None
