"""The lock on a home: one service, upgrade or restore at a time.

Held = somebody works on the home; the kernel drops it when that process ends, however it ends.
The file stays: removing it would let two processes lock two files of the same name.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hostler.clock import Clock
from hostler.errors import HomeLocked, StoreReadOnly
from hostler.store.forks import renew_after_fork, set_aside
from hostler.store.holders import (
    UNKNOWN,
    Holder,
    clear_holder,
    myself,
    read_holder,
    try_lock,
    write_holder,
)
from hostler.store.parts import private_folder

FILE_NAME = "service.lock"


class HomeLock:
    """A held lock. It may be handed to the program that replaces this one by `exec`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        renew_after_fork(self)

    @classmethod
    def take(cls, home: Path, clock: Clock, purpose: str = "") -> HomeLock:
        """Take the lock now, or raise `HomeLocked` with the holder's name."""
        path = home / FILE_NAME
        while True:
            file = _open(path)
            if not try_lock(file):
                looked_at = _try_to_look(file)
                file.close()
                if looked_at:
                    continue  # somebody only asked who works here, and is through in no time
                raise HomeLocked(home, read_holder(path))
            if _is_still(path, file):
                write_holder(file.fileno(), myself(clock.now(), purpose))
                return cls(file)
            file.close()

    @classmethod
    def inherit(cls, home: Path, descriptor: int, clock: Clock, purpose: str = "") -> HomeLock:
        """Go on holding the lock that the program before us handed over."""
        path = home / FILE_NAME
        try:
            file = os.fdopen(descriptor, "r+b", buffering=0)
        except OSError as error:
            raise HomeLocked(home, read_holder(path)) from error
        if not _is_still(path, file) or not try_lock(file):
            file.close()
            raise HomeLocked(home, read_holder(path))
        os.set_inheritable(descriptor, False)
        write_holder(descriptor, myself(clock.now(), purpose))
        return cls(file)

    def hand_over(self) -> int:
        """The descriptor, made to stay open across `exec`; pass its number to the new program."""
        descriptor = self._file.fileno()
        os.set_inheritable(descriptor, True)
        # Nobody may drop it between here and there.
        set_aside(self._file)
        return descriptor

    def release(self) -> None:
        """Let the next one in. Releasing twice is harmless."""
        if self._file.closed:
            return
        clear_holder(self._file.fileno())
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._file.close()

    def after_fork(self) -> None:
        """A forked child does not work on the home; its copy must not outlive the parent's."""
        self._file.close()


@contextmanager
def home_lock(home: Path, clock: Clock, purpose: str = "") -> Iterator[HomeLock]:
    """Hold the lock for the length of a block; `purpose` tells others what for."""
    with held(HomeLock.take(home, clock, purpose)) as lock:
        yield lock


@contextmanager
def held(lock: HomeLock) -> Iterator[HomeLock]:
    """Release a lock at the end of a block."""
    try:
        yield lock
    finally:
        lock.release()


def who_works(home: Path) -> Holder | None:
    """Who holds the lock of a home at this moment; None: nobody does."""
    path = home / FILE_NAME
    try:
        file = path.open("rb", buffering=0)
    except OSError:
        return None
    with file:
        if _try_to_look(file):
            return None
    # It may have been taken this very moment, and nobody is named yet.
    return read_holder(path) or Holder(0, UNKNOWN, "", "")


def _try_to_look(file: BinaryIO) -> bool:
    """Share the lock for a moment with others who look; refused while somebody works."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(file, fcntl.LOCK_UN)
    return True


def _open(path: Path) -> BinaryIO:
    try:
        private_folder(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreReadOnly(
            f"The home {path.parent} cannot be used: {error.strerror}.",
            safe="Nothing was touched.",
            remedy="Look at its owner and permissions, or use another one with --home.",
        ) from error
    return os.fdopen(descriptor, "r+b", buffering=0)


def _is_still(path: Path, file: BinaryIO) -> bool:
    # Somebody may have removed the file between our opening and our locking it.
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except OSError:
        return False
