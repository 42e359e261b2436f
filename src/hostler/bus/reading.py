"""What is on a bus: the last messages, those after an id, and whatever comes next."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Self

from hostler.bus.errors import BusUnusable
from hostler.bus.files import SetAside, is_still, open_to_read, set_aside
from hostler.bus.lines import Line, backward, end_of_lines, forward
from hostler.bus.message import Message
from hostler.bus.places import place_after
from hostler.bus.wire import MENDED, parse

Wanted = Callable[[Message], bool]


def everything(_message: Message) -> bool:
    """Wants all messages."""
    return True


@dataclass(frozen=True, slots=True)
class Page:
    """Messages in their order, and how many lines among them were none."""

    messages: tuple[Message, ...] = ()
    skipped: int = 0

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)


class Look:
    """The files of a bus as they were at one moment, and how far they were read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # In this order: what is set aside between both is then seen twice, and not never.
        self._present = open_to_read(path)
        files = set_aside(path)
        self._newest = files[-1:]
        self._aside = [file for file in files if not self._is_present(file)]
        self._place: int | None = None
        self.skipped = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the present file."""
        if self._present is not None:
            self._present.close()

    def is_current(self) -> bool:
        """Whether there is no other file to be read by now."""
        if self._present is None:
            return not os.path.lexists(self._path) and set_aside(self._path)[-1:] == self._newest
        found = os.fstat(self._present.fileno())
        return is_still(self._path, found) and found.st_size >= (self._place or 0)

    def read(self, after: str) -> Iterator[Message]:
        """The messages after an id; called again, those that came since."""
        for message in self._all(after):
            # A file may have been set aside while we looked; and a line may lie about its id.
            if message.id > after:
                after = message.id
                yield message

    def last(self, count: int, wanted: Wanted = everything) -> list[Message]:
        """The last messages that are wanted, in their order."""
        found = list(islice(filter(wanted, self._backward()), count))
        return _in_order(reversed(found))

    def _all(self, after: str) -> Iterator[Message]:
        while self._aside:
            yield from self._aside_after(self._aside[0], after)
            del self._aside[0]
        if self._present is not None:
            yield from self._present_after(self._present.fileno(), after)

    def _aside_after(self, file: SetAside, after: str) -> Iterator[Message]:
        if file.id < after:
            return
        with ExitStack() as opened:
            if (descriptor := self._opened(file, opened)) is not None:
                size = os.fstat(descriptor).st_size
                for _, line in forward(descriptor, place_after(descriptor, size, after), size):
                    yield from self._taken(line)

    def _present_after(self, descriptor: int, after: str) -> Iterator[Message]:
        size = os.fstat(descriptor).st_size
        if self._place is None:
            self._place = place_after(descriptor, size, after)
        for place, line in forward(descriptor, self._place, size):
            self._place = place
            yield from self._taken(line)

    def _backward(self) -> Iterator[Message]:
        if self._present is not None:
            yield from self._lines_back(self._present.fileno())
        for file in reversed(self._aside):
            with ExitStack() as opened:
                if (descriptor := self._opened(file, opened)) is not None:
                    yield from self._lines_back(descriptor)

    def _lines_back(self, descriptor: int) -> Iterator[Message]:
        for line in backward(descriptor, end_of_lines(descriptor, os.fstat(descriptor).st_size)):
            yield from self._taken(line)

    def _opened(self, file: SetAside, opened: ExitStack) -> int | None:
        """An old file, if it is still there and one."""
        found: BinaryIO | None = None
        with suppress(BusUnusable):
            found = open_to_read(file.path)
        return opened.enter_context(found).fileno() if found else None

    def _is_present(self, file: SetAside) -> bool:
        return self._present is not None and is_still(file.path, os.fstat(self._present.fileno()))

    def _taken(self, line: Line) -> Iterator[Message]:
        message = parse(line) if line else None
        if message is not None:
            yield message
        elif line is None or line.strip() not in {MENDED, b""}:
            self.skipped += 1


class Follower:
    """Reads on where it stopped. `after` is all that must be kept to go on elsewhere."""

    def __init__(self, path: Path, after: str) -> None:
        self._path = path
        self._look = Look(path)
        self._skipped = 0
        self.after = after

    @property
    def skipped(self) -> int:
        """How many lines were no messages."""
        return self._skipped + self._look.skipped

    def new(self) -> Iterator[Message]:
        """All that has come since."""
        yield from self._read()
        if not self._look.is_current():
            self._renew()
            yield from self._read()

    def close(self) -> None:
        """Let go of the file."""
        self._look.close()

    def _read(self) -> Iterator[Message]:
        for message in self._look.read(self.after):
            self.after = message.id
            yield message

    def _renew(self) -> None:
        look, self._look = self._look, Look(self._path)
        self._skipped += look.skipped
        look.close()


def _in_order(messages: Iterator[Message]) -> list[Message]:
    """Without those whose id is not higher than the one before."""
    found: list[Message] = []
    for message in messages:
        if not found or message.id > found[-1].id:
            found.append(message)
    return found
