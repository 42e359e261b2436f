"""Read snapshots of a home or of the running service, and watch them for changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from hostler.backoff import backoff
from hostler.clock import Clock
from hostler.config.settings import Settings
from hostler.errors import HostlerError
from hostler.service.snapshot.snapshot import SnapshotReader
from hostler.store import Store, open_store
from hostler.store.engine.backend import Place, SqlitePlace

# Output of agents and locks of the home change without a commit: read again after this time.
BUSY_POLL_SECONDS, IDLE_POLL_SECONDS = 5.0, 15.0
# Commits within this time are read together.
MIN_POLL_SECONDS = 0.25
# Maximum time to notice that the screen has closed.
CLOSE_CHECK_SECONDS = 1.0
MAX_RETRY_SECONDS = 5.0


class SnapshotSource(Protocol):
    """Reads snapshots. Call `mark` before `look`, so that no commit in between is missed."""

    def mark(self) -> int: ...
    def look(self) -> Mapping[str, Any]: ...
    def wait(self, mark: int, seconds: float) -> bool:
        """Wait for a commit after the mark; return False if there was none within the time."""
        ...

    def forget(self) -> None:
        """Reopen everything for the next snapshot."""
        ...


# Receives a snapshot, or None and the reason.
OnSnapshot = Callable[[Mapping[str, Any] | None, str], None]


def retry_delay(failures: int) -> float:
    """Return the wait after a number of failures in a row: 1, 2, 4, then 5 seconds."""
    return backoff(failures - 1, 1.0, MAX_RETRY_SECONDS)


def poll_interval(seen: Mapping[str, Any]) -> float:
    """Return after how many seconds to read again without a commit."""
    return BUSY_POLL_SECONDS if seen["at_work"] else IDLE_POLL_SECONDS


class SnapshotWatcher:
    """A thread that reads snapshots and passes them on."""

    def __init__(self, outlook: SnapshotSource, clock: Clock, tell: OnSnapshot) -> None:
        self._outlook = outlook
        self._clock = clock
        self._tell = tell
        self._ended = threading.Event()
        self._pause = clock.wakeup()
        self._one = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """Ask the thread to end, without waiting for it."""
        self._ended.set()
        self._pause.set()

    def join(self) -> None:
        """Wait for the thread to end."""
        self._thread.join()

    def look_now(self) -> None:
        """Reopen everything and read a snapshot now, on the calling thread."""
        if not self._ended.is_set():
            self._outlook.forget()
            self._look()

    def _run(self) -> None:
        try:
            self._watch()
        finally:
            self._outlook.forget()

    def _watch(self) -> None:
        failures = 0
        while not self._ended.is_set():
            found = self._look()
            if found is None:
                failures += 1
                self._pause.wait(retry_delay(failures))
                continue
            failures = 0
            self._rest(*found)

    def _look(self) -> tuple[int, float] | None:
        """Read a snapshot; return its mark and how long it is valid, or None if it failed."""
        with self._one:
            try:
                mark = self._outlook.mark()
                seen = self._outlook.look()
            except Exception as error:
                # Report any error: a screen that stops updating silently would be worse.
                self._outlook.forget()
                self._tell(None, describe_error(error))
                return None
            self._tell(seen, "")
            return mark, poll_interval(seen)

    def _rest(self, mark: int, seconds: float) -> None:
        end = self._clock.monotonic() + seconds
        self._pause.wait(MIN_POLL_SECONDS)
        while not self._ended.is_set():
            left = end - self._clock.monotonic()
            try:
                if left <= 0 or self._outlook.wait(mark, min(left, CLOSE_CHECK_SECONDS)):
                    return
            except Exception:
                return  # the next read reports the error


def describe_error(error: Exception) -> str:
    """Describe why reading failed."""
    if isinstance(error, HostlerError):
        return " ".join(error.lines())
    if isinstance(error, OSError) and error.strerror:
        return f"System error: {error.strerror}."
    return f"Internal error (a bug in Hostler): {type(error).__name__}: {error}"


class HomeSnapshots:
    """Snapshots of a home, opened when possible; each opening reloads the settings."""

    def __init__(self, home: Path, settings: Callable[[], Settings]) -> None:
        self._home = home
        self._settings = settings
        self._guard = threading.Lock()
        self._reader: SnapshotReader | None = None
        self._file: tuple[int, int] | None = None

    def mark(self) -> int:
        return self._open().store.change_mark()

    def look(self) -> Mapping[str, Any]:
        return self._open().read().as_json()

    def wait(self, mark: int, seconds: float) -> bool:
        return self._open().store.wait_for_change(mark, seconds) != mark

    def forget(self) -> None:
        with self._guard:
            self._close()

    def _open(self) -> SnapshotReader:
        with self._guard:
            if (
                self._reader is not None
                and database_file_id(self._reader.store.place) != self._file
            ):
                # The database file was replaced or deleted: reopen it.
                self._close()
            if self._reader is None:
                settings = self._settings()
                store = open_store(self._home, settings.runtime.database_url or None)
                self._file = database_file_id(store.place)
                self._reader = SnapshotReader(self._home, settings, store)
            return self._reader

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.store.close()
        self._reader = None


def database_file_id(place: Place) -> tuple[int, int] | None:
    """Return the identity of the database file; None for a server or a missing file."""
    if not isinstance(place, SqlitePlace):
        return None
    try:
        found = place.path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class ServiceSnapshots:
    """Snapshots of the service in this process, with its effective settings."""

    def __init__(self, home: Path, store: Store, settings: Callable[[], Settings]) -> None:
        self._home = home
        self._store = store
        self._settings = settings
        self._reader = SnapshotReader(home, settings(), store)

    def mark(self) -> int:
        return self._store.change_mark()

    def look(self) -> Mapping[str, Any]:
        settings = self._settings()
        if settings is not self._reader.settings:
            self._reader = SnapshotReader(self._home, settings, self._store)
        return self._reader.read().as_json()

    def wait(self, mark: int, seconds: float) -> bool:
        return self._store.wait_for_change(mark, seconds) != mark

    def forget(self) -> None:
        """Do nothing: the store belongs to the service."""
