"""GitHub's limits: what answers say of them, our share, and how much polls slow down.

Nothing here reads a clock: time is an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum
from math import exp, inf, sqrt

MIN_PAUSE = timedelta(seconds=1)
# Without a word from GitHub: a minute, doubled by each refusal in a row.
FIRST_PAUSE = timedelta(seconds=60)
MAX_PAUSE = timedelta(hours=1)

# The only sign of a secondary limit that comes without headers.
_SECONDARY_LIMIT_TEXT = ("secondary rate limit", "abuse detection", "rate limit exceeded")


@dataclass(frozen=True, slots=True)
class RateLimitBudget:
    """What an answer said of the hour's budget, and GitHub's time when it said so."""

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
    """The facts in an answer's headers (lower-case names); nonsense counts as absent."""
    if headers.get("x-ratelimit-resource", "core") != "core":
        # Searches and the like have budgets of their own.
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
    """Whether an answer is a limit's; None for other answers.

    `refusals` counts those in a row before this one.
    """
    if status not in (403, 429):
        return None
    budget = parse_budget(headers)
    spent = budget.remaining == 0
    wait = _parse_number(headers.get("retry-after"))
    if wait is not None:
        return RateLimitRefusal(
            "primary" if spent else "secondary", now + _clamp_pause(timedelta(seconds=wait))
        )
    if spent and budget.reset is not None:
        # Both moments are GitHub's; only their distance means something to our clock.
        return RateLimitRefusal("primary", now + _clamp_pause(budget.reset - (budget.date or now)))
    if status == 429 or any(words in message.lower() for words in _SECONDARY_LIMIT_TEXT):
        return RateLimitRefusal(
            "secondary", now + _clamp_pause(FIRST_PAUSE * 2 ** min(refusals, 10))
        )
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


# What polls should come to use of a share, by stretching; in the hour they never use more.
TARGET_PERCENT = 90
# What polls may use of the minute and of the places at most: bursts are ordinary.
MAX_PERCENT = 95
MINUTE, HOUR = 60.0, 3600.0


class RequestKind(Enum):
    """What a request is, for GitHub's limits and for who goes first."""

    # A poll: it can be asked later as well.
    READ = ("read", 1)
    # A read that a write depends on.
    URGENT = ("urgent", 1)
    WRITE = ("write", 5)
    CREATION = ("creation", 5)

    def __init__(self, _name: str, points: int) -> None:
        # What it costs of the minute.
        self.points = points


