"""What was spent lately: sums over a sliding window, and rates that fade."""

from __future__ import annotations

from collections import deque
from math import exp

SHORTEST_WAIT = 0.001


class Window:
    """A sum over the last so many seconds. What is under way counts, and so long after its end."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ended: deque[tuple[float, int]] = deque()
        self._sum = 0
        self._flying = 0

    def total(self, now: float) -> int:
        """What counts now."""
        while self._ended and self._ended[0][0] <= now - self._seconds:
            self._sum -= self._ended.popleft()[1]
        return self._sum + self._flying

    def begin(self, amount: int) -> None:
        """Something leaves."""
        self._flying += amount

    def end(self, amount: int, now: float, *, counted: bool) -> None:
        """It is over; not `counted` if it never reached GitHub."""
        self._flying -= amount
        if counted:
            self._ended.append((now, amount))
            self._sum += amount

    def wait(self, amount: int, cap: int, now: float) -> float:
        """Seconds until so much more stays within a cap; 0 if it does now.

        What is more than the cap itself takes several windows.
        """
        rounds, rest = divmod(max(amount - 1, 0), cap)
        return rounds * self._seconds + self._wait(rest + 1, cap, now)

    def _wait(self, amount: int, cap: int, now: float) -> float:
        over = self.total(now) + amount - cap
        if over <= 0:
            return 0.0
        for at, gone in self._ended:
            over -= gone
            if over <= 0:
                # Two floats may differ by nothing although the time has not come.
                return max(at + self._seconds - now, SHORTEST_WAIT)
        # What is under way has to end first.
        return self._seconds


class Tally:
    """A rate per second, over a memory that fades; while time is `slower`, as much slower."""

    def __init__(self, memory: float) -> None:
        self._memory = memory
        self._amount = 0.0
        self._at = 0.0
        self._slower = 1.0

    def add(self, amount: float, now: float, slower: float = 1.0) -> None:
        """Count something."""
        self._amount = self._faded(now) + amount
        self._at, self._slower = now, slower

    def rate(self, now: float) -> float:
        """How much per second of that time, lately."""
        return self._faded(now) / self._memory

    def _faded(self, now: float) -> float:
        passed = max(now - self._at, 0.0) / self._slower
        return self._amount * exp(-passed / self._memory)
