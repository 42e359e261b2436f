"""Waiting for a commit: one's own process wakes at once, others are noticed soon after.

A wait says since which mark, so a commit between reading and waiting is never missed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from hostler.clock import Clock, Wakeup
from hostler.errors import StoreError


class Changes:
    """Counts the commits that this process knows of, and wakes those who wait for one."""

    def __init__(
        self, clock: Clock, version: Callable[[], int], poll_seconds: float | None
    ) -> None:
        self._clock = clock
        self._version = version
        self._poll_seconds = poll_seconds
        self._guard = threading.Lock()
        self._waiters: set[Wakeup] = set()
        self._count = 0
        self._seen: int | None = None

    def mark(self) -> int:
        """Where we are now. A later commit, whosever it is, leads to another mark."""
        version = self._version()
        with self._guard:
            return self._noticed(version)

    def wait(self, since: int, timeout: float | None) -> int:
        """Block until the mark is no longer `since`, or the time is over; the present mark."""
        end = None if timeout is None else self._clock.monotonic() + timeout
        wakeup = self._clock.wakeup()
        with self._guard:
            self._waiters.add(wakeup)
        try:
            while (mark := self.mark()) == since:
                seconds = self._nap(end)
                if seconds is not None and seconds <= 0:
                    break
                wakeup.wait(seconds)
                wakeup.clear()
            return mark
        finally:
            with self._guard:
                self._waiters.discard(wakeup)

    def committed(self) -> None:
        """This process has committed."""
        with self._guard:
            if self._seen is not None:
                # Our own commit changes the number too; taking it now saves a second waking.
                with suppress(StoreError):
                    self._seen = self._version()
            self._count += 1
        self.wake()

    def wake(self) -> None:
        """Have every waiter look."""
        with self._guard:
            for wakeup in self._waiters:
                wakeup.set()

    def _noticed(self, version: int) -> int:
        if self._seen is not None and version != self._seen:
            self._count += 1
        self._seen = version
        return self._count

    def _nap(self, end: float | None) -> float | None:
        naps = [] if self._poll_seconds is None else [self._poll_seconds]
        if end is not None:
            naps.append(end - self._clock.monotonic())
        return min(naps, default=None)
