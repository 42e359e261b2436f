"""Texts in columns: neutralised, cut, padded and wrapped by the widths of what draws them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from rich.cells import cell_len

from hostler.telemetry.redact import redact
from hostler.text import plain

# They join or colour emoji; terminals do not agree on how wide the result is.
_JOINERS = dict.fromkeys(map(ord, "\u200d\ufe0e\ufe0f"))


@lru_cache(maxsize=8192)
def shown(text: str) -> str:
    """The text on one line, without secrets and without anything that a terminal would obey."""
    return plain(redact(text).translate(_JOINERS))


def width(text: str) -> int:
    """How many columns a text takes."""
    return cell_len(text)


def cut(text: str, columns: int) -> str:
    """A text that fits; what is cut off is an ellipsis."""
    if width(text) <= columns:
        return text
    return _beginning(text, columns - 1) + "…" if columns > 0 else ""


def left(text: str, columns: int) -> str:
    """The text at the left of so many columns, exactly."""
    kept = cut(text, columns)
    return kept + " " * (columns - width(kept))


def right(text: str, columns: int) -> str:
    """The text at their right."""
    kept = cut(text, columns)
    return " " * (columns - width(kept)) + kept


def wrapped(text: str, columns: int) -> list[str]:
    """The text in lines of so many columns; a word that is longer goes on in the next line."""
    return list(_lines(text, max(columns, 2))) or [""]


def _lines(text: str, columns: int) -> Iterator[str]:
    line = ""
    for word in text.split():
        joined = f"{line} {word}" if line else word
        if width(joined) <= columns:
            line = joined
            continue
        if line:
            yield line
        line = word
        while width(line) > columns:
            head = _beginning(line, columns)
            yield head
            line = line[len(head) :]
    if line:
        yield line


def _beginning(text: str, columns: int) -> str:
    """As much of a text as fits, by single characters: none of them is cut in two."""
    used = 0
    for at, char in enumerate(text):
        used += width(char)
        if used > columns:
            return text[:at]
    return text
