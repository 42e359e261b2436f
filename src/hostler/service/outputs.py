"""The end of what a run printed, read backwards: a long output costs no more than a short one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hostler.agents.lines import Line, Splitter, Stream
from hostler.agents.plainfile import NotPlain, open_plain

CHUNK = 64 * 1024
# No line of a program is worth more; what is before it is left out.
LARGEST = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LastLines:
    """The last lines of a stream; `offset` is where the next one will begin, `more`: some are
    before them."""

    lines: tuple[Line, ...] = ()
    offset: int = 0
    more: bool = False


def last_lines(path: Path, stream: Stream, count: int, *, whole: bool = False) -> LastLines:
    """The last lines that are complete; `whole`: nobody writes any more, so take the rest too."""
    try:
        descriptor = open_plain(path)
    except NotPlain:
        return LastLines()
    try:
        return _last(descriptor, stream, count, whole)
    finally:
        os.close(descriptor)


def _last(descriptor: int, stream: Stream, count: int, whole: bool) -> LastLines:
    size = os.fstat(descriptor).st_size
    start = _start(descriptor, size, count)
    splitter = Splitter(stream, start)
    lines = list(splitter.feed(os.pread(descriptor, size - start, start)))
    if whole:
        lines += splitter.finish()
    kept = lines[len(lines) - count :] if len(lines) > count else lines
    return LastLines(tuple(kept), splitter.offset, start > 0 or len(kept) < len(lines))


def _start(descriptor: int, size: int, count: int) -> int:
    """The start of a line, at least so many lines before the end, or as far back as we read."""
    position, found = size, 0
    while position > max(0, size - LARGEST):
        begin = max(0, position - CHUNK)
        data = os.pread(descriptor, position - begin, begin)
        found += data.count(b"\n")
        # One more: the newest line may not be complete yet, and the oldest is cut.
        if found > count + 1:
            return begin + data.find(b"\n") + 1
        position = begin
    if position == 0:
        return 0
    data = os.pread(descriptor, CHUNK, position)
    return position + data.find(b"\n") + 1
