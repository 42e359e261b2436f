"""Format text for people: durations, columns, and escapes for terminals and Markdown. Pure."""

from __future__ import annotations

import unicodedata

# It joins the parts of one emoji and moves nothing.
_JOINER = "\u200d"


def format_age(seconds: float) -> str:
    """How long something takes or took, in at most four letters: `7s`, `12m`, `3h`, `9d`."""
    for letter, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size or (letter == "m" and seconds >= size):
            return f"{min(int(seconds // size), 999)}{letter}"
    return f"{max(int(seconds), 0)}s"


def shorten(text: str, columns: int | None) -> str:
    """A text that fits; what is cut off is an ellipsis."""
    if columns is None or display_width(text) <= columns:
        return text
    kept, used = "", 0
    for char in text:
        used += display_width(char)
        if used > columns - 1:
            break
        kept += char
    return f"{kept}…"


def display_width(text: str) -> int:
    """How many columns a text takes."""
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or char == _JOINER:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def escape_line(text: str) -> str:
    """The text on one line, without anything that a terminal would obey."""
    return escape_control(" ".join(text.split()))


def escape_control(text: str) -> str:
    """The text without anything that a terminal would obey."""
    return "".join(char if _is_harmless(char) else _escape_char(char) for char in text)


def _is_harmless(char: str) -> bool:
    return char.isprintable() or char in {"\t", _JOINER} or unicodedata.category(char) == "Zs"


def _escape_char(char: str) -> str:
    return char.encode("unicode_escape").decode()


def format_code(text: str, most: int) -> str:
    """Somebody else's words, as code: they name nobody, link nowhere, and are not long."""
    plain = " ".join(text.replace("`", "'").split())
    if len(plain) > most:
        plain = plain[: most - 1] + "…"
    return f"`{plain}`" if plain else "nothing"
