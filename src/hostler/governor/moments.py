"""Rules: stored moments as they may be believed, however they came to be."""

from __future__ import annotations

from datetime import datetime, timedelta

from hostler.model import parse_stamp
from hostler.store.transaction import age, clamped_deadline


def readable(text: str | None) -> datetime | None:
    """The moment behind a stamp; None where there is none."""
    try:
        return parse_stamp(text) if text else None
    except ValueError:
        return None


def age_of(text: str, now: datetime) -> timedelta:
    """How long ago a stored moment was. One from the future, or a damaged one, is now."""
    return age(readable(text) or now, now)


def deadline(text: str, now: datetime, longest: timedelta) -> datetime:
    """A stored deadline; a damaged one counts as the latest that there could be."""
    return clamped_deadline(readable(text) or now + longest, now, longest)


def is_off(text: str, now: datetime) -> bool:
    """Whether a stored moment is damaged or lies in the future."""
    moment = readable(text)
    return moment is None or moment > now
