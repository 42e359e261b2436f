"""Classify providers' errors, and parse retry delays. Pure functions."""

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
# Only paying can lift these, whatever else the answer says.
BILLING_ERRORS = frozenset({"insufficient_quota", "billing_error", "billing_not_active"})
_OUTCOMES_BY_CODE = {
    # a hard limit: seconds do not help
    "insufficient_quota": Outcome.QUOTA,
    "billing_error": Outcome.QUOTA,
    "billing_not_active": Outcome.QUOTA,
    "usage_limit_reached": Outcome.QUOTA,
    # too many requests
    "rate_limit": Outcome.RATE_LIMITED,
    "rate_limit_error": Outcome.RATE_LIMITED,
    "rate_limit_exceeded": Outcome.RATE_LIMITED,
    # overloaded
    "overloaded": Outcome.OVERLOADED,
    "overloaded_error": Outcome.OVERLOADED,
    "service_unavailable": Outcome.OVERLOADED,
    # credentials
    "authentication_error": Outcome.AUTH,
    "authentication_failed": Outcome.AUTH,
    "invalid_api_key": Outcome.AUTH,
    "permission_error": Outcome.AUTH,
    # invalid request
    "context_length_exceeded": Outcome.BAD_REQUEST,
    "invalid_request": Outcome.BAD_REQUEST,
    "invalid_request_error": Outcome.BAD_REQUEST,
    "model_not_found": Outcome.BAD_REQUEST,
    "not_found_error": Outcome.BAD_REQUEST,
    "request_too_large": Outcome.BAD_REQUEST,
    # server error
    "api_error": Outcome.SERVER_ERROR,
    "server_error": Outcome.SERVER_ERROR,
    "timeout_error": Outcome.TIMEOUT,
}


def classify_status(status: int) -> Outcome | None:
    """Return the outcome for an HTTP status; None if it is not a failure."""
    if status in _OUTCOMES_BY_STATUS:
        return _OUTCOMES_BY_STATUS[status]
    if 400 <= status < 500:
        return Outcome.BAD_REQUEST
    return Outcome.SERVER_ERROR if 500 <= status < 600 else None


def needs_payment(status: int, *codes: str) -> bool:
    """Return whether an answer requires payment, by its status or error code."""
    return status == PAYMENT_REQUIRED or any(code in BILLING_ERRORS for code in codes)


def classify_error_code(code: str) -> Outcome | None:
    """Return the outcome for an error object's `type` or `code`; None if unknown."""
    return _OUTCOMES_BY_CODE.get(code)


_UNIT_SECONDS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
}
# Longer numbers are not meant as a delay.
MAX_COUNT = 1e7
_PART = r"(\d+(?:\.\d+)?)\s*([a-z]+)"
_PARTS = re.compile(_PART, re.IGNORECASE | re.ASCII)
_AGAIN_IN = re.compile(
    rf"\btry again in\s*((?:{_PART}[\s,]*(?:and\s+)?)+)", re.IGNORECASE | re.ASCII
)


def parse_retry_delay(message: str) -> float:
    """Return the seconds after which a message says to retry; 0 if it names none.

    `859ms`, `11.054s`, `1m30s`, `2 days 3 hours 5 minutes`. With an unknown unit, the whole
    delay is ignored: a part of it would be wrong.
    """
    found = _AGAIN_IN.search(message)
    parts = _PARTS.findall(found[1]) if found else []
    if any(unit.lower() not in _UNIT_SECONDS for _, unit in parts):
        return 0.0
    return sum((_parse_count(text) * _UNIT_SECONDS[unit.lower()] for text, unit in parts), 0.0)


def parse_seconds(text: str) -> float:
    """Parse a number of seconds with or without a fraction; 0 if it is invalid."""
    return _parse_count(text) if re.fullmatch(r"\d+(?:\.\d+)?", text, re.ASCII) else 0.0


def _parse_count(text: str) -> float:
    return min(float(text), MAX_COUNT)


# Printed times have no seconds, so the limit ends somewhere in that minute: wait for its
# end, because a request before the limit ends is refused again.
_MINUTE = timedelta(minutes=1)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY = r"(?:(?P<month>[a-z]{3}) (?P<day>\d{1,2})(?:st|nd|rd|th)?, (?P<year>\d{4}) )?"
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2}) (?P<half>[ap]m)"
_TRY_AGAIN_AT = re.compile(rf"\btry again at ({_DAY}{_TIME})(?!\w)", re.IGNORECASE | re.ASCII)
_CLOCK_TIME = re.compile(_DAY + _TIME, re.IGNORECASE | re.ASCII)


def find_clock_time(message: str) -> str:
    """Return the time at which a message says to retry, as printed; empty if none."""
    found = _TRY_AGAIN_AT.search(message)
    return found[1] if found else ""


def parse_clock_time(codes: str, now: datetime, zone: tzinfo | None = None) -> datetime | None:
    """Return the end of such a minute in UTC; None for anything else.

    Without a zone, the local one. A time without a date is always today, even if it is
    past: for other days the program prints the date.
    """
    found = _CLOCK_TIME.fullmatch(codes)
    if found is None:
        return None
    try:
        local = _local_time(found, now.astimezone(zone))
        # An hour that occurs twice: the first one that is not past.
        both = [_to_utc(local.replace(fold=fold), zone) + _MINUTE for fold in (0, 1)]
    except (ValueError, OverflowError, OSError):
        return None
    return next((one for one in both if one > now), both[-1])


def resolve_clock_time(event: Event, now: datetime, zone: tzinfo | None = None) -> Event:
    """Return the event with its clock time converted to a timestamp."""
    if not isinstance(event, LimitSignal) or not event.clock_time or event.resets_at:
        return event
    timestamp = parse_clock_time(event.clock_time, now, zone)
    return replace(event, resets_at=format_timestamp(timestamp)) if timestamp else event


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
