"""New files that only we may read, and that get their name when they are whole.

A part is locked while somebody writes it. The kernel drops the lock with the process, so what
a killed one left can be told apart, and is swept by whoever writes into the folder next.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hostler.errors import StoreFull, StoreReadOnly

_PREFIX, _SUFFIX = ".hostler-", ".part"
# What SQLite may leave beside a file that it writes.
_BESIDE = ("", "-journal", "-wal", "-shm")


@contextmanager
def part_of(target: Path) -> Iterator[Path]:
    """An empty file to write, which becomes the target when the block ends."""
    with written(target):
        sweep(target.parent)
        part, descriptor = _claim(target.parent)
    try:
        yield part
        with written(target):
            sync(part)
            part.replace(target)
            sync(target.parent)
    except BaseException:
        _remove(part)
        raise
    finally:
        os.close(descriptor)


@contextmanager
def written(target: Path) -> Iterator[None]:
    """Say of a failure that this file could not be written, and why."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise StoreFull(
                f"No space is left for {target}.",
                safe="The database was not touched.",
                remedy="Free some space, or name another file.",
            ) from error
        raise StoreReadOnly(
            f"{target} cannot be written: {error.strerror}.",
            safe="The database was not touched.",
            remedy="Look at owner, permissions and mount of its folder, or name another file.",
        ) from error


def private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for ourselves alone."""
    for part in [*reversed(folder.parents), folder]:
        with suppress(FileExistsError, IsADirectoryError):
            if not part.is_dir():
                part.mkdir(mode=0o700)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def sweep(folder: Path) -> None:
    """Remove the parts that nobody writes any more."""
    for part in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError):
            descriptor = os.open(part, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(part)
            finally:
                os.close(descriptor)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _claim(folder: Path) -> tuple[Path, int]:
    while True:
        part = folder / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # Somebody may sweep between our making it and our locking it.
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if part.exists():
                return part, descriptor
        os.close(descriptor)


def _remove(part: Path) -> None:
    for ending in _BESIDE:
        with suppress(OSError):
            os.unlink(f"{part}{ending}")  # noqa: PTH108
