"""Detect commits in the database and changes of the settings file."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from hostler.clock import Clock
from hostler.config.loader import SettingsChange, merge_settings
from hostler.config.settings import Settings
from hostler.store import Store
from hostler.store.tasks import TaskState, tasks_in

# What is counted of each repository.
_COUNTED_STATES = {
    "queued": (TaskState.QUEUED,),
    "running": (TaskState.RUNNING,),
    "waiting": (TaskState.RETRYING, TaskState.PARKED),
}


class ChangeDetector:
    """News: a commit of anybody, a time that came, a repository that was reached first."""

    def __init__(self, store: Store, clock: Clock, ready: Callable[[], frozenset[str]]) -> None:
        self._store = store
        self._clock = clock
        self._ready = ready
        self._seen: tuple[int, frozenset[str]] | None = None
        self._due: float | None = None

    def look(self) -> bool:
        """Whether rows are to be looked at. Asked before looking: what comes meanwhile is news."""
        present = (self._store.change_mark(), self._ready())
        before, self._seen = self._seen, present
        return present != before or (self._due is not None and self._clock.monotonic() >= self._due)

    def due_in(self, seconds: float | None) -> None:
        """Look again by itself after this time; None: never."""
        self._due = None if seconds is None else self._clock.monotonic() + seconds

    def seconds_left(self) -> float | None:
        """Until it is due."""
        return None if self._due is None else max(self._due - self._clock.monotonic(), 0.0)

    def forget(self) -> None:
        """What was seen counts for nothing: the next look is news."""
        self._seen = None


class TaskCounts:
    """Tasks of each project by what they do, counted again after a commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mark: int | None = None
        self._found: Counter[tuple[str, TaskState]] = Counter()

    def of(self, project: str) -> dict[str, int]:
        """How many of a project there are."""
        mark = self._store.change_mark()
        if mark != self._mark:
            states = [state for group in _COUNTED_STATES.values() for state in group]
            with self._store.read() as tx:
                found = tasks_in(tx, states)
            self._mark = mark
            self._found = Counter((task.project, task.state) for task in found)
        return {
            name: sum(self._found[project, state] for state in group)
            for name, group in _COUNTED_STATES.items()
        }


# A file that somebody writes in two steps is read once more after this time.
FILE_CHECK_SECONDS = 2.0
FileVersion = tuple[int, int, int]
# The first look reads: the file may have changed since what is in force was read from it.
_NEVER_READ: FileVersion = (0, 0, 0)


class SettingsFile:
    """What is in force, and whether the file says something else by now."""

    def __init__(
        self, path: Path, present: Settings, load: Callable[[], Settings], clock: Clock
    ) -> None:
        self._path = path
        self._present = present
        self._load = load
        self._clock = clock
        self._mark: FileVersion | None = _NEVER_READ
        self._look_at = clock.monotonic() + FILE_CHECK_SECONDS
        self._asked = threading.Event()

    def ask(self) -> None:
        """Read it at the next look, changed or not."""
        self._asked.set()

    def look(self) -> SettingsChange | None:
        """What has changed, if anything did. Raises if the file has mistakes; once for each."""
        now, asked = self._clock.monotonic(), self._asked.is_set()
        if now < self._look_at and not asked:
            return None
        self._look_at = now + FILE_CHECK_SECONDS
        if asked:
            # Only then: somebody may ask just now, and is heard at the next look.
            self._asked.clear()
        mark = _read_file_version(self._path)
        if mark == self._mark and not asked:
            return None
        # Before reading: what is written meanwhile leads to another look.
        self._mark = mark
        found = merge_settings(self._present, self._load())
        self._present = found.settings
        return found if found.taken or found.waiting or asked else None


def _read_file_version(path: Path) -> FileVersion | None:
    """What changes with every change of a file; None while it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
