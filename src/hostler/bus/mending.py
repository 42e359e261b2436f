"""What a killed writer or a full disk left at the end of a file is made into a line of its own."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from hostler.bus.files import opened_to_overwrite
from hostler.bus.lines import end_of_lines
from hostler.bus.wire import LONGEST_LINE, MENDED, parse


def cover(torn: bytes) -> bytes:
    """What is written over a torn line: an object that says nothing, at least as long."""
    return MENDED.ljust(len(torn)) + b"\n"


def mend(path: Path, descriptor: int, size: int) -> None:
    """Make the file end with a newline. The caller holds the lock."""
    start = end_of_lines(descriptor, size)
    if start == size:
        return
    torn = os.pread(descriptor, LONGEST_LINE + 1, start)
    if len(torn) > LONGEST_LINE or parse(torn) is not None:
        os.write(descriptor, b"\n")
    else:
        cover_up(path, torn, start)


def cover_up(path: Path, torn: bytes, start: int) -> None:
    """Make a line that says nothing of torn bytes at the end. The caller holds the lock."""
    # Overwritten, never cut off: a reader that stands in these bytes would else join them
    # with those of the next message, and make of two halves a third one.
    with opened_to_overwrite(path) as over:
        line = cover(torn)
        if os.pwrite(over, line, start) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
