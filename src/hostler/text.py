"""Texts for people: ages, columns, and nothing that a terminal obeys. Pure."""

from __future__ import annotations

import unicodedata

# It joins the parts of one emoji and moves nothing.
_JOINER = "\u200d"


def age(seconds: float) -> str:
    """How long something takes or took, in at most four letters: `7s`, `12m`, `3h`, `9d`."""
    for letter, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size or (letter == "m" and seconds >= size):
            return f"{min(int(seconds // size), 999)}{letter}"
    return f"{max(int(seconds), 0)}s"


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
