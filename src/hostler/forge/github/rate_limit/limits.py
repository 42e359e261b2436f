"""GitHub's rate limits: what answers report, our share, and how much polls slow down.

No function reads a clock: time is an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum
from math import exp, inf, sqrt

from hostler.backoff import backoff

MIN_PAUSE = timedelta(seconds=1)
# If GitHub names no time: a minute, doubled by each refusal in a row.
FIRST_PAUSE = timedelta(seconds=60)
MAX_PAUSE = timedelta(hours=1)

# The only sign of a secondary limit without headers.
_SECONDARY_LIMIT_TEXT = ("secondary rate limit", "abuse detection", "rate limit exceeded")


@dataclass(frozen=True, slots=True)
class RateLimitBudget:
    """The hourly limit that an answer reported, and GitHub's time of the answer."""

    limit: int | None
    remaining: int | None
    reset: datetime | None
    date: datetime | None


@dataclass(frozen=True, slots=True)
class RateLimitRefusal:
    """A limit that was reached: which, and until when to wait by our clock."""

    limit: str
    until: datetime


def parse_budget(headers: Mapping[str, str]) -> RateLimitBudget:
    """Parse an answer's headers (lower-case names); invalid values count as absent."""
    if headers.get("x-ratelimit-resource", "core") != "core":
        # Searches and the like have separate limits.
        return RateLimitBudget(None, None, None, _parse_date(headers.get("date")))
    reset = _parse_number(headers.get("x-ratelimit-reset"))
    return RateLimitBudget(
        limit=_parse_number(headers.get("x-ratelimit-limit")),
        remaining=_parse_number(headers.get("x-ratelimit-remaining")),
        reset=None if reset is None else datetime.fromtimestamp(min(reset, 2**33), UTC),
        date=_parse_date(headers.get("date")),
    )


def parse_refusal(
    status: int, headers: Mapping[str, str], message: str, now: datetime, refusals: int
) -> RateLimitRefusal | None:
    """Return the limit that an answer reports; None for other answers.

    `refusals` counts those in a row before this one.
    """
    if status not in (403, 429):
        return None
    budget = parse_budget(headers)
    is_spent = budget.remaining == 0
    wait = _parse_number(headers.get("retry-after"))
    if wait is not None:
        return RateLimitRefusal(
            "primary" if is_spent else "secondary", now + _clamp_pause(timedelta(seconds=wait))
        )
    if is_spent and budget.reset is not None:
        # Both times are GitHub's; only their difference is valid for our clock.
        return RateLimitRefusal("primary", now + _clamp_pause(budget.reset - (budget.date or now)))
    if status == 429 or any(phrase in message.lower() for phrase in _SECONDARY_LIMIT_TEXT):
        return RateLimitRefusal("secondary", now + backoff(refusals, FIRST_PAUSE, MAX_PAUSE))
    return None


def _clamp_pause(wait: timedelta) -> timedelta:
    return min(max(wait, MIN_PAUSE), MAX_PAUSE)


def _parse_number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else None


def _parse_date(text: str | None) -> datetime | None:
    try:
        return parsedate_to_datetime(text).astimezone(UTC) if text else None
    except (ValueError, TypeError, OverflowError):
        return None


# Stretching aims at this part of the share; of the hour, polls never use more.
TARGET_PERCENT = 90
# The maximum part of the minute and of concurrent requests for polls: bursts are normal.
MAX_PERCENT = 95
MINUTE, HOUR = 60.0, 3600.0


class RequestKind(Enum):
    """The kind of a request, for GitHub's limits and for priority."""

    # A poll: it can be repeated later.
    READ = ("read", 1)
    # A read that a write depends on.
    URGENT = ("urgent", 1)
    WRITE = ("write", 5)
    CREATION = ("creation", 5)

    def __init__(self, _name: str, points: int) -> None:
        # Points of the minute.
        self.points = points


