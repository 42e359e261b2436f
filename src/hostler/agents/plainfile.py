"""Read a file that somebody else made, and that may be anything.

Links are not followed, nothing blocks, only regular files are read, and only so much of them.
"""

from __future__ import annotations

import errno
import os
import stat
from enum import StrEnum
from pathlib import Path

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
CHUNK = 256 * 1024


class Oddity(StrEnum):
    """Why a file was not read."""

    MISSING = "missing"
    SYMLINK = "symlink"
    NOT_A_FILE = "not_a_file"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"


class NotPlain(Exception):
    """There is no such file, or none that may be read."""

    def __init__(self, oddity: Oddity, found: str) -> None:
        super().__init__(found)
        self.oddity = oddity
        self.found = found


_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_plain(path: Path) -> int:
    """A descriptor of a regular file; NotPlain for everything else."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        raise _refusal(error) from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise NotPlain(Oddity.NOT_A_FILE, kind_of(mode))
    return descriptor


def read_plain(path: Path, limit: int) -> bytes:
    """The whole file, if it is a regular one of at most `limit` bytes."""
    descriptor = open_plain(path)
    try:
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise NotPlain(Oddity.TOO_LARGE, f"{size:,} bytes")
        data = _read(descriptor, limit + 1)
    except OSError as error:
        raise _refusal(error) from None
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise NotPlain(Oddity.TOO_LARGE, f"more than {limit:,} bytes")
    return data


def kind_of(mode: int) -> str:
    """What a file is that is not a regular one."""
    return next((name for test, name in _KINDS if test(mode)), "not a file")


def _read(descriptor: int, limit: int) -> bytes:
    parts: list[bytes] = []
    while limit > 0 and (part := os.read(descriptor, min(limit, CHUNK))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def _refusal(error: OSError) -> NotPlain:
    if error.errno == errno.ELOOP:
        return NotPlain(Oddity.SYMLINK, "a symbolic link")
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return NotPlain(Oddity.MISSING, "nothing")
    if error.errno in {errno.ENXIO, errno.ENODEV}:
        return NotPlain(Oddity.NOT_A_FILE, "a socket or device")
    return NotPlain(Oddity.UNREADABLE, error.strerror or "an unreadable file")
