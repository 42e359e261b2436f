"""Format text for people: durations, columns, and escapes for terminals and Markdown. Pure."""

from __future__ import annotations

import unicodedata

# Zero-width joiner: joins the parts of one emoji.
_JOINER = "\u200d"


def format_age(seconds: float) -> str:
    """Format a duration in at most four characters: `7s`, `12m`, `3h`, `9d`."""
    for letter, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size or (letter == "m" and seconds >= size):
            return f"{min(int(seconds // size), 999)}{letter}"
    return f"{max(int(seconds), 0)}s"


def shorten(text: str, columns: int | None) -> str:
    """Cut a text to a number of columns, with an ellipsis; None means no limit."""
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
    """Return the number of columns that a text takes."""
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or char == _JOINER:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def escape_line(text: str) -> str:
    """Put the text on one line and escape terminal control characters."""
    return escape_control(" ".join(text.split()))


def escape_control(text: str) -> str:
    """Escape terminal control characters."""
    return "".join(char if _is_harmless(char) else _escape_char(char) for char in text)


def _is_harmless(char: str) -> bool:
    return char.isprintable() or char in {"\t", _JOINER} or unicodedata.category(char) == "Zs"


def _escape_char(char: str) -> str:
    return char.encode("unicode_escape").decode()


def format_code(text: str, max_length: int) -> str:
    """Quote foreign text as Markdown code, so that it mentions no user and links nowhere."""
    plain = " ".join(text.replace("`", "'").split())
    if len(plain) > max_length:
        plain = plain[: max_length - 1] + "…"
    return f"`{plain}`" if plain else "nothing"
