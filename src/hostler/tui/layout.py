"""Heights of panels, widths of table columns, and the lines of a table. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hostler.tui.text_format import pad_left, pad_right, text_width, truncate

# A title, the names of columns, and a row.
MIN_PANEL_LINES = 3


def panel_heights(room: int, wanted: Sequence[int], focus: int) -> list[int] | None:
    """Lines for each panel, in order; None: there is room for one alone.

    Nobody gets more than it wants. The one with the focus is served first.
    """
    least = [min(MIN_PANEL_LINES, one) for one in wanted]
    # Judged by the number of panels alone, so that rows that come do not turn the screen over.
    if room < MIN_PANEL_LINES * len(wanted):
        return None
    given, free = list(least), room - sum(least)
    for at in (focus, *(at for at in range(len(wanted)) if at != focus)):
        more = min(wanted[at] - given[at], free)
        given[at] += more
        free -= more
    return given


def visible_rows(count: int, room: int, at: int) -> range:
    """Which of so many rows are on the screen, with the chosen one among them."""
    room = max(room, 0)
    first = max(min(at - room // 2, count - room), 0)
    return range(first, min(first + room, count))


COLUMN_GAP = 2
DEFAULT_MAX_WIDTH = 24


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column. The lowest ranks stay longest; `least`: it may be cut down to so much."""

    name: str
    rank: int
    numeric: bool = False
    least: int = 0
    most: int = DEFAULT_MAX_WIDTH


def fit_columns(
    columns: Sequence[TableColumn], cells: Sequence[Sequence[str]], room: int
) -> dict[int, int]:
    """The places of those columns that fit, and their widths."""
    natural = [_natural_width(column, at, cells) for at, column in enumerate(columns)]
    least = [min(n, c.least) if c.least else n for n, c in zip(natural, columns, strict=True)]
    by_rank = sorted(range(len(columns)), key=lambda at: columns[at].rank)
    widths = {by_rank[0]: min(least[by_rank[0]], room)}
    free = room - widths[by_rank[0]]
    for at in by_rank[1:]:
        if least[at] + COLUMN_GAP <= free:
            widths[at] = least[at]
            free -= least[at] + COLUMN_GAP
    # Names before sentences: half a name is none, half a sentence still says something.
    for at in sorted(
        widths, key=lambda at: (columns[at].most > DEFAULT_MAX_WIDTH, columns[at].rank)
    ):
        more = max(min(natural[at] - widths[at], free), 0)
        widths[at] += more
        free -= more
    return dict(sorted(widths.items()))


def format_row(columns: Sequence[TableColumn], widths: dict[int, int], cells: Sequence[str]) -> str:
    """One row of a table."""
    parts = [
        (pad_left if columns[at].numeric else pad_right)(cells[at], columns_wide)
        for at, columns_wide in widths.items()
    ]
    return (" " * COLUMN_GAP).join(parts).rstrip()


def format_header(columns: Sequence[TableColumn], widths: dict[int, int]) -> str:
    """The names of the columns."""
    return format_row(columns, widths, [column.name for column in columns])


def _natural_width(column: TableColumn, at: int, cells: Sequence[Sequence[str]]) -> int:
    widest = max((text_width(row[at]) for row in cells), default=0)
    return max(min(widest, column.most), text_width(column.name))


def justify_pair(one: str, other: str, room: int) -> str:
    """Two texts at the ends of a line; the second goes first if there is no room for both."""
    if other and text_width(one) + COLUMN_GAP + text_width(other) <= room:
        return one + pad_left(other, room - text_width(one))
    return truncate(one, room)
