"""A bus in numbers. Reads all of it, for a person who asks."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from hostler.bus.files import open_to_read, set_aside
from hostler.bus.ids import BEGINNING
from hostler.bus.lines import Line, forward
from hostler.bus.wire import MENDED, parse


@dataclass(slots=True)
class Stats:
    """What is in the files of one bus."""

    messages: int = 0
    types: dict[str, int] = field(default_factory=dict)
    first: str = BEGINNING
    last: str = BEGINNING
    attempts: int = 0
    retries: int = 0
    files: int = 0
    bytes: int = 0
    # Lines that are no messages, messages whose id goes back, lines that were torn and mended,
    # and bytes at the end that are no line yet.
    skipped: int = 0
    out_of_order: int = 0
    mended: int = 0
    unfinished_bytes: int = 0

    def _count(self, line: Line) -> None:
        message = parse(line) if line else None
        if message is None:
            bare = b"" if line is None else line.strip()
            self.mended += bare == MENDED
            self.skipped += line is None or bare not in {MENDED, b""}
        elif message.id <= self.last:
            self.out_of_order += 1
        else:
            self.messages += 1
            self.types[message.type.value] = self.types.get(message.type.value, 0) + 1
            self.first, self.last = self.first or message.id, message.id
            self.attempts += message.attempts
            self.retries += message.attempts - 1

    def _read(self, descriptor: int) -> None:
        size, place = os.fstat(descriptor).st_size, 0
        for place, line in forward(descriptor, 0, size):  # noqa: B007
            self._count(line)
        self.files += 1
        self.bytes += size
        self.unfinished_bytes = size - place


def stats_of(path: Path) -> Stats:
    """Count everything on a bus."""
    stats = Stats()
    for file in [*(found.path for found in set_aside(path)), path]:
        opened = open_to_read(file)
        if opened is not None:
            with opened:
                stats._read(opened.fileno())
    return stats
