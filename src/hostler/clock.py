"""The system clock, and a clock that tests advance.

Everything that reads the time or waits takes a `Clock`. `FakeClock` wakes its waiters when it is
advanced, so tests wait for events and never for time.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from hostler.model import EPOCH


class Wakeup(Protocol):
    """An event that a thread waits for until another thread sets it or a timeout passes."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def is_set(self) -> bool: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class Clock(Protocol):
    """Reads the time and makes events with timeouts."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC. It may jump."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""
        ...

    def wakeup(self) -> Wakeup:
        """Return a new event whose timeouts are counted by this clock."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def wakeup(self) -> Wakeup:
        return threading.Event()


class FakeClock:
    """A clock that stands still until a test advances it."""

    # A test whose waiters never arrive must fail with a message instead of hanging.
    TIMEOUT_SECONDS = 30.0

    def __init__(self, start: datetime = EPOCH + timedelta(days=20_000)) -> None:
        self._moved = threading.Condition()
        self._wall = start
        self._elapsed = 0.0
        self._waits: list[_FakeWait] = []

    def now(self) -> datetime:
        with self._moved:
            return self._wall

    def monotonic(self) -> float:
        with self._moved:
            return self._elapsed

    def wakeup(self) -> Wakeup:
        return _FakeWakeup(self)

    def advance(self, seconds: float) -> None:
        """Advance both clocks, and wake the waiters whose timeout has passed."""
        if seconds < 0:
            raise ValueError("time only advances; use jump() to set the wall clock back")
        with self._moved:
            self._elapsed += seconds
            self._wall += timedelta(seconds=seconds)
            self._moved.notify_all()

    def jump(self, seconds: float) -> None:
        """Move only the wall clock, as NTP or an operator would."""
        with self._moved:
            self._wall += timedelta(seconds=seconds)

    def wait_for_waiters(self, count: int = 1) -> None:
        """Block until `count` threads wait on this clock, not counting those about to wake."""
        with self._moved:
            if not self._moved.wait_for(lambda: self._asleep() >= count, self.TIMEOUT_SECONDS):
                raise TimeoutError(f"{self._asleep()} of {count} threads came to wait")

    def _asleep(self) -> int:
        return sum(not wait.is_over() for wait in self._waits)


class _FakeWakeup:
    """An event whose timeout passes only when its clock is advanced."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._flag = False

    def set(self) -> None:
        with self._clock._moved:
            self._flag = True
            self._clock._moved.notify_all()

    def clear(self) -> None:
        with self._clock._moved:
            self._flag = False

    def is_set(self) -> bool:
        with self._clock._moved:
            return self._flag

    def wait(self, timeout: float | None = None) -> bool:
        clock = self._clock
        with clock._moved:
            wait = _FakeWait(self, None if timeout is None else clock._elapsed + timeout)
            clock._waits.append(wait)
            clock._moved.notify_all()
            try:
                clock._moved.wait_for(wait.is_over)
            finally:
                clock._waits.remove(wait)
            return self._flag


class _FakeWait:
    """One thread's wait for an event, until a time of its clock."""

    def __init__(self, wakeup: _FakeWakeup, deadline: float | None) -> None:
        self._wakeup = wakeup
        self._deadline = deadline

    def is_over(self) -> bool:
        """Return whether the wait has ended, even if its thread has not continued yet."""
        elapsed = self._wakeup._clock._elapsed
        return self._wakeup._flag or (self._deadline is not None and elapsed >= self._deadline)
