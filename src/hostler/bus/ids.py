"""Rules: ids are moments to the microsecond, and never go back. Touches nothing."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

# Comes before every id.
BEGINNING = ""
_FORM = re.compile(r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)-(\d{6})", re.ASCII)
_STEP = timedelta(microseconds=1)


def id_of(moment: datetime) -> str:
    """A moment as an id: `20260301-120000-123456`."""
    return id_and_stamp(moment)[0]


def id_and_stamp(moment: datetime) -> tuple[str, str]:
    """A moment as an id and as it is stamped everywhere: at the price of one, under a lock."""
    # 2026-03-01T12:00:00.123456+00:00
    text = moment.astimezone(UTC).isoformat(timespec="microseconds")
    day, time = text[:4] + text[5:7] + text[8:10], text[11:13] + text[14:16] + text[17:19]
    return f"{day}-{time}-{text[20:26]}", f"{text[:23]}Z"


def moment_of(message_id: str) -> datetime:
    """The moment behind an id; ValueError for what is none."""
    found = _FORM.fullmatch(message_id)
    if found is None:
        raise ValueError(f"not the id of a message: {message_id[:40]!r}")
    return datetime(*map(int, found.groups()), tzinfo=UTC)  # type: ignore[misc,arg-type]


def is_id(text: str) -> bool:
    """Whether a text is an id."""
    try:
        moment_of(text)
    except ValueError:
        return False
    return True


def next_id(last: str, now: datetime) -> str:
    """The id of a message that is written now, after `last`; OverflowError where none is left."""
    return later_id(last, id_of(now))


def later_id(last: str, new: str) -> str:
    """The new id, unless it does not come after the last one; then the next after that."""
    return new if new > last else id_of(moment_of(last) + _STEP)


def id_before(message_id: str) -> str:
    """What comes right before an id."""
    try:
        return id_of(moment_of(message_id) - _STEP)
    except OverflowError:
        return BEGINNING
