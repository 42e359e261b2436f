"""Numbers for people: times, tokens, money, shares. Pure."""

from __future__ import annotations

from datetime import datetime, tzinfo

from hostler.model import parse_stamp
from hostler.text import age

UNKNOWN = "–"


def passed(seconds: float | None) -> str:
    """How long something takes or took."""
    return UNKNOWN if seconds is None else age(max(seconds, 0.0))


def lasted(seconds: float | None) -> str:
    """The same where tenths matter: a mean, a deviation."""
    if seconds is None:
        return UNKNOWN
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"


def tokens(count: int) -> str:
    """So many tokens, in at most five letters or so."""
    for letter, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f}{letter}"
    return str(count)


def money(usd: float) -> str:
    return f"${usd:,.2f}"


def share(rate: float | None) -> str:
    """A part of one, in percent."""
    return UNKNOWN if rate is None else f"{100 * rate:.0f}%"


def moment(text: str | None, now: datetime, zone: tzinfo | None) -> str:
    """A stored moment in the reader's own time; with its day if that is not today."""
    if not text:
        return UNKNOWN
    here, today = parse_stamp(text).astimezone(zone), now.astimezone(zone).date()
    return f"{here:%H:%M:%S}" if here.date() == today else f"{here:%m-%d %H:%M}"
