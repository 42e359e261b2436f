"""Moments that a program names by the clock of its machine, for people. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo

from hostler.agents.events import Event, LimitSignal
from hostler.model import stamp

# Seconds are cut off in print, so the moment lies somewhere in the printed minute: its end is
# waited for, as whoever comes earlier finds the wall still standing.
_MINUTE = timedelta(minutes=1)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY = r"(?:(?P<month>[a-z]{3}) (?P<day>\d{1,2})(?:st|nd|rd|th)?, (?P<year>\d{4}) )?"
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2}) (?P<half>[ap]m)"
_AT = re.compile(rf"\btry again at ({_DAY}{_TIME})(?!\w)", re.IGNORECASE | re.ASCII)
_FORM = re.compile(_DAY + _TIME, re.IGNORECASE | re.ASCII)


def clock_time_in(message: str) -> str:
    """The time at which a message says to try again, as it is written there; empty: none."""
    found = _AT.search(message)
    return found[1] if found else ""


def moment_of(said: str, now: datetime, zone: tzinfo | None = None) -> datetime | None:
    """The moment behind such a time, to the end of its minute; None for anything else.

    Without a zone, the machine's own. A time without a date is always one of today, even if it is
    past: as soon as the day is another one, the program writes it too.
    """
    found = _FORM.fullmatch(said)
    if found is None:
        return None
    try:
        local = _local(found, now.astimezone(zone))
        # An hour that comes twice: the first one that is still to come.
        both = [_in_utc(local.replace(fold=fold), zone) + _MINUTE for fold in (0, 1)]
    except (ValueError, OverflowError, OSError):
        return None
    return next((one for one in both if one > now), both[-1])


def dated(event: Event, now: datetime, zone: tzinfo | None = None) -> Event:
    """The same event; a limit that ends by a clock's time has it as a moment of ours."""
    if not isinstance(event, LimitSignal) or not event.clock_time or event.resets_at:
        return event
    moment = moment_of(event.clock_time, now, zone)
    return replace(event, resets_at=stamp(moment)) if moment else event


def _local(found: re.Match[str], today: datetime) -> datetime:
    year, month, day = today.year, today.month, today.day
    if found["month"]:
        month = _MONTHS.index(found["month"].lower()) + 1
        year, day = int(found["year"]), int(found["day"])
    hour = int(found["hour"])
    if not 1 <= hour <= 12:
        raise ValueError("no hour of half a day")
    afternoon = 12 if found["half"].lower() == "pm" else 0
    return datetime(year, month, day, hour % 12 + afternoon, int(found["minute"]))  # noqa: DTZ001 - its zone follows


def _in_utc(local: datetime, zone: tzinfo | None) -> datetime:
    return local.replace(tzinfo=zone).astimezone(UTC)