@dataclass(frozen=True, slots=True)
class RequestCaps:
    """The limits that GitHub documents, and how much of each may be used."""

    points_per_minute: int = 900
    creations_per_minute: int = 80
    creations_per_hour: int = 500
    concurrent: int = 100
    percent: int = 80

    def share(self, limit: int) -> int:
        """Our part of a limit: never nothing."""
        return max(limit * self.percent // 100, 1)

    def points(self, kind: RequestKind) -> int:
        """The points that requests of a kind may bring the minute to."""
        share = self.share(self.points_per_minute)
        return (
            poll_share(share, MAX_PERCENT, RequestKind.WRITE.points)
            if kind is RequestKind.READ
            else share
        )

    def places(self, kind: RequestKind) -> int:
        """How many may be under way once one of this kind is."""
        share = self.share(self.concurrent)
        return poll_share(share, MAX_PERCENT) if kind is RequestKind.READ else share

    def hourly(self, kind: RequestKind, limit: int) -> int:
        """What requests of a kind may bring the hour to."""
        share = self.share(limit)
        return poll_share(share, TARGET_PERCENT) if kind is RequestKind.READ else share


def poll_share(share: int, percent: int, write: int = 1) -> int:
    """What polls may use of a share: so much of it, and so that one write has room."""
    return max(min(share * percent // 100, share - write), 1)


MIN_WAIT = 0.001


class SlidingWindow:
    """A sum over the last so many seconds. What is under way counts, and so long after its end."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ended: deque[tuple[float, int]] = deque()
        self._sum = 0
        self._flying = 0

    def total(self, now: float) -> int:
        """What counts now."""
        while self._ended and self._ended[0][0] <= now - self._seconds:
            self._sum -= self._ended.popleft()[1]
        return self._sum + self._flying

    def begin(self, amount: int) -> None:
        """Something leaves."""
        self._flying += amount

    def end(self, amount: int, now: float, *, counted: bool) -> None:
        """It is over; not `counted` if it never reached GitHub."""
        self._flying -= amount
        if counted:
            self._ended.append((now, amount))
            self._sum += amount

    def wait(self, amount: int, cap: int, now: float) -> float:
        """Seconds until so much more stays within a cap; 0 if it does now.

        What is more than the cap itself takes several windows.
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
                # Two floats may differ by nothing although the time has not come.
                return max(at + self._seconds - now, MIN_WAIT)
        # What is under way has to end first.
        return self._seconds


class RequestCounts:
    """A rate per second, over a memory that fades; while time is `slower`, as much slower."""

    def __init__(self, memory: float) -> None:
        self._memory = memory
        self._amount = 0.0
        self._at = 0.0
        self._slower = 1.0

    def add(self, amount: float, now: float, slower: float = 1.0) -> None:
        """Count something."""
        self._amount = self._faded(now) + amount
        self._at, self._slower = now, slower

    def rate(self, now: float) -> float:
        """How much per second of that time, lately."""
        return self._faded(now) / self._memory

    def _faded(self, now: float) -> float:
        passed = max(now - self._at, 0.0) / self._slower
        return self._amount * exp(-passed / self._memory)


# Resets of one window differ by seconds between GitHub's servers.
RESET_SKEW = 60.0
# An answer may be minutes on its way, and its reset seems as much later; the next window's is an
# hour later.
SAME_WINDOW_TOLERANCE = HOUR / 2


@dataclass(frozen=True, slots=True)
class ReportedLimit:
    """What an answer said of the hour, with the reset as seconds from then."""

    limit: int
    remaining: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PrimaryLimit:
    """What is known of the hour; `ends` by the clock that never runs backwards."""

    limit: int
    remaining: int
    ends: float


def parse_reported_limit(budget: RateLimitBudget, now: datetime) -> ReportedLimit | None:
    """What an answer's headers say; None where they say nothing that can be."""
    if not budget.limit or budget.remaining is None or budget.reset is None:
        return None
    seconds = (budget.reset - (budget.date or now)).total_seconds()
    possible = -RESET_SKEW <= seconds <= HOUR + RESET_SKEW
    within = min(max(seconds, 0.0), HOUR) if possible else HOUR
    return ReportedLimit(budget.limit, min(budget.remaining, budget.limit), within)


def apply_reported_limit(
    known: PrimaryLimit | None, said: ReportedLimit, now: float
) -> PrimaryLimit:
    """What is known after an answer. In one window, what remains only falls."""
    ends = now + said.seconds
    new = PrimaryLimit(said.limit, said.remaining, ends)
    if known is None or now >= known.ends or said.limit != known.limit:
        return new
    if ends > known.ends + SAME_WINDOW_TOLERANCE:
        return new
    if ends < known.ends - SAME_WINDOW_TOLERANCE:
        # Said of a window that is over; or this one is not what we take it for.
        return charge_request(known)
    return known if said.remaining >= known.remaining else _with_remaining(known, said.remaining)


def charge_request(known: PrimaryLimit) -> PrimaryLimit:
    """One request more was counted, for all we know."""
    return _with_remaining(known, max(known.remaining - 1, 0))


def _with_remaining(known: PrimaryLimit, remaining: int) -> PrimaryLimit:
    return PrimaryLimit(known.limit, remaining, known.ends)


def current_limit(known: PrimaryLimit, now: float) -> PrimaryLimit:
    """The window that we are in: a new one where the last is over."""
    return known if now < known.ends else PrimaryLimit(known.limit, known.limit, now + HOUR)


HOUR_MEMORY = 900.0
MINUTE_MEMORY = 300.0
MIN_HORIZON = 60.0
IDLE_FIRST = 2.0
MAX_STRETCH = 30.0


def hour_pressure(demand: float, left: float, seconds: float) -> float:
    """How many times what is left would be spent before the reset; `demand` is per second."""
    if left <= 0:
        return inf
    # As if one more were to come: what is left may vanish while nobody asks.
    wanted = demand + 1 / HOUR_MEMORY
    return wanted * max(seconds, MIN_HORIZON) / left


def minute_pressure(demand: float, share: int, written: int) -> float:
    """How many times too many points would be spent; `demand` is per second."""
    room = min(share * TARGET_PERCENT / 100, share - written)
    return demand * MINUTE / room if room > 0 else inf


def idle_stretch(pressure: float) -> float:
    """By how much an idle repository's pause grows."""
    return min(max(pressure, 1.0), MAX_STRETCH)


def active_stretch(idle: float) -> float:
    """By how much an active repository's pause grows, beside that of the idle ones."""
    return max(sqrt(idle / IDLE_FIRST), 1.0)
