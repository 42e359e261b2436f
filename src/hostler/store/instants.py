"""Rules for stored moments, for clocks that jump."""

from __future__ import annotations

from datetime import datetime, timedelta

from hostler.model import parse_stamp, stamp


def clamped_deadline(stored: datetime, now: datetime, maximum: timedelta) -> datetime:
    """A deadline as it may be believed: never farther ahead than it could have been set."""
    return min(stored, now + maximum)


def not_after(stored: datetime, now: datetime) -> datetime:
    """A past moment as it may be believed: one from the future counts as now."""
    return min(stored, now)


def age(stored: datetime, now: datetime) -> timedelta:
    """How long ago a stored moment was; never negative."""
    return now - not_after(stored, now)


def seconds_between(earlier: str, later: str) -> float:
    """How long it was from one stored moment to another; never negative."""
    return max((parse_stamp(later) - parse_stamp(earlier)).total_seconds(), 0.0)


def normal_stamp(text: str) -> str:
    """A received UTC timestamp in our form, so that text order is time order."""
    return stamp(parse_stamp(text))
