"""How long to wait, where a message for people says so. Pure."""

from __future__ import annotations

import re

_SECONDS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
}
# No count is longer in a word that is meant.
LARGEST_COUNT = 1e7
_PART = r"(\d+(?:\.\d+)?)\s*([a-z]+)"
_PARTS = re.compile(_PART, re.IGNORECASE | re.ASCII)
_AGAIN_IN = re.compile(
    rf"\btry again in\s*((?:{_PART}[\s,]*(?:and\s+)?)+)", re.IGNORECASE | re.ASCII
)


def wait_in(message: str) -> float:
    """The seconds after which a message says to try again; 0: it names none that is understood.

    `859ms`, `11.054s`, `1m30s`, `2 days 3 hours 5 minutes`. Of a unit that is not known, nothing
    of the time is believed: half of it would be another time.
    """
    found = _AGAIN_IN.search(message)
    parts = _PARTS.findall(found[1]) if found else []
    if any(unit.lower() not in _SECONDS for _, unit in parts):
        return 0.0
    return sum((_count(text) * _SECONDS[unit.lower()] for text, unit in parts), 0.0)


def seconds_of(text: str) -> float:
    """A number of seconds with or without a fraction, as programs write it; 0: it is none."""
    return _count(text) if re.fullmatch(r"\d+(?:\.\d+)?", text, re.ASCII) else 0.0


def _count(text: str) -> float:
    return min(float(text), LARGEST_COUNT)
