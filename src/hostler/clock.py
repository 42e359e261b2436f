"""Time as an argument: the real clock, and one that tests move by hand.

Everything that reads the time or waits takes a `Clock`. `FakeClock` wakes its waiters when
it is moved, so tests wait on events and never on time.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from hostler.model import EPOCH


class Wakeup(Protocol):
    """Something a thread can wait for, and another thread (or the clock) can end."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def is_set(self) -> bool: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class Clock(Protocol):
    """What we need of time."""

    def now(self) -> datetime:
        """The wall clock, in UTC. It may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        ...

    def wakeup(self) -> Wakeup:
        """A new event whose timeouts are counted by this clock."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def wakeup(self) -> Wakeup:
        return threading.Event()


class FakeClock:
    """A clock that stands still until a test moves it."""

    # A test whose waiters never arrive must fail with a message, not hang.
    PATIENCE = 30.0

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
        """Let time pass: both clocks move, and waiters whose time has come wake."""
        if seconds < 0:
            raise ValueError("time only advances; use jump() to set the wall clock back")
        with self._moved:
            self._elapsed += seconds
            self._wall += timedelta(seconds=seconds)
            self._moved.notify_all()

    def jump(self, seconds: float) -> None:
        """Move the wall clock alone, as NTP or an operator would."""
        with self._moved:
            self._wall += timedelta(seconds=seconds)

    def wait_for_waiters(self, count: int = 1) -> None:
        """Block until `count` threads wait on this clock, besides those about to wake."""
        with self._moved:
            if not self._moved.wait_for(lambda: self._asleep() >= count, self.PATIENCE):
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
        """Return whether the thread is to go on, which it may not have done yet."""
        elapsed = self._wakeup._clock._elapsed
        return self._wakeup._flag or (self._deadline is not None and elapsed >= self._deadline)
