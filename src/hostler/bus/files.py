"""The files of one bus: the present one, and those that were set aside."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hostler.bus.errors import BusError, BusFull, BusMissing, BusUnusable
from hostler.bus.ids import is_id

# Links are not followed: an agent could point one at a file of the user's. A pipe must not block.
_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | _SAFELY
_READ = os.O_RDONLY | _SAFELY
_OVERWRITE = os.O_WRONLY | _SAFELY


@dataclass(frozen=True, slots=True)
class SetAside:
    """A file that was set aside: `id` is higher than all in it, lower than all after it."""

    path: Path
    id: str


def open_to_append(path: str) -> int:
    """A descriptor of the present file, which is made if need be; its folder is not.

    Whether it is a plain file is for the caller to see, who has to look at it anyway.
    """
    try:
        return os.open(path, _APPEND, 0o600)
    except OSError as error:
        raise refusal(Path(path), error) from error


@contextmanager
def opened_to_overwrite(path: Path) -> Iterator[int]:
    """A descriptor that writes where it is told to: with O_APPEND everything goes to the end."""
    descriptor = _open(path, _OVERWRITE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_to_read(path: Path) -> BinaryIO | None:
    """A file for reading; None where there is none."""
    try:
        return os.fdopen(_open(path, _READ), "rb", buffering=0)
    except BusMissing:
        return None


def require_plain(path: Path, found: os.stat_result) -> None:
    """Refuse what is no file in the common sense."""
    if not stat.S_ISREG(found.st_mode):
        raise BusUnusable(path, "it is not a plain file")


def is_still(path: Path | str, found: os.stat_result) -> bool:
    """Whether an opened file still has this name."""
    try:
        named = os.lstat(path)
    except OSError:
        return False
    return named.st_ino == found.st_ino and named.st_dev == found.st_dev


def aside(path: Path, message_id: str) -> Path:
    """What the present file is called once it is set aside."""
    return path.with_name(f"{path.stem}.{message_id}{path.suffix}")


def set_aside(path: Path) -> list[SetAside]:
    """All files that were set aside, oldest first."""
    start, end = f"{path.stem}.", path.suffix
    try:
        names = os.listdir(path.parent)  # noqa: PTH208
    except FileNotFoundError:
        return []
    except OSError as error:
        raise refusal(path, error) from error
    ids = (name.removeprefix(start).removesuffix(end) for name in names if name.startswith(start))
    return [SetAside(aside(path, found), found) for found in sorted(ids) if is_id(found)]


def make_folder(path: Path, *, sync: bool) -> None:
    """Make the folder of a bus, and those above it that are missing, for ourselves alone."""
    missing = [folder for folder in path.parents if not folder.is_dir()]
    try:
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
            if sync:
                sync_folder(folder.parent)
    except OSError as error:
        raise refusal(path, error) from error


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refusal(path: Path, error: OSError) -> BusError:
    """What an error of the system means for a bus."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return BusFull(path)
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return BusMissing(path)
    if error.errno == errno.ELOOP:
        return BusUnusable(path, "it is a symbolic link")
    return BusUnusable(path, error.strerror or str(error))


def _open(path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise refusal(path, error) from error
    try:
        require_plain(path, os.fstat(descriptor))
    except BusUnusable:
        os.close(descriptor)
        raise
    return descriptor
