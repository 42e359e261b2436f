"""How many lines each panel gets. Pure."""

from __future__ import annotations

from collections.abc import Sequence

# A title, the names of columns, and a row.
LEAST = 3


def heights(room: int, wanted: Sequence[int], focus: int) -> list[int] | None:
    """Lines for each panel, in order; None: there is room for one alone.

    Nobody gets more than it wants. The one with the focus is served first.
    """
    least = [min(LEAST, one) for one in wanted]
    # Judged by the number of panels alone, so that rows that come do not turn the screen over.
    if room < LEAST * len(wanted):
        return None
    given, free = list(least), room - sum(least)
    for at in (focus, *(at for at in range(len(wanted)) if at != focus)):
        more = min(wanted[at] - given[at], free)
        given[at] += more
        free -= more
    return given


def window(count: int, room: int, at: int) -> range:
    """Which of so many rows are on the screen, with the chosen one among them."""
    room = max(room, 0)
    first = max(min(at - room // 2, count - room), 0)
    return range(first, min(first + room, count))
