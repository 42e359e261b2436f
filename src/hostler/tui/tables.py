"""Which columns of a table fit, how wide each is, and the lines that come of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hostler.tui.fitting import cut, left, right, width

GAP = 2
WIDE = 24


@dataclass(frozen=True, slots=True)
class Column:
    """One column. The lowest ranks stay longest; `least`: it may be cut down to so much."""

    name: str
    rank: int
    numeric: bool = False
    least: int = 0
    most: int = WIDE


def fitted(columns: Sequence[Column], cells: Sequence[Sequence[str]], room: int) -> dict[int, int]:
    """The places of those columns that fit, and their widths."""
    natural = [_natural(column, at, cells) for at, column in enumerate(columns)]
    least = [min(n, c.least) if c.least else n for n, c in zip(natural, columns, strict=True)]
    by_rank = sorted(range(len(columns)), key=lambda at: columns[at].rank)
    widths = {by_rank[0]: min(least[by_rank[0]], room)}
    free = room - widths[by_rank[0]]
    for at in by_rank[1:]:
        if least[at] + GAP <= free:
            widths[at] = least[at]
            free -= least[at] + GAP
    # Names before sentences: half a name is none, half a sentence still says something.
    for at in sorted(widths, key=lambda at: (columns[at].most > WIDE, columns[at].rank)):
        more = max(min(natural[at] - widths[at], free), 0)
        widths[at] += more
        free -= more
    return dict(sorted(widths.items()))


def line(columns: Sequence[Column], widths: dict[int, int], cells: Sequence[str]) -> str:
    """One row of a table."""
    parts = [
        (right if columns[at].numeric else left)(cells[at], columns_wide)
        for at, columns_wide in widths.items()
    ]
    return (" " * GAP).join(parts).rstrip()


def head(columns: Sequence[Column], widths: dict[int, int]) -> str:
    """The names of the columns."""
    return line(columns, widths, [column.name for column in columns])


def _natural(column: Column, at: int, cells: Sequence[Sequence[str]]) -> int:
    widest = max((width(row[at]) for row in cells), default=0)
    return max(min(widest, column.most), width(column.name))


def pair(one: str, other: str, room: int) -> str:
    """Two texts at the ends of a line; the second goes first if there is no room for both."""
    if other and width(one) + GAP + width(other) <= room:
        return one + right(other, room - width(one))
    return cut(one, room)
