"""The settings file of a service at work: looked at now and then, taken up if it is sound."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from hostler.clock import Clock
from hostler.config.changes import Change, change
from hostler.config.settings import Settings

# A file that somebody writes in two steps is read once more after this time.
LOOK_SECONDS = 2.0
Mark = tuple[int, int, int]
# The first look reads: the file may have changed since what is in force was read from it.
NEVER_READ: Mark = (0, 0, 0)


class SettingsFile:
    """What is in force, and whether the file says something else by now."""

    def __init__(
        self, path: Path, present: Settings, load: Callable[[], Settings], clock: Clock
    ) -> None:
        self._path = path
        self._present = present
        self._load = load
        self._clock = clock
        self._mark: Mark | None = NEVER_READ
        self._look_at = clock.monotonic() + LOOK_SECONDS
        self._asked = threading.Event()

    def ask(self) -> None:
        """Read it at the next look, changed or not."""
        self._asked.set()

    def look(self) -> Change | None:
        """What has changed, if anything did. Raises if the file has mistakes; once for each."""
        now, asked = self._clock.monotonic(), self._asked.is_set()
        if now < self._look_at and not asked:
            return None
        self._look_at = now + LOOK_SECONDS
        if asked:
            # Only then: somebody may ask just now, and is heard at the next look.
            self._asked.clear()
        mark = mark_of(self._path)
        if mark == self._mark and not asked:
            return None
        # Before reading: what is written meanwhile leads to another look.
        self._mark = mark
        found = change(self._present, self._load())
        self._present = found.settings
        return found if found.taken or found.waiting or asked else None


def mark_of(path: Path) -> Mark | None:
    """What changes with every change of a file; None while it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
