"""Whole lines of a file, forwards and backwards, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator

from hostler.bus.wire import LONGEST_LINE

BLOCK = 64 * 1024
# A message is short as a rule; whoever wants the last one should not read much more.
FIRST_BLOCK = 4 * 1024

# A line without its end; None for one that is longer than any message.
Line = bytes | None


def forward(
    descriptor: int, start: int, end: int, block: int = BLOCK
) -> Iterator[tuple[int, Line]]:
    """The lines from `start` on that end before `end`, each with the place behind it."""
    place = position = start
    held, dropped = b"", 0
    while data := os.pread(descriptor, max(0, min(block, end - position)), position):
        position += len(data)
        *lines, held = (held + data).split(b"\n")
        for line in lines:
            place += dropped + len(line) + 1
            yield place, _bounded(line, dropped)
            dropped = 0
        held, dropped = _dropped(held, dropped)


def backward(descriptor: int, end: int, block: int = FIRST_BLOCK) -> Iterator[Line]:
    """The lines before `end`, the last one first; `end` stands behind a newline, or at 0."""
    position = end - 1
    held, dropped = b"", 0
    while position > 0:
        size = min(block, position)
        position -= size
        held, *lines = (os.pread(descriptor, size, position) + held).split(b"\n")
        for line in reversed(lines):
            yield _bounded(line, dropped)
            dropped = 0
        held, dropped = _dropped(held, dropped)
        block = min(2 * block, BLOCK)
    if end > 0:
        yield _bounded(held, dropped)


def last_line(descriptor: int, size: int, block: int = FIRST_BLOCK) -> Line:
    """The last line, where one short look finds it whole."""
    start = max(0, size - block)
    data = os.pread(descriptor, block, start)
    begin = data.rfind(b"\n", 0, -1) + 1
    whole = data.endswith(b"\n") and (begin or not start)
    return data[begin:-1] if whole else None


def end_of_lines(descriptor: int, size: int, block: int = FIRST_BLOCK) -> int:
    """The place behind the last newline before `size`; 0 where there is none."""
    while size > 0:
        start = max(0, size - block)
        found = os.pread(descriptor, size - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        size, block = start, BLOCK
    return 0


def _bounded(line: bytes, dropped: int) -> Line:
    return line if len(line) + dropped <= LONGEST_LINE else None


def _dropped(held: bytes, dropped: int) -> tuple[bytes, int]:
    """Let go of the beginning of a line that is too long already; remember its length."""
    longer = dropped + len(held)
    return (b"", longer) if longer > LONGEST_LINE else (held, dropped)
