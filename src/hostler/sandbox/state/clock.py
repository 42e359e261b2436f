"""Time as the sandbox tells it: whole seconds, by a clock that can be moved or stopped."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from email.utils import formatdate
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T", int, float)

MAX_SECOND = 253_402_300_799  # the end of the year 9999


def clamp_to_calendar(second: T) -> T:
    """Return the nearest second that a calendar date can express."""
    return min(max(second, 0), MAX_SECOND)


@lru_cache(maxsize=65_536)
def iso(second: int) -> str:
    """Return a second as GitHub writes it: 2026-01-31T12:00:00Z."""
    return datetime.fromtimestamp(clamp_to_calendar(second), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def iso_or_none(second: int | None) -> str | None:
    """Return the same, or None if there is no time yet."""
    return None if second is None else iso(second)


@lru_cache(maxsize=1024)
def http_date(second: int) -> str:
    """Return a second as HTTP headers write it."""
    return formatdate(clamp_to_calendar(second), usegmt=True)


class VirtualClock:
    """Wall time plus an offset. When frozen, it changes only when it is set."""

    def __init__(self) -> None:
        self._offset = 0.0
        self._frozen_at: float | None = None

    def now(self) -> float:
        """Return seconds since the epoch."""
        if self._frozen_at is not None:
            return clamp_to_calendar(self._frozen_at)
        return clamp_to_calendar(time.time() + self._offset)

    @property
    def frozen(self) -> bool:
        """Whether the clock is frozen."""
        return self._frozen_at is not None

    def advance(self, seconds: float) -> None:
        """Let time pass at once."""
        self.set(self.now() + seconds)

    def set(self, moment: float) -> None:
        """Go to a moment; a frozen clock stays frozen there."""
        if self._frozen_at is not None:
            self._frozen_at = moment
        else:
            self._offset = moment - time.time()

    def freeze(self) -> None:
        """Freeze at the current time."""
        self._frozen_at = self.now()

    def thaw(self) -> None:
        """Unfreeze: run on from the frozen time."""
        moment, self._frozen_at = self.now(), None
        self.set(moment)

    def real(self) -> None:
        """Follow the machine's clock again."""
        self._offset, self._frozen_at = 0.0, None
