"""Read a bus: the last messages, those after an id, new ones as they arrive, and statistics."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Self

from hostler.bus.errors import BusUnusable
from hostler.bus.files import (
    BLOCK_BYTES,
    FIRST_BLOCK_BYTES,
    Line,
    RotatedFile,
    end_of_last_line,
    is_same_file,
    list_rotated_files,
    open_for_read,
    read_lines,
    read_lines_backward,
)
from hostler.bus.message import BEGINNING, REPAIRED_LINE, Message, parse_line

# Sorts after every id.
_AFTER_ALL_IDS = "~"


def find_offset_after(descriptor: int, size: int, after: str, block: int = BLOCK_BYTES) -> int:
    """Return the start of a line before which no message comes after `after`, by bisection."""
    if after == BEGINNING:
        return 0

    def first_id(number: int) -> str:
        return _first_id(descriptor, number * block, size)

    found = bisect_right(range(size // block + 1), after, key=first_id)
    return _line_start(descriptor, max(0, found - 1) * block, size)


def _line_start(descriptor: int, position: int, size: int) -> int:
    """Return where the first line starts at or after the position."""
    if position == 0:
        return 0
    return next((offset for offset, _ in _read_few_lines(descriptor, position - 1, size)), size)


def _first_id(descriptor: int, position: int, size: int) -> str:
    """Return the id of the first message that starts at or after the position."""
    # One byte back, then past the newline: a line that starts exactly here counts.
    lines = _read_few_lines(descriptor, max(0, position - 1), size)
    for _, line in islice(lines, min(position, 1), None):
        message = parse_line(line) if line else None
        if message is not None:
            return message.id
    return _AFTER_ALL_IDS


def _read_few_lines(descriptor: int, start: int, size: int) -> Iterator[tuple[int, Line]]:
    # Usually the first line is enough.
    return read_lines(descriptor, start, size, FIRST_BLOCK_BYTES)


MessageFilter = Callable[[Message], bool]


def accept_all(_message: Message) -> bool:
    """Accept all messages."""
    return True


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages in order, and how many lines were not valid messages."""

    messages: tuple[Message, ...] = ()
    skipped: int = 0

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)


class BusSnapshot:
    """The files of a bus at one time, and how far they were read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # In this order: a file that is rotated in between is then seen twice, and not missed.
        self._present = open_for_read(path)
        files = list_rotated_files(path)
        self._newest = files[-1:]
        self._aside = [file for file in files if not self._is_present(file)]
        self._offset: int | None = None
        self.skipped = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the current file."""
        if self._present is not None:
            self._present.close()

    def is_current(self) -> bool:
        """Return whether the current file is still the same."""
        if self._present is None:
            return (
                not os.path.lexists(self._path)
                and list_rotated_files(self._path)[-1:] == self._newest
            )
        found = os.fstat(self._present.fileno())
        return is_same_file(self._path, found) and found.st_size >= (self._offset or 0)

    def read(self, after: str) -> Iterator[Message]:
        """Return the messages after an id; when called again, those added since."""
        for message in self._all(after):
            # A file may have been rotated meanwhile, and a line may have a wrong id.
            if message.id > after:
                after = message.id
                yield message

    def last(self, count: int, wanted: MessageFilter = accept_all) -> list[Message]:
        """Return the last messages that match, in order."""
        found = list(islice(filter(wanted, self._backward()), count))
        return _drop_out_of_order(reversed(found))

    def _all(self, after: str) -> Iterator[Message]:
        while self._aside:
            yield from self._aside_after(self._aside[0], after)
            del self._aside[0]
        if self._present is not None:
            yield from self._present_after(self._present.fileno(), after)

    def _aside_after(self, file: RotatedFile, after: str) -> Iterator[Message]:
        if file.id < after:
            return
        with ExitStack() as opened:
            if (descriptor := self._opened(file, opened)) is not None:
                size = os.fstat(descriptor).st_size
                for _, line in read_lines(
                    descriptor, find_offset_after(descriptor, size, after), size
                ):
                    yield from self._taken(line)

    def _present_after(self, descriptor: int, after: str) -> Iterator[Message]:
        size = os.fstat(descriptor).st_size
        if self._offset is None:
            self._offset = find_offset_after(descriptor, size, after)
        for offset, line in read_lines(descriptor, self._offset, size):
            self._offset = offset
            yield from self._taken(line)

    def _backward(self) -> Iterator[Message]:
        if self._present is not None:
            yield from self._lines_back(self._present.fileno())
        for file in reversed(self._aside):
            with ExitStack() as opened:
                if (descriptor := self._opened(file, opened)) is not None:
                    yield from self._lines_back(descriptor)

    def _lines_back(self, descriptor: int) -> Iterator[Message]:
        for line in read_lines_backward(
            descriptor, end_of_last_line(descriptor, os.fstat(descriptor).st_size)
        ):
            yield from self._taken(line)

    def _opened(self, file: RotatedFile, opened: ExitStack) -> int | None:
        """Open a rotated file if it still exists and is a regular file."""
        found: BinaryIO | None = None
        with suppress(BusUnusable):
            found = open_for_read(file.path)
        return opened.enter_context(found).fileno() if found else None

    def _is_present(self, file: RotatedFile) -> bool:
        return self._present is not None and is_same_file(
            file.path, os.fstat(self._present.fileno())
        )

    def _taken(self, line: Line) -> Iterator[Message]:
        message = parse_line(line) if line else None
        if message is not None:
            yield message
        elif line is None or line.strip() not in {REPAIRED_LINE, b""}:
            self.skipped += 1


