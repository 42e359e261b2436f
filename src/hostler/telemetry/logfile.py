"""Log lines on disk: one file per UTC day, old ones removed, a full disk survived."""

from __future__ import annotations

import os
import re
import sys
import threading
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from hostler.clock import Clock
from hostler.forks import renew_after_fork
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import LOG_LINES_LOST

_DAY_FILE = re.compile(r"^(\d{4}-\d{2}-\d{2})\.jsonl$")


@dataclass(frozen=True, slots=True)
class Caps:
    """How many bytes the file of a day may hold, and all files together."""

    day: int = sys.maxsize
    total: int = sys.maxsize

    @classmethod
    def of_mb(cls, day: int, total: int) -> Caps:
        """The same in MB; 0: no cap."""
        return cls(day * 1024 * 1024 or sys.maxsize, total * 1024 * 1024 or sys.maxsize)


class DailyFile:
    """Appends lines to `<folder>/YYYY-MM-DD.jsonl`. Any number of processes may share a folder.

    A line is one `write` on an append-only descriptor, so lines of several processes never mix.
    A line that cannot be written is counted and dropped: logging never stops the work.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        retention_days: int,
        caps: Caps | None = None,
    ) -> None:
        self._caps = caps or Caps()
        self._folder = folder
        self._clock = clock
        self._retention = timedelta(days=retention_days)
        self.after_fork()
        renew_after_fork(self)
        self._day: date | None = None
        self._descriptor = -1
        self.dropped = 0

    def after_fork(self) -> None:
        """Begin with a free lock; the append-only descriptor is safe to share."""
        self._lock = threading.Lock()

    def write(self, line: str) -> None:
        """Append one line, or count it as lost."""
        data = (line + "\n").encode("utf-8", "backslashreplace")
        with self._lock:
            try:
                self._turn_to_today()
                self._append(data)
            except OSError:
                self.dropped += 1
                metrics.count(LOG_LINES_LOST)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._release()

    def _append(self, data: bytes) -> None:
        if os.fstat(self._descriptor).st_size + len(data) > self._caps.day:
            raise OSError("the day's file is full")
        written = os.write(self._descriptor, data)
        if written < len(data):
            # The disk filled up in the middle: take the torn piece back, so that the next
            # line does not join it.
            size = os.fstat(self._descriptor).st_size
            os.ftruncate(self._descriptor, max(0, size - written))
            raise OSError("short write")

    def _turn_to_today(self) -> None:
        today = self._clock.now().date()
        if today == self._day and self._descriptor >= 0:
            return
        self._release()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self._folder / f"{today.isoformat()}.jsonl", flags, 0o600)
        self._day = today
        self._remove_older_than(today - self._retention)
        self._remove_oldest(today)

    def _remove_older_than(self, oldest: date) -> None:
        for path in self._folder.iterdir():
            match = _DAY_FILE.match(path.name)
            if match and match[1] < oldest.isoformat():
                path.unlink(missing_ok=True)

    def _remove_oldest(self, today: date) -> None:
        """Until all days together are no more than they may be; today's file stays."""
        days = sorted(path for path in self._folder.iterdir() if _DAY_FILE.match(path.name))
        sizes = {path: path.stat().st_size for path in days}
        for path in days:
            if sum(sizes.values()) <= self._caps.total or path.stem >= today.isoformat():
                return
            path.unlink(missing_ok=True)
            del sizes[path]

    def _release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
