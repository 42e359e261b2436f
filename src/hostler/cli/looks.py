"""How texts are fitted to a terminal: widths, labels, moments in the reader's own time."""

from __future__ import annotations

import shutil
import sys
import textwrap
from datetime import datetime

from hostler.text import age, cells, cut, plain, visible

__all__ = ["age", "cells", "cut", "labelled", "moment", "plain", "visible", "width"]

_LABEL = 12
_NARROWEST = 40


def moment(at: datetime) -> str:
    """A moment in the reader's own time; with its day if it is not today's."""
    here = at.astimezone()
    today = datetime.now().astimezone().date()
    return f"{here:%H:%M:%S}" if here.date() == today else f"{here:%Y-%m-%d %H:%M:%S}"


def width() -> int | None:
    """How many columns there are; None where nobody looks at a terminal."""
    if not sys.stdout.isatty():
        return None
    return max(shutil.get_terminal_size().columns, _NARROWEST)


def labelled(label: str, text: str) -> list[str]:
    """A line for people, its label in a column of its own; wrapped on a terminal."""
    columns = width()
    room = 10_000_000 if columns is None else columns - _LABEL - 2
    # Names are there to be copied: better a long line than half a name.
    wrapped = textwrap.wrap(plain(text), room, break_on_hyphens=False, break_long_words=False)
    parts = wrapped or [""]
    heads = [f"  {label:<{_LABEL}}", *(" " * (_LABEL + 2) for _ in parts[1:])]
    return [f"{head}{part}".rstrip() for head, part in zip(heads, parts, strict=True)]
