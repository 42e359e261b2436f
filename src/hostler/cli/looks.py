"""How texts are fitted to a terminal: ages, widths, labels, nothing that a terminal obeys."""

from __future__ import annotations

import shutil
import sys
import textwrap
import unicodedata
from datetime import datetime

_LABEL = 12
# It joins the parts of one emoji and moves nothing.
_JOINER = "\u200d"
_NARROWEST = 40


def age(seconds: float) -> str:
    """How long something takes or took, in at most four letters: `7s`, `12m`, `3h`, `9d`."""
    for letter, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size or (letter == "m" and seconds >= size):
            return f"{min(int(seconds // size), 999)}{letter}"
    return f"{max(int(seconds), 0)}s"


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


def cut(text: str, columns: int | None) -> str:
    """A text that fits; what is cut off is an ellipsis."""
    if columns is None or cells(text) <= columns:
        return text
    kept, used = "", 0
    for char in text:
        used += cells(char)
        if used > columns - 1:
            break
        kept += char
    return f"{kept}…"


def cells(text: str) -> int:
    """How many columns a text takes."""
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if unicodedata.combining(char) or char == _JOINER:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def labelled(label: str, text: str) -> list[str]:
    """A line for people, its label in a column of its own; wrapped on a terminal."""
    columns = width()
    room = 10_000_000 if columns is None else columns - _LABEL - 2
    # Names are there to be copied: better a long line than half a name.
    wrapped = textwrap.wrap(plain(text), room, break_on_hyphens=False, break_long_words=False)
    parts = wrapped or [""]
    heads = [f"  {label:<{_LABEL}}", *(" " * (_LABEL + 2) for _ in parts[1:])]
    return [f"{head}{part}".rstrip() for head, part in zip(heads, parts, strict=True)]


def plain(text: str) -> str:
    """The text on one line, without anything that a terminal would obey."""
    return visible(" ".join(text.split()))


def visible(text: str) -> str:
    """The text without anything that a terminal would obey."""
    return "".join(char if _harmless(char) else _escaped(char) for char in text)


def _harmless(char: str) -> bool:
    return char.isprintable() or char in {"\t", _JOINER} or unicodedata.category(char) == "Zs"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
