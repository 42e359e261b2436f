"""Read files that agents write: regular files only, bounded, and line by line from any offset.

Links are not followed and nothing blocks. Standard library only.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_READ_BYTES = 256 * 1024


class FileProblem(StrEnum):
    """Why a file was not read."""

    MISSING = "missing"
    SYMLINK = "symlink"
    NOT_A_FILE = "not_a_file"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"


class NotRegularFile(Exception):
    """The file is missing or not a readable regular file."""

    def __init__(self, oddity: FileProblem, found: str) -> None:
        super().__init__(found)
        self.oddity = oddity
        self.found = found


_FILE_TYPES = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular_file(path: Path) -> int:
    """Open a regular file. Raise NotRegularFile for everything else."""
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except OSError as error:
        raise _error_for(error) from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise NotRegularFile(FileProblem.NOT_A_FILE, describe_file_type(mode))
    return descriptor


def read_regular_file(path: Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes."""
    descriptor = open_regular_file(path)
    try:
        size = os.fstat(descriptor).st_size
        if size > limit:
            raise NotRegularFile(FileProblem.TOO_LARGE, f"{size:,} bytes")
        data = _read_bytes(descriptor, limit + 1)
    except OSError as error:
        raise _error_for(error) from None
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise NotRegularFile(FileProblem.TOO_LARGE, f"more than {limit:,} bytes")
    return data


def describe_file_type(mode: int) -> str:
    """Describe the type of a file that is not regular."""
    return next((name for test, name in _FILE_TYPES if test(mode)), "not a file")


def _read_bytes(descriptor: int, limit: int) -> bytes:
    parts: list[bytes] = []
    while limit > 0 and (part := os.read(descriptor, min(limit, _READ_BYTES))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def _error_for(error: OSError) -> NotRegularFile:
    if error.errno == errno.ELOOP:
        return NotRegularFile(FileProblem.SYMLINK, "a symbolic link")
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return NotRegularFile(FileProblem.MISSING, "nothing")
    if error.errno in {errno.ENXIO, errno.ENODEV}:
        return NotRegularFile(FileProblem.NOT_A_FILE, "a socket or device")
    return NotRegularFile(FileProblem.UNREADABLE, error.strerror or "an unreadable file")


# Agents print single lines of several hundred kilobytes; longer ones are cut.
MAX_LINE_BYTES = 8 * 1024 * 1024
CHUNK_BYTES = 256 * 1024


class OutputStream(StrEnum):
    """Where a line was written."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class OutputLine:
    """One line without its newline. `cut`: the rest was dropped."""

    stream: OutputStream
    text: str
    cut: bool = False


class LineSplitter:
    """Splits bytes into lines, in whatever chunks they arrive."""

    def __init__(
        self, stream: OutputStream, offset: int = 0, max_length: int = MAX_LINE_BYTES
    ) -> None:
        self._stream = stream
        self._max_length = max_length
        self._parts: list[bytes] = []
        self._held = 0
        self._line_bytes = 0
        self.offset = offset

    def feed(self, data: bytes) -> Iterator[OutputLine]:
        """Yield the lines that these bytes complete. Consume all of it before feeding more."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(data[start:end])
            yield self._complete(1)
            start = end + 1
        self._keep(data[start:])

    def finish(self) -> Iterator[OutputLine]:
        """Return the last line if it has no newline."""
        if self._line_bytes:
            yield self._complete(0)

    def _keep(self, part: bytes) -> None:
        space = self._max_length - self._held
        if part and space > 0:
            self._parts.append(part[:space])
            self._held += len(self._parts[-1])
        self._line_bytes += len(part)

    def _complete(self, ending: int) -> OutputLine:
        data = b"".join(self._parts).removesuffix(b"\r")
        line = OutputLine(
            self._stream, data.decode("utf-8", "replace"), self._line_bytes > self._max_length
        )
        self.offset += self._line_bytes + ending
        self._parts, self._held, self._line_bytes = [], 0, 0
        return line


class OutputTail:
    """Reads a file while an agent is writing it."""

    def __init__(
        self, path: Path, stream: OutputStream, offset: int = 0, max_length: int = MAX_LINE_BYTES
    ) -> None:
        self._path = path
        self._splitter = LineSplitter(stream, offset, max_length)
        self._position = offset

    @property
    def offset(self) -> int:
        """Return the offset of the first line that was not returned yet."""
        return self._splitter.offset

    def lines(self) -> Iterator[OutputLine]:
        """Return every complete line so far; none if the file is missing or not a regular file."""
        try:
            descriptor = open_regular_file(self._path)
        except NotRegularFile:
            return
        try:
            while data := os.pread(descriptor, CHUNK_BYTES, self._position):
                self._position += len(data)
                yield from self._splitter.feed(data)
        finally:
            os.close(descriptor)

    def rest(self) -> Iterator[OutputLine]:
        """Return all remaining lines, once the file is complete."""
        yield from self.lines()
        yield from self._splitter.finish()
