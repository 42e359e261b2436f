"""Classify providers' errors, and parse when to try again. Pure functions."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo

from hostler.agents.events import Event, LimitSignal
from hostler.agents.outcomes import Outcome
from hostler.model import format_timestamp

_OUTCOMES_BY_STATUS = {
    400: Outcome.BAD_REQUEST,
    401: Outcome.AUTH,
    402: Outcome.QUOTA,
    403: Outcome.AUTH,
    408: Outcome.TIMEOUT,
    429: Outcome.RATE_LIMITED,
    503: Outcome.OVERLOADED,
    504: Outcome.SERVER_ERROR,
    529: Outcome.OVERLOADED,
}
PAYMENT_REQUIRED = 402
# Only somebody who pays can end these, whatever else the answer says.
BILLING_ERRORS = frozenset({"insufficient_quota", "billing_error", "billing_not_active"})
_OUTCOMES_BY_CODE = {
    # a wall: seconds of patience do not help
    "insufficient_quota": Outcome.QUOTA,
    "billing_error": Outcome.QUOTA,
    "billing_not_active": Outcome.QUOTA,
    "usage_limit_reached": Outcome.QUOTA,
    # too fast
    "rate_limit": Outcome.RATE_LIMITED,
    "rate_limit_error": Outcome.RATE_LIMITED,
    "rate_limit_exceeded": Outcome.RATE_LIMITED,
    # too many others
    "overloaded": Outcome.OVERLOADED,
    "overloaded_error": Outcome.OVERLOADED,
    "service_unavailable": Outcome.OVERLOADED,
    # the key
    "authentication_error": Outcome.AUTH,
    "authentication_failed": Outcome.AUTH,
    "invalid_api_key": Outcome.AUTH,
    "permission_error": Outcome.AUTH,
    # the request
    "context_length_exceeded": Outcome.BAD_REQUEST,
    "invalid_request": Outcome.BAD_REQUEST,
    "invalid_request_error": Outcome.BAD_REQUEST,
    "model_not_found": Outcome.BAD_REQUEST,
    "not_found_error": Outcome.BAD_REQUEST,
    "request_too_large": Outcome.BAD_REQUEST,
    # the provider itself
    "api_error": Outcome.SERVER_ERROR,
    "server_error": Outcome.SERVER_ERROR,
    "timeout_error": Outcome.TIMEOUT,
}


def classify_status(status: int) -> Outcome | None:
    """The class of an HTTP status; None for one that is no failure."""
    if status in _OUTCOMES_BY_STATUS:
        return _OUTCOMES_BY_STATUS[status]
    if 400 <= status < 500:
        return Outcome.BAD_REQUEST
    return Outcome.SERVER_ERROR if 500 <= status < 600 else None


def needs_payment(status: int, *said: str) -> bool:
    """Whether an answer waits for a person, by its status or a word of its error object."""
    return status == PAYMENT_REQUIRED or any(word in BILLING_ERRORS for word in said)


def classify_error_code(word: str) -> Outcome | None:
    """The class of an error object's `type` or `code`; None for one that is not known."""
    return _OUTCOMES_BY_CODE.get(word)


_UNIT_SECONDS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
}
# No count is longer in a word that is meant.
MAX_COUNT = 1e7
_PART = r"(\d+(?:\.\d+)?)\s*([a-z]+)"
_PARTS = re.compile(_PART, re.IGNORECASE | re.ASCII)
_AGAIN_IN = re.compile(
    rf"\btry again in\s*((?:{_PART}[\s,]*(?:and\s+)?)+)", re.IGNORECASE | re.ASCII
)


def parse_retry_delay(message: str) -> float:
    """The seconds after which a message says to try again; 0: it names none that is understood.

    `859ms`, `11.054s`, `1m30s`, `2 days 3 hours 5 minutes`. Of a unit that is not known, nothing
    of the time is believed: half of it would be another time.
    """
    found = _AGAIN_IN.search(message)
    parts = _PARTS.findall(found[1]) if found else []
    if any(unit.lower() not in _UNIT_SECONDS for _, unit in parts):
        return 0.0
    return sum((_parse_count(text) * _UNIT_SECONDS[unit.lower()] for text, unit in parts), 0.0)


def parse_seconds(text: str) -> float:
    """A number of seconds with or without a fraction, as programs write it; 0: it is none."""
    return _parse_count(text) if re.fullmatch(r"\d+(?:\.\d+)?", text, re.ASCII) else 0.0


def _parse_count(text: str) -> float:
    return min(float(text), MAX_COUNT)


# Seconds are cut off in print, so the moment lies somewhere in the printed minute: its end is
# waited for, as whoever comes earlier finds the wall still standing.
_MINUTE = timedelta(minutes=1)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY = r"(?:(?P<month>[a-z]{3}) (?P<day>\d{1,2})(?:st|nd|rd|th)?, (?P<year>\d{4}) )?"
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2}) (?P<half>[ap]m)"
_TRY_AGAIN_AT = re.compile(rf"\btry again at ({_DAY}{_TIME})(?!\w)", re.IGNORECASE | re.ASCII)
_CLOCK_TIME = re.compile(_DAY + _TIME, re.IGNORECASE | re.ASCII)


def find_clock_time(message: str) -> str:
    """The time at which a message says to try again, as it is written there; empty: none."""
    found = _TRY_AGAIN_AT.search(message)
    return found[1] if found else ""


def parse_clock_time(said: str, now: datetime, zone: tzinfo | None = None) -> datetime | None:
    """The moment behind such a time, to the end of its minute; None for anything else.

    Without a zone, the machine's own. A time without a date is always one of today, even if it is
    past: as soon as the day is another one, the program writes it too.
    """
    found = _CLOCK_TIME.fullmatch(said)
    if found is None:
        return None
    try:
        local = _local_time(found, now.astimezone(zone))
        # An hour that comes twice: the first one that is still to come.
        both = [_to_utc(local.replace(fold=fold), zone) + _MINUTE for fold in (0, 1)]
    except (ValueError, OverflowError, OSError):
        return None
    return next((one for one in both if one > now), both[-1])


def resolve_clock_time(event: Event, now: datetime, zone: tzinfo | None = None) -> Event:
    """The same event; a limit that ends by a clock's time has it as a moment of ours."""
    if not isinstance(event, LimitSignal) or not event.clock_time or event.resets_at:
        return event
    moment = parse_clock_time(event.clock_time, now, zone)
    return replace(event, resets_at=format_timestamp(moment)) if moment else event


def _local_time(found: re.Match[str], today: datetime) -> datetime:
    year, month, day = today.year, today.month, today.day
    if found["month"]:
        month = _MONTHS.index(found["month"].lower()) + 1
        year, day = int(found["year"]), int(found["day"])
    hour = int(found["hour"])
    if not 1 <= hour <= 12:
        raise ValueError("no hour of half a day")
    afternoon = 12 if found["half"].lower() == "pm" else 0
    return datetime(year, month, day, hour % 12 + afternoon, int(found["minute"]))  # noqa: DTZ001 - its zone follows


def _to_utc(local: datetime, zone: tzinfo | None) -> datetime:
    return local.replace(tzinfo=zone).astimezone(UTC)
