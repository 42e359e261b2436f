"""How many workers are busy: one counter for the whole process, mirrored from futures."""

from __future__ import annotations

import threading


class GlobalWorkLimiter:
    """Tokens for work. Adopted work takes one by force; then nobody gets one until it is repaid."""

    def __init__(self, capacity: int) -> None:
        self._taken = 0
        self._lock = threading.Lock()
        self.resize(capacity)

    def resize(self, capacity: int) -> None:
        """So many tokens from now on. Those in use stay; nobody gets one until below."""
        if capacity < 1:
            raise ValueError(f"a capacity of {capacity} would let nothing run")
        with self._lock:
            self._capacity = capacity

    def try_acquire(self) -> bool:
        """A token, if there is one."""
        with self._lock:
            if self._taken >= self._capacity:
                return False
            self._taken += 1
            return True

    def force(self) -> None:
        """A token for work that is under way already."""
        with self._lock:
            self._taken += 1

    def release(self) -> None:
        """Give a token back."""
        with self._lock:
            if not self._taken:
                raise RuntimeError("a token was given back that nobody took")
            self._taken -= 1

    def in_flight(self) -> int:
        """Tokens in use."""
        with self._lock:
            return self._taken

    def capacity(self) -> int:
        """Tokens in all."""
        with self._lock:
            return self._capacity
