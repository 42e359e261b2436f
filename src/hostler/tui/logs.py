"""The lines of the service in this process, for the log panel. Bounded."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

MOST = 500


class LogLines:
    """The newest lines; whoever follows is told of each."""

    def __init__(self, most: int = MOST) -> None:
        self._guard = threading.Lock()
        self._lines: deque[str] = deque(maxlen=most)
        self._count = 0
        self._follower: Callable[[], object] | None = None

    def add(self, line: str) -> None:
        """One line, from whatever thread."""
        with self._guard:
            self._lines.append(line)
            self._count += 1
            follower = self._follower
        if follower is not None:
            follower()

    def follow(self, follower: Callable[[], object] | None) -> None:
        """Tell this one of each line; None: nobody any more."""
        with self._guard:
            self._follower = follower

    def lines(self) -> tuple[tuple[str, ...], int]:
        """The lines that are kept, and how many there were before them."""
        with self._guard:
            return tuple(self._lines), self._count - len(self._lines)
