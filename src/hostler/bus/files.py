"""Open the files of a bus safely, and read whole lines forwards and backwards."""

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
from hostler.bus.message import MAX_LINE_SIZE, is_id

# Do not follow links: an agent could point one at a file of the user. Do not block on a pipe.
_SAFE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_APPEND_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | _SAFE_FLAGS
_READ_FLAGS = os.O_RDONLY | _SAFE_FLAGS
_OVERWRITE_FLAGS = os.O_WRONLY | _SAFE_FLAGS


@dataclass(frozen=True, slots=True)
class RotatedFile:
    """A rotated file: `id` is greater than all ids in it and less than all ids after it."""

    path: Path
    id: str


def open_for_append(path: str) -> int:
    """Open the current file to append, creating it if needed, but not its folder.

    The caller checks that it is a regular file.
    """
    try:
        return os.open(path, _APPEND_FLAGS, 0o600)
    except OSError as error:
        raise error_from_os(Path(path), error) from error


@contextmanager
def open_for_overwrite(path: Path) -> Iterator[int]:
    """Open a file to write at an offset: with O_APPEND all writes go to the end."""
    descriptor = _open_regular_file(path, _OVERWRITE_FLAGS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_for_read(path: Path) -> BinaryIO | None:
    """Open a file to read. Return None if there is none."""
    try:
        return os.fdopen(_open_regular_file(path, _READ_FLAGS), "rb", buffering=0)
    except BusMissing:
        return None


def require_regular_file(path: Path, found: os.stat_result) -> None:
    """Raise `BusUnusable` if this is not a regular file."""
    if not stat.S_ISREG(found.st_mode):
        raise BusUnusable(path, "it is not a regular file")


def is_same_file(path: Path | str, found: os.stat_result) -> bool:
    """Return whether an open file still has this name."""
    try:
        named = os.lstat(path)
    except OSError:
        return False
    return named.st_ino == found.st_ino and named.st_dev == found.st_dev


def rotated_path(path: Path, message_id: str) -> Path:
    """Return the name of the current file once it is rotated."""
    return path.with_name(f"{path.stem}.{message_id}{path.suffix}")


def list_rotated_files(path: Path) -> list[RotatedFile]:
    """Return all rotated files, oldest first."""
    start, end = f"{path.stem}.", path.suffix
    try:
        names = os.listdir(path.parent)  # noqa: PTH208
    except FileNotFoundError:
        return []
    except OSError as error:
        raise error_from_os(path, error) from error
    ids = (name.removeprefix(start).removesuffix(end) for name in names if name.startswith(start))
    return [RotatedFile(rotated_path(path, found), found) for found in sorted(ids) if is_id(found)]


def make_folder(path: Path, *, sync: bool) -> None:
    """Create the folder of a bus and its missing parents, mode 0700."""
    missing = [folder for folder in path.parents if not folder.is_dir()]
    try:
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
            if sync:
                sync_folder(folder.parent)
    except OSError as error:
        raise error_from_os(path, error) from error


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def error_from_os(path: Path, error: OSError) -> BusError:
    """Translate an operating system error into a bus error."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return BusFull(path)
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return BusMissing(path)
    if error.errno == errno.ELOOP:
        return BusUnusable(path, "it is a symbolic link")
    return BusUnusable(path, error.strerror or str(error))


def _open_regular_file(path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise error_from_os(path, error) from error
    try:
        require_regular_file(path, os.fstat(descriptor))
    except BusUnusable:
        os.close(descriptor)
        raise
    return descriptor


BLOCK_BYTES = 64 * 1024
# Messages are usually short, so the last one needs only a small read.
FIRST_BLOCK_BYTES = 4 * 1024

# A line without its newline; None if it is longer than any message.
Line = bytes | None


def read_lines(
    descriptor: int, start: int, end: int, block: int = BLOCK_BYTES
) -> Iterator[tuple[int, Line]]:
    """Yield the lines from `start` that end before `end`, each with the offset after it."""
    offset = position = start
    held, dropped = b"", 0
    while data := os.pread(descriptor, max(0, min(block, end - position)), position):
        position += len(data)
        *lines, held = (held + data).split(b"\n")
        for line in lines:
            offset += dropped + len(line) + 1
            yield offset, _line_or_none(line, dropped)
            dropped = 0
        held, dropped = _drop_if_too_long(held, dropped)


def read_lines_backward(
    descriptor: int, end: int, block: int = FIRST_BLOCK_BYTES
) -> Iterator[Line]:
    """Yield the lines before `end`, last one first; `end` is after a newline, or 0."""
    position = end - 1
    held, dropped = b"", 0
    while position > 0:
        size = min(block, position)
        position -= size
        held, *lines = (os.pread(descriptor, size, position) + held).split(b"\n")
        for line in reversed(lines):
            yield _line_or_none(line, dropped)
            dropped = 0
        held, dropped = _drop_if_too_long(held, dropped)
        block = min(2 * block, BLOCK_BYTES)
    if end > 0:
        yield _line_or_none(held, dropped)


def read_last_line(descriptor: int, size: int, block: int = FIRST_BLOCK_BYTES) -> Line:
    """Return the last line if one small read contains all of it."""
    start = max(0, size - block)
    data = os.pread(descriptor, block, start)
    begin = data.rfind(b"\n", 0, -1) + 1
    whole = data.endswith(b"\n") and (begin or not start)
    return data[begin:-1] if whole else None


def end_of_last_line(descriptor: int, size: int, block: int = FIRST_BLOCK_BYTES) -> int:
    """Return the offset after the last newline before `size`; 0 if there is none."""
    while size > 0:
        start = max(0, size - block)
        found = os.pread(descriptor, size - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        size, block = start, BLOCK_BYTES
    return 0


def _line_or_none(line: bytes, dropped: int) -> Line:
    return line if len(line) + dropped <= MAX_LINE_SIZE else None


def _drop_if_too_long(held: bytes, dropped: int) -> tuple[bytes, int]:
    """Drop the start of a line that is already too long; keep its length."""
    longer = dropped + len(held)
    return (b"", longer) if longer > MAX_LINE_SIZE else (held, dropped)
