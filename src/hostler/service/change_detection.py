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
    """Detects commits, due times, and repositories that were reached for the first time."""

    def __init__(self, store: Store, clock: Clock, ready: Callable[[], frozenset[str]]) -> None:
        self._store = store
        self._clock = clock
        self._ready = ready
        self._seen: tuple[int, frozenset[str]] | None = None
        self._due: float | None = None

    def has_changed(self) -> bool:
        """Return True if rows must be read. Call it before reading, so that no commit is missed."""
        present = (self._store.change_mark(), self._ready())
        before, self._seen = self._seen, present
        return present != before or (self._due is not None and self._clock.monotonic() >= self._due)

    def due_in(self, seconds: float | None) -> None:
        """Report a change after this time; None: only after an event."""
        self._due = None if seconds is None else self._clock.monotonic() + seconds

    def seconds_left(self) -> float | None:
        """Return in how many seconds a change will be reported; None: only after an event."""
        return None if self._due is None else max(self._due - self._clock.monotonic(), 0.0)

    def forget(self) -> None:
        """Report a change at the next call."""
        self._seen = None


class TaskCounts:
    """Counts of tasks by project and state, read again after a commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mark: int | None = None
        self._found: Counter[tuple[str, TaskState]] = Counter()

    def of(self, project: str) -> dict[str, int]:
        """Return the counts of a project."""
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


# How often the file is checked.
FILE_CHECK_SECONDS = 2.0
FileVersion = tuple[int, int, int]
# Makes the first check read the file: it may have changed since it was loaded.
_NEVER_READ: FileVersion = (0, 0, 0)


class SettingsFile:
    """Watches the settings file for changes."""

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

    def request_reload(self) -> None:
        """Read the file at the next check, even if it has not changed."""
        self._asked.set()

    def read_change(self) -> SettingsChange | None:
        """Return what has changed, if anything. Raises once per change if the file has mistakes."""
        now, asked = self._clock.monotonic(), self._asked.is_set()
        if now < self._look_at and not asked:
            return None
        self._look_at = now + FILE_CHECK_SECONDS
        if asked:
            # Clear only a request that was seen: a new one is served by the next check.
            self._asked.clear()
        mark = _read_file_version(self._path)
        if mark == self._mark and not asked:
            return None
        # Store the version before reading: a later write leads to another check.
        self._mark = mark
        found = merge_settings(self._present, self._load())
        self._present = found.settings
        return found if found.taken or found.waiting or asked else None


def _read_file_version(path: Path) -> FileVersion | None:
    """Return a value that changes with the file; None if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
