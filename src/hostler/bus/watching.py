"""Waiting until something may have come: told by the kernel, or by looking now and then."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from hostler.bus.inotify import Inotify
from hostler.clock import Clock

# Where nobody tells us: often enough to seem immediate, seldom enough to cost nothing.
LOOK_SECONDS = 0.04
# Where the kernel tells us: some file systems never say a word, and some words are lost.
CHECK_SECONDS = 5.0
_RING = (1).to_bytes(8, sys.byteorder)


class Watch(Protocol):
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


class _Closing:
    """Closes at the end of a block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of everything."""


class LookingWatch(_Closing):
    """Lets its user look every few milliseconds, by our clock."""

    def __init__(self, clock: Clock) -> None:
        self._stop = clock.wakeup()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    def add(self, folder: Path) -> None:
        """Nothing to be done: whoever waits looks for himself."""

    def wait(self) -> None:
        self._stop.wait(LOOK_SECONDS)

    def stop(self) -> None:
        self._stop.set()


class ToldWatch(_Closing):
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
        pause = CHECK_SECONDS if self._told() else LOOK_SECONDS
        self._poll.poll(pause * 1000)
        self._unwatched.update(self._inotify.gone())

    def stop(self) -> None:
        self.stopped = True
        with self._bell_lock:
            if not self._bell.closed:
                self._bell.write(_RING)

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

    def _told(self) -> bool:
        """Whether the kernel tells of everything: of folders, and of those that are to come."""
        return self._unwatched <= self._awaited


def watch(clock: Clock, folders: Iterable[Path] = ()) -> Watch:
    """The best way of waiting that this system has."""
    found: Watch
    try:
        found = ToldWatch()
    except OSError:
        found = LookingWatch(clock)
    for folder in folders:
        found.add(folder)
    return found
