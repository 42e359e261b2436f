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
# Beside what is watched there already: names that appear.
_PARENT_MASK = _MOVED_TO | _CREATE | _ONLY_FOLDERS | 0x20000000
_REMOVED = _DELETE_SELF | _MOVE_SELF | _IGNORED
_EVENT = struct.Struct("iIII")
_BUFFER_BYTES = 64 * 1024


class Inotify:
    """One queue of events for any number of folders. OSError where there is no such thing."""

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
        """What to wait for."""
        return self._file.fileno()

    def close(self) -> None:
        """Let go of all folders."""
        self._file.close()

    def add(self, folder: Path) -> None:
        """Tell of changes in this folder from now on."""
        self._folders[self._added(folder, _MASK)] = folder

    def add_above(self, folder: Path) -> None:
        """Tell of names that appear in this folder; that it goes is no news."""
        self._added(folder, _PARENT_MASK)

    def _added(self, folder: Path, mask: int) -> int:
        watched: int = self._libc.inotify_add_watch(self.fileno(), os.fsencode(folder), mask)
        if watched < 0:
            raise _os_error()
        return watched

    def gone(self) -> list[Path]:
        """Empty the queue; the folders that cannot be watched any more, as they went or moved."""
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


# Where nobody tells us: often enough to seem immediate, seldom enough to cost nothing.
POLL_SECONDS = 0.04
# Where the kernel tells us: some file systems never say a word, and some words are lost.
FALLBACK_POLL_SECONDS = 5.0
_WAKE = (1).to_bytes(8, sys.byteorder)


class BusWatch(Protocol):
    """Something that waits for changes in folders. One may serve many buses."""

    @property
    def stopped(self) -> bool:
        """Whether nobody wants to wait any more."""
        ...

    def add(self, folder: Path) -> None:
        """Watch this folder too."""
        ...

    def wait(self) -> None:
        """Return after a change, after a while, or when stopped."""
        ...

    def stop(self) -> None:
        """End all waiting, from any thread."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class _CloseOnExit:
    """Closes at the end of a block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of everything."""


class PollingWatch(_CloseOnExit):
    """Lets its user look every few milliseconds, by our clock."""

    def __init__(self, clock: Clock) -> None:
        self._stop = clock.wakeup()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def add(self, folder: Path) -> None:
        """Nothing to be done: whoever waits looks for himself."""

    def wait(self) -> None:
        self._stop.wait(POLL_SECONDS)

    def stop(self) -> None:
        self._stop.set()


class InotifyWatch(_CloseOnExit):
    """Is woken by the kernel. Its pauses are counted by the kernel too, not by our clock."""

    def __init__(self) -> None:
        self._inotify = Inotify()
        bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # Held to write to the bell or to close it: a closed descriptor's number may be reused.
        self._bell_lock = threading.Lock()
        self._bell = os.fdopen(bell, "wb", buffering=0)
        self._unwatched: set[Path] = set()
        # Those of them that are not there yet, and are heard of when they come.
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
            return  # something may have come before we watched
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
        """Watch what is not watched yet; whether anything could be."""
        before = len(self._unwatched)
        for folder in sorted(self._unwatched):
            # Once more after watching above it: it may have come in between.
            if self._added(folder) or (self._watch_above(folder) and self._added(folder)):
                self._unwatched.discard(folder)
        return len(self._unwatched) < before

    def _added(self, folder: Path) -> bool:
        with suppress(OSError):  # not there yet, or no more may be watched
            self._inotify.add(folder)
            return True
        return False

    def _watch_above(self, folder: Path) -> bool:
        """Hear of a folder that is not there yet by the nearest one above it that is."""
        self._awaited.discard(folder)
        above = next((one for one in folder.parents if one.is_dir()), None)
        if above is None or folder.exists():
            return above is not None
        with suppress(OSError):
            self._inotify.add_above(above)
            self._awaited.add(folder)
        return True

    def _is_fully_watched(self) -> bool:
        """Whether the kernel tells of everything: of folders, and of those that are to come."""
        return self._unwatched <= self._awaited


def open_watch(clock: Clock, folders: Iterable[Path] = ()) -> BusWatch:
    """The best way of waiting that this system has."""
    found: BusWatch
    try:
        found = InotifyWatch()
    except OSError:
        found = PollingWatch(clock)
    for folder in folders:
        found.add(folder)
    return found