class BusFollower:
    """Continues where it stopped. Store `after` to continue elsewhere."""

    def __init__(self, path: Path, after: str) -> None:
        self._path = path
        self._snapshot = BusSnapshot(path)
        self._skipped = 0
        self.after = after

    @property
    def skipped(self) -> int:
        """Return how many lines were not valid messages."""
        return self._skipped + self._snapshot.skipped

    def new(self) -> Iterator[Message]:
        """Return all messages added since the last call."""
        yield from self._read()
        if not self._snapshot.is_current():
            self._renew()
            yield from self._read()

    def close(self) -> None:
        """Close the file."""
        self._snapshot.close()

    def _read(self) -> Iterator[Message]:
        for message in self._snapshot.read(self.after):
            self.after = message.id
            yield message

    def _renew(self) -> None:
        snapshot, self._snapshot = self._snapshot, BusSnapshot(self._path)
        self._skipped += snapshot.skipped
        snapshot.close()


def _drop_out_of_order(messages: Iterator[Message]) -> list[Message]:
    """Drop messages whose id is not greater than the one before."""
    found: list[Message] = []
    for message in messages:
        if not found or message.id > found[-1].id:
            found.append(message)
    return found


@dataclass(slots=True)
class BusStats:
    """What is in the files of one bus."""

    messages: int = 0
    types: dict[str, int] = field(default_factory=dict)
    first: str = BEGINNING
    last: str = BEGINNING
    attempts: int = 0
    retries: int = 0
    files: int = 0
    bytes: int = 0
    # Lines that are not messages, messages whose id is out of order, torn lines that were repaired,
    # and bytes at the end that are not a full line yet.
    skipped: int = 0
    out_of_order: int = 0
    repaired: int = 0
    unfinished_bytes: int = 0

    def _count(self, line: Line) -> None:
        message = parse_line(line) if line else None
        if message is None:
            bare = b"" if line is None else line.strip()
            self.repaired += bare == REPAIRED_LINE
            self.skipped += line is None or bare not in {REPAIRED_LINE, b""}
        elif message.id <= self.last:
            self.out_of_order += 1
        else:
            self.messages += 1
            self.types[message.type.value] = self.types.get(message.type.value, 0) + 1
            self.first, self.last = self.first or message.id, message.id
            self.attempts += message.attempts
            self.retries += message.attempts - 1

    def _read(self, descriptor: int) -> None:
        size, offset = os.fstat(descriptor).st_size, 0
        for offset, line in read_lines(descriptor, 0, size):  # noqa: B007
            self._count(line)
        self.files += 1
        self.bytes += size
        self.unfinished_bytes = size - offset


def read_stats(path: Path) -> BusStats:
    """Count everything on a bus."""
    stats = BusStats()
    for file in [*(found.path for found in list_rotated_files(path)), path]:
        opened = open_for_read(file)
        if opened is not None:
            with opened:
                stats._read(opened.fileno())
    return stats
