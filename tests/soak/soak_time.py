"""Time that runs faster, the same for everybody who knows when it began."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from hostler.clock import SystemClock, Wakeup
from hostler.sandbox.state.clock import VirtualClock


@dataclass(frozen=True)
class Pace:
    """`speed` virtual seconds in a real one since `anchor`; `skew`: wrong by so many."""

    anchor: float
    speed: float
    skew: float = 0.0

    def now(self) -> float:
        return self.anchor + (time.time() - self.anchor) * self.speed + self.skew


class FastEvent(threading.Event):
    """An event that is waited for in virtual seconds."""

    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(None if timeout is None else timeout / self._speed)


class SandboxClock(VirtualClock):
    """GitHub's clock."""

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def now(self) -> float:
        return self._pace.now()


def speed_up(pace: Pace) -> None:
    """From here on every system clock of this process is a fast one."""

    def now(_clock: SystemClock) -> datetime:
        return datetime.fromtimestamp(pace.now(), UTC)

    def monotonic(_clock: SystemClock) -> float:
        return time.monotonic() * pace.speed

    def wakeup(_clock: SystemClock) -> Wakeup:
        return FastEvent(pace.speed)

    SystemClock.now = now  # type: ignore[method-assign]
    SystemClock.monotonic = monotonic  # type: ignore[method-assign]
    SystemClock.wakeup = wakeup  # type: ignore[method-assign]
