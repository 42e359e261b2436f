"""Wait until a folder changes, by inotify or by polling."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from hostler.clock import Clock

_MODIFY, _MOVED_TO, _CREATE = 0x2, 0x80, 0x100
_DELETE_SELF, _MOVE_SELF, _IGNORED = 0x400, 0x800, 0x8000
_ONLY_FOLDERS = 0x01000000
_MASK = _MODIFY | _MOVED_TO | _CREATE | _DELETE_SELF | _MOVE_SELF | _ONLY_FOLDERS
# Events in addition to those of a folder: created and moved names.
_PARENT_MASK = _MOVED_TO | _CREATE | _ONLY_FOLDERS | 0x20000000
_REMOVED = _DELETE_SELF | _MOVE_SELF | _IGNORED
_EVENT = struct.Struct("iIII")
_BUFFER_BYTES = 64 * 1024


class Inotify:
    """One inotify queue for any number of folders. Raises OSError if inotify is not available."""

    def __init__(self) -> None:
        try:
            self._libc = ctypes.CDLL(None, use_errno=True)
            descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except AttributeError as error:
            raise OSError(0, "this system has no inotify") from error
        if descriptor < 0:
            raise _os_error()
        self._file = os.fdopen(descriptor, "rb", buffering=0)
        self._folders: dict[int, Path] = {}

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._file.fileno()

    def close(self) -> None:
        """Close the queue and stop watching."""
        self._file.close()

    def add(self, folder: Path) -> None:
        """Report changes in this folder from now on."""
        self._folders[self._added(folder, _MASK)] = folder

    def add_above(self, folder: Path) -> None:
        """Report names that are created in this folder, but not its removal."""
        self._added(folder, _PARENT_MASK)

    def _added(self, folder: Path, mask: int) -> int:
        watched: int = self._libc.inotify_add_watch(self.fileno(), os.fsencode(folder), mask)
        if watched < 0:
            raise _os_error()
        return watched

    def gone(self) -> list[Path]:
        """Empty the queue. Return folders that can no longer be watched: removed or moved."""
        try:
            data = self._file.read(_BUFFER_BYTES) or b""
        except OSError:
            return []
        lost: list[Path] = []
        while data:
            watched, mask, _, length = _EVENT.unpack_from(data)
            data = data[_EVENT.size + length :]
            if mask & _REMOVED and watched in self._folders:
                lost.append(self._folders.pop(watched))
        return lost


def _os_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


# Without inotify: often enough to seem immediate, rarely enough to be cheap.
POLL_SECONDS = 0.04
# With inotify: some file systems report nothing, and events can be lost.
FALLBACK_POLL_SECONDS = 5.0
_WAKE = (1).to_bytes(8, sys.byteorder)


class BusWatch(Protocol):
    """Waits for changes in folders. One watch may serve many buses."""

    @property
    def stopped(self) -> bool:
        """Return whether waiting was stopped."""
        ...

    def add(self, folder: Path) -> None:
        """Watch this folder too."""
        ...

    def wait(self) -> None:
        """Wait for a change, a timeout or `stop`."""
        ...

    def stop(self) -> None:
        """End all waiting, from any thread."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class _CloseOnExit:
    """A context manager that closes at the end of its block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release all resources."""


class PollingWatch(_CloseOnExit):
    """Waits a few milliseconds at a time, by the injected clock."""

    def __init__(self, clock: Clock) -> None:
        self._stop = clock.wakeup()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def add(self, folder: Path) -> None:
        """Do nothing: the caller checks the files itself."""

    def wait(self) -> None:
        self._stop.wait(POLL_SECONDS)

    def stop(self) -> None:
        self._stop.set()


class InotifyWatch(_CloseOnExit):
    """Waits for inotify events. The kernel measures the timeout, not the injected clock."""

    def __init__(self) -> None:
        self._inotify = Inotify()
        bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # Held to write to the wakeup pipe or to close it: a closed descriptor may be reused.
        self._bell_lock = threading.Lock()
        self._bell = os.fdopen(bell, "wb", buffering=0)
        self._unwatched: set[Path] = set()
        # Folders that do not exist yet; their creation is reported.
        self._awaited: set[Path] = set()
        self._poll = select.poll()
        self._poll.register(self._inotify, select.POLLIN)
        self._poll.register(self._bell, select.POLLIN)
        self.stopped = False

    def add(self, folder: Path) -> None:
        self._unwatched.add(folder)
        self._watch_all()

    def wait(self) -> None:
        if self.stopped:
            return
        if self._unwatched and self._watch_all():
            return  # a change may have happened before the watch was added
        pause = FALLBACK_POLL_SECONDS if self._is_fully_watched() else POLL_SECONDS
        self._poll.poll(pause * 1000)
        self._unwatched.update(self._inotify.gone())

    def stop(self) -> None:
        self.stopped = True
        with self._bell_lock:
            if not self._bell.closed:
                self._bell.write(_WAKE)

    def close(self) -> None:
        self._inotify.close()
        with self._bell_lock:
            self._bell.close()

    def _watch_all(self) -> bool:
        """Watch all folders that are not watched yet. Return whether any watch was added."""
        before = len(self._unwatched)
        for folder in sorted(self._unwatched):
            # Try again after the parent is watched: the folder may have been created in between.
            if self._added(folder) or (self._watch_above(folder) and self._added(folder)):
                self._unwatched.discard(folder)
        return len(self._unwatched) < before

    def _added(self, folder: Path) -> bool:
        with suppress(OSError):  # does not exist yet, or the limit of watches is reached
            self._inotify.add(folder)
            return True
        return False

    def _watch_above(self, folder: Path) -> bool:
        """Watch the nearest existing parent of a missing folder."""
        self._awaited.discard(folder)
        above = next((one for one in folder.parents if one.is_dir()), None)
        if above is None or folder.exists():
            return above is not None
        with suppress(OSError):
            self._inotify.add_above(above)
            self._awaited.add(folder)
        return True

    def _is_fully_watched(self) -> bool:
        """Return whether inotify reports every change, also for folders that do not exist yet."""
        return self._unwatched <= self._awaited


def open_watch(clock: Clock, folders: Iterable[Path] = ()) -> BusWatch:
    """Return the best watch that this system supports."""
    found: BusWatch
    try:
        found = InotifyWatch()
    except OSError:
        found = PollingWatch(clock)
    for folder in folders:
        found.add(folder)
    return found
