"""Threads for what waits on others: looks, looks at repositories that hang, and chores."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

LOOKS, SLOW_LOOKS, CHORES = 16, 4, 2
T = TypeVar("T")


class Lanes:
    """Each kind has its own threads, so that none keeps another waiting."""

    def __init__(self) -> None:
        self._looks = ThreadPoolExecutor(LOOKS, thread_name_prefix="look")
        self._slow = ThreadPoolExecutor(SLOW_LOOKS, thread_name_prefix="slow-look")
        self.chores = ThreadPoolExecutor(CHORES, thread_name_prefix="chore")

    def look(self, act: Callable[[], T], *, slow: bool) -> Future[T]:
        """Look at a repository; at one that hung the last time, where it delays only its like."""
        return (self._slow if slow else self._looks).submit(act)

    def close(self) -> None:
        """Begin nothing any more; nobody is waited for."""
        for lane in (self._looks, self._slow, self.chores):
            lane.shutdown(wait=False, cancel_futures=True)
