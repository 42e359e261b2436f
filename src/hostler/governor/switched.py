"""A policy that the operator can turn off: then it learns nothing and closes nothing."""

from __future__ import annotations

from datetime import datetime

from hostler.governor.believed import believed
from hostler.governor.overlay import Announced, Control, Knobs, Load, Overlay, Report, Shut, Slot


class Switched:
    """While `adaptive` is off, the identity; while it is on, the policy on believable moments."""

    def __init__(self, policy: Control) -> None:
        self._policy = policy

    def cap(self, knobs: Knobs, overlay: Overlay) -> int:
        return self._policy.cap(knobs, overlay) if knobs.adaptive else knobs.max_global

    def passed(self, knobs: Knobs, overlay: Overlay, now: datetime, load: Load) -> Overlay:
        if not knobs.adaptive:
            return overlay
        return self._policy.passed(knobs, believed(knobs, overlay, now), now, load)

    def shut(self, knobs: Knobs, overlay: Overlay, now: datetime) -> Shut | None:
        if not knobs.adaptive:
            return None
        return self._policy.shut(knobs, believed(knobs, overlay, now), now)

    def admitted(
        self, knobs: Knobs, overlay: Overlay, now: datetime, slot: Slot, roll: float
    ) -> Overlay:
        if not knobs.adaptive:
            return overlay
        return self._policy.admitted(knobs, believed(knobs, overlay, now), now, slot, roll)

    def limited(self, knobs: Knobs, overlay: Overlay, now: datetime, report: Report) -> Overlay:
        if not knobs.adaptive:
            return overlay
        return self._policy.limited(knobs, believed(knobs, overlay, now), now, report)

    def announced(self, knobs: Knobs, overlay: Overlay, now: datetime, word: Announced) -> Overlay:
        if not knobs.adaptive:
            return overlay
        return self._policy.announced(knobs, believed(knobs, overlay, now), now, word)

    def answered(
        self, knobs: Knobs, overlay: Overlay, now: datetime, slot: Slot, requests: int
    ) -> Overlay:
        if not knobs.adaptive:
            return overlay
        return self._policy.answered(knobs, believed(knobs, overlay, now), now, slot, requests)

    def released(
        self, knobs: Knobs, overlay: Overlay, now: datetime, slot: Slot, *, reached: bool
    ) -> Overlay:
        if not knobs.adaptive:
            return overlay
        overlay = believed(knobs, overlay, now)
        return self._policy.released(knobs, overlay, now, slot, reached=reached)
