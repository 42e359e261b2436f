"""Format times, tokens and amounts, and fit texts into columns. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo
from functools import lru_cache

from rich.cells import cell_len

from hostler.model import parse_timestamp
from hostler.telemetry.redaction import redact
from hostler.text import escape_line
from hostler.text import format_age as age

UNKNOWN = "–"


def format_age(seconds: float | None) -> str:
    """How long something takes or took."""
    return UNKNOWN if seconds is None else age(max(seconds, 0.0))


def format_duration(seconds: float | None) -> str:
    """The same where tenths matter: a mean, a deviation."""
    if seconds is None:
        return UNKNOWN
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"


def format_tokens(count: int) -> str:
    """So many tokens, in at most five letters or so."""
    for letter, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f}{letter}"
    return str(count)


def format_usd(usd: float) -> str:
    return f"${usd:,.2f}"


def format_percent(rate: float | None) -> str:
    """A part of one, in percent."""
    return UNKNOWN if rate is None else f"{100 * rate:.0f}%"


def format_time(text: str | None, now: datetime, zone: tzinfo | None) -> str:
    """A stored moment in the reader's own time; with its day if that is not today."""
    if not text:
        return UNKNOWN
    here, today = parse_timestamp(text).astimezone(zone), now.astimezone(zone).date()
    return f"{here:%H:%M:%S}" if here.date() == today else f"{here:%m-%d %H:%M}"


# They join or colour emoji; terminals do not agree on how wide the result is.
_JOINERS = dict.fromkeys(map(ord, "\u200d\ufe0e\ufe0f"))


@lru_cache(maxsize=8192)
def sanitize_text(text: str) -> str:
    """The text on one line, without secrets and without anything that a terminal would obey."""
    return escape_line(redact(text).translate(_JOINERS))


def text_width(text: str) -> int:
    """How many columns a text takes."""
    return cell_len(text)


def truncate(text: str, columns: int) -> str:
    """A text that fits; what is cut off is an ellipsis."""
    if text_width(text) <= columns:
        return text
    return _take_columns(text, columns - 1) + "…" if columns > 0 else ""


def pad_right(text: str, columns: int) -> str:
    """The text at the left of so many columns, exactly."""
    kept = truncate(text, columns)
    return kept + " " * (columns - text_width(kept))


def pad_left(text: str, columns: int) -> str:
    """The text at their right."""
    kept = truncate(text, columns)
    return " " * (columns - text_width(kept)) + kept


def wrap_text(text: str, columns: int) -> list[str]:
    """The text in lines of so many columns; a word that is longer goes on in the next line."""
    return list(_wrap_lines(text, max(columns, 2))) or [""]


def _wrap_lines(text: str, columns: int) -> Iterator[str]:
    line = ""
    for word in text.split():
        joined = f"{line} {word}" if line else word
        if text_width(joined) <= columns:
            line = joined
            continue
        if line:
            yield line
        line = word
        while text_width(line) > columns:
            head = _take_columns(line, columns)
            yield head
            line = line[len(head) :]
    if line:
        yield line


def _take_columns(text: str, columns: int) -> str:
    """As much of a text as fits, by single characters: none of them is cut in two."""
    used = 0
    for at, char in enumerate(text):
        used += text_width(char)
        if used > columns:
            return text[:at]
    return text
