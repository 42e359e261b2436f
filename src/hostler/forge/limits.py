"""Rules of GitHub's limits: what an answer says of the budget, and how long a refusal lasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

SHORTEST = timedelta(seconds=1)
# Without a word from GitHub: a minute, doubled by each refusal in a row.
FIRST = timedelta(seconds=60)
LONGEST = timedelta(hours=1)

# The only sign of a secondary limit that comes without headers.
_WORDS = ("secondary rate limit", "abuse detection", "rate limit exceeded")


@dataclass(frozen=True, slots=True)
class Budget:
    """What an answer said of the hour's budget, and GitHub's time when it said so."""

    limit: int | None
    remaining: int | None
    reset: datetime | None
    date: datetime | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A limit that was reached: which, and until when to wait by our clock."""

    limit: str
    until: datetime


def read_budget(headers: Mapping[str, str]) -> Budget:
    """The facts in an answer's headers (lower-case names); nonsense counts as absent."""
    if headers.get("x-ratelimit-resource", "core") != "core":
        # Searches and the like have budgets of their own.
        return Budget(None, None, None, _date(headers.get("date")))
    reset = _number(headers.get("x-ratelimit-reset"))
    return Budget(
        limit=_number(headers.get("x-ratelimit-limit")),
        remaining=_number(headers.get("x-ratelimit-remaining")),
        reset=None if reset is None else datetime.fromtimestamp(min(reset, 2**33), UTC),
        date=_date(headers.get("date")),
    )


def read_refusal(
    status: int, headers: Mapping[str, str], message: str, now: datetime, refusals: int
) -> Refusal | None:
    """Whether an answer is a limit's; None for other answers.

    `refusals` counts those in a row before this one.
    """
    if status not in (403, 429):
        return None
    budget = read_budget(headers)
    spent = budget.remaining == 0
    wait = _number(headers.get("retry-after"))
    if wait is not None:
        return Refusal("primary" if spent else "secondary", now + _bounded(timedelta(seconds=wait)))
    if spent and budget.reset is not None:
        # Both moments are GitHub's; only their distance means something to our clock.
        return Refusal("primary", now + _bounded(budget.reset - (budget.date or now)))
    if status == 429 or any(words in message.lower() for words in _WORDS):
        return Refusal("secondary", now + _bounded(FIRST * 2 ** min(refusals, 10)))
    return None


def _bounded(wait: timedelta) -> timedelta:
    return min(max(wait, SHORTEST), LONGEST)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else None


def _date(text: str | None) -> datetime | None:
    try:
        return parsedate_to_datetime(text).astimezone(UTC) if text else None
    except (ValueError, TypeError, OverflowError):
        return None
