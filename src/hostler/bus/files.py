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

# Links are not followed: an agent could point one at a file of the user's. A pipe must not block.
_SAFE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_APPEND_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | _SAFE_FLAGS
_READ_FLAGS = os.O_RDONLY | _SAFE_FLAGS
_OVERWRITE_FLAGS = os.O_WRONLY | _SAFE_FLAGS


@dataclass(frozen=True, slots=True)
class RotatedFile:
    """A file that was set aside: `id` is higher than all in it, lower than all after it."""

    path: Path
    id: str


def open_for_append(path: str) -> int:
    """A descriptor of the present file, which is made if need be; its folder is not.

    Whether it is a plain file is for the caller to see, who has to look at it anyway.
    """
    try:
        return os.open(path, _APPEND_FLAGS, 0o600)
    except OSError as error:
        raise error_from_os(Path(path), error) from error


@contextmanager
def open_for_overwrite(path: Path) -> Iterator[int]:
    """A descriptor that writes where it is told to: with O_APPEND everything goes to the end."""
    descriptor = _open_regular_file(path, _OVERWRITE_FLAGS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_for_read(path: Path) -> BinaryIO | None:
    """A file for reading; None where there is none."""
    try:
        return os.fdopen(_open_regular_file(path, _READ_FLAGS), "rb", buffering=0)
    except BusMissing:
        return None


def require_regular_file(path: Path, found: os.stat_result) -> None:
    """Refuse what is no file in the common sense."""
    if not stat.S_ISREG(found.st_mode):
        raise BusUnusable(path, "it is not a plain file")


def is_same_file(path: Path | str, found: os.stat_result) -> bool:
    """Whether an opened file still has this name."""
    try:
        named = os.lstat(path)
    except OSError:
        return False
    return named.st_ino == found.st_ino and named.st_dev == found.st_dev


def rotated_path(path: Path, message_id: str) -> Path:
    """What the present file is called once it is set aside."""
    return path.with_name(f"{path.stem}.{message_id}{path.suffix}")


def list_rotated_files(path: Path) -> list[RotatedFile]:
    """All files that were set aside, oldest first."""
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
    """Make the folder of a bus, and those above it that are missing, for ourselves alone."""
    missing = [folder for folder in path.parents if not folder.is_dir()]
    try:
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
            if sync:
                sync_folder(folder.parent)
    except OSError as error:
        raise error_from_os(path, error) from error


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def error_from_os(path: Path, error: OSError) -> BusError:
    """What an error of the system means for a bus."""
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
# A message is short as a rule; whoever wants the last one should not read much more.
FIRST_BLOCK_BYTES = 4 * 1024

# A line without its end; None for one that is longer than any message.
Line = bytes | None


def read_lines(
    descriptor: int, start: int, end: int, block: int = BLOCK_BYTES
) -> Iterator[tuple[int, Line]]:
    """The lines from `start` on that end before `end`, each with the place behind it."""
    place = position = start
    held, dropped = b"", 0
    while data := os.pread(descriptor, max(0, min(block, end - position)), position):
        position += len(data)
        *lines, held = (held + data).split(b"\n")
        for line in lines:
            place += dropped + len(line) + 1
            yield place, _line_or_none(line, dropped)
            dropped = 0
        held, dropped = _drop_if_too_long(held, dropped)


def read_lines_backward(
    descriptor: int, end: int, block: int = FIRST_BLOCK_BYTES
) -> Iterator[Line]:
    """The lines before `end`, the last one first; `end` stands behind a newline, or at 0."""
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
    """The last line, where one short look finds it whole."""
    start = max(0, size - block)
    data = os.pread(descriptor, block, start)
    begin = data.rfind(b"\n", 0, -1) + 1
    whole = data.endswith(b"\n") and (begin or not start)
    return data[begin:-1] if whole else None


def end_of_last_line(descriptor: int, size: int, block: int = FIRST_BLOCK_BYTES) -> int:
    """The place behind the last newline before `size`; 0 where there is none."""
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
    """Let go of the beginning of a line that is too long already; remember its length."""
    longer = dropped + len(held)
    return (b"", longer) if longer > MAX_LINE_SIZE else (held, dropped)