@dataclass(frozen=True, slots=True)
class RequestCaps:
    """The limits that GitHub documents, and the percentage that may be used."""

    points_per_minute: int = 900
    creations_per_minute: int = 80
    creations_per_hour: int = 500
    concurrent: int = 100
    percent: int = 80

    def share(self, limit: int) -> int:
        """Return our share of a limit, at least 1."""
        return max(limit * self.percent // 100, 1)

    def points(self, kind: RequestKind) -> int:
        """Return the maximum points per minute for requests of a kind."""
        share = self.share(self.points_per_minute)
        return (
            poll_share(share, MAX_PERCENT, RequestKind.WRITE.points)
            if kind is RequestKind.READ
            else share
        )

    def concurrency(self, kind: RequestKind) -> int:
        """Return the maximum number of concurrent requests, including one of this kind."""
        share = self.share(self.concurrent)
        return poll_share(share, MAX_PERCENT) if kind is RequestKind.READ else share

    def hourly(self, kind: RequestKind, limit: int) -> int:
        """Return the maximum requests per hour for requests of a kind."""
        share = self.share(limit)
        return poll_share(share, TARGET_PERCENT) if kind is RequestKind.READ else share


def poll_share(share: int, percent: int, write: int = 1) -> int:
    """Return what polls may use of a share, leaving room for one write."""
    return max(min(share * percent // 100, share - write), 1)


MIN_WAIT = 0.001


class SlidingWindow:
    """A sum over the last seconds. Running requests count, and for that long after their end."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ended: deque[tuple[float, int]] = deque()
        self._sum = 0
        self._in_flight = 0

    def total(self, now: float) -> int:
        """Return the current sum."""
        while self._ended and self._ended[0][0] <= now - self._seconds:
            self._sum -= self._ended.popleft()[1]
        return self._sum + self._in_flight

    def begin(self, amount: int) -> None:
        """Count a request that starts."""
        self._in_flight += amount

    def end(self, amount: int, now: float, *, counted: bool) -> None:
        """Count a request that ends; not `counted` if it never reached GitHub."""
        self._in_flight -= amount
        if counted:
            self._ended.append((now, amount))
            self._sum += amount

    def wait(self, amount: int, cap: int, now: float) -> float:
        """Return the seconds until an amount stays within a cap; 0 if it does now.

        An amount above the cap takes several windows.
        """
        rounds, rest = divmod(max(amount - 1, 0), cap)
        return rounds * self._seconds + self._wait(rest + 1, cap, now)

    def _wait(self, amount: int, cap: int, now: float) -> float:
        over = self.total(now) + amount - cap
        if over <= 0:
            return 0.0
        for at, gone in self._ended:
            over -= gone
            if over <= 0:
                # The difference of two floats may be zero although the time is not reached.
                return max(at + self._seconds - now, MIN_WAIT)
        # Running requests have to end first.
        return self._seconds


class RequestCounts:
    """An exponentially decaying rate per second; while time is `slower`, it decays slower."""

    def __init__(self, memory: float) -> None:
        self._memory = memory
        self._amount = 0.0
        self._at = 0.0
        self._slower = 1.0

    def add(self, amount: float, now: float, slower: float = 1.0) -> None:
        """Count an amount."""
        self._amount = self._faded(now) + amount
        self._at, self._slower = now, slower

    def rate(self, now: float) -> float:
        """Return the current rate per second."""
        return self._faded(now) / self._memory

    def _faded(self, now: float) -> float:
        passed = max(now - self._at, 0.0) / self._slower
        return self._amount * exp(-passed / self._memory)


# Resets of one window differ by seconds between GitHub's servers.
RESET_SKEW = 60.0
# An answer may take minutes, and its reset seems as much later; the next window's is an
# hour later.
SAME_WINDOW_TOLERANCE = HOUR / 2


@dataclass(frozen=True, slots=True)
class ReportedLimit:
    """What an answer reported of the hour, with the reset in seconds from then."""

    limit: int
    remaining: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PrimaryLimit:
    """What is known of the hour; `ends` by the monotonic clock."""

    limit: int
    remaining: int
    ends: float


def parse_reported_limit(budget: RateLimitBudget, now: datetime) -> ReportedLimit | None:
    """Parse the hourly limit in an answer; None if it is missing or invalid."""
    if not budget.limit or budget.remaining is None or budget.reset is None:
        return None
    seconds = (budget.reset - (budget.date or now)).total_seconds()
    possible = -RESET_SKEW <= seconds <= HOUR + RESET_SKEW
    within = min(max(seconds, 0.0), HOUR) if possible else HOUR
    return ReportedLimit(budget.limit, min(budget.remaining, budget.limit), within)


def apply_reported_limit(
    known: PrimaryLimit | None, reported: ReportedLimit, now: float
) -> PrimaryLimit:
    """Return what is known after an answer. Within a window, the remaining number only falls."""
    ends = now + reported.seconds
    new = PrimaryLimit(reported.limit, reported.remaining, ends)
    if known is None or now >= known.ends or reported.limit != known.limit:
        return new
    if ends > known.ends + SAME_WINDOW_TOLERANCE:
        return new
    if ends < known.ends - SAME_WINDOW_TOLERANCE:
        # Reported for the previous window, or ours is wrong.
        return charge_request(known)
    return (
        known
        if reported.remaining >= known.remaining
        else _with_remaining(known, reported.remaining)
    )


def charge_request(known: PrimaryLimit) -> PrimaryLimit:
    """Count one more request."""
    return _with_remaining(known, max(known.remaining - 1, 0))


def _with_remaining(known: PrimaryLimit, remaining: int) -> PrimaryLimit:
    return PrimaryLimit(known.limit, remaining, known.ends)


def current_limit(known: PrimaryLimit, now: float) -> PrimaryLimit:
    """Return the current window: a new one if the last has ended."""
    return known if now < known.ends else PrimaryLimit(known.limit, known.limit, now + HOUR)


HOUR_MEMORY = 900.0
MINUTE_MEMORY = 300.0
MIN_HORIZON = 60.0
IDLE_FIRST = 2.0
MAX_STRETCH = 30.0


def hour_pressure(demand: float, left: float, seconds: float) -> float:
    """Return how many times the rest would be used before the reset; `demand` is per second."""
    if left <= 0:
        return inf
    # As if one more request came: others may use up the rest meanwhile.
    wanted = demand + 1 / HOUR_MEMORY
    return wanted * max(seconds, MIN_HORIZON) / left


def minute_pressure(demand: float, share: int, written: int) -> float:
    """Return by what factor the points would be exceeded; `demand` is per second."""
    available = min(share * TARGET_PERCENT / 100, share - written)
    return demand * MINUTE / available if available > 0 else inf


def idle_stretch(pressure: float) -> float:
    """Return the factor for the pause of an idle repository."""
    return min(max(pressure, 1.0), MAX_STRETCH)


def active_stretch(idle: float) -> float:
    """Return the factor for the pause of an active repository, given that of idle ones."""
    return max(sqrt(idle / IDLE_FIRST), 1.0)
