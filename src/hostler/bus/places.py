"""Rule: where in a file to begin, to see every message after an id."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice

from hostler.bus.ids import BEGINNING
from hostler.bus.lines import BLOCK, FIRST_BLOCK, Line, forward
from hostler.bus.wire import parse

# Comes after every id.
_NOTHING = "~"


def place_after(descriptor: int, size: int, after: str, block: int = BLOCK) -> int:
    """The start of a line before which no message comes after `after`, found by bisection."""
    if after == BEGINNING:
        return 0

    def first_id(number: int) -> str:
        return _first_id(descriptor, number * block, size)

    found = bisect_right(range(size // block + 1), after, key=first_id)
    return _line_start(descriptor, max(0, found - 1) * block, size)


def _line_start(descriptor: int, position: int, size: int) -> int:
    """Where the first line begins that does not begin before the position."""
    if position == 0:
        return 0
    return next((place for place, _ in _lines(descriptor, position - 1, size)), size)


def _first_id(descriptor: int, position: int, size: int) -> str:
    """The id of the first message that does not begin before the position."""
    # One back, and past what begins there: a line that begins right here is one of them.
    lines = _lines(descriptor, max(0, position - 1), size)
    for _, line in islice(lines, min(position, 1), None):
        message = parse(line) if line else None
        if message is not None:
            return message.id
    return _NOTHING


def _lines(descriptor: int, start: int, size: int) -> Iterator[tuple[int, Line]]:
    # As a rule the first one is enough.
    return forward(descriptor, start, size, FIRST_BLOCK)
