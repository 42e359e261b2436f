"""Rules of the hour's budget: what remains, by what answers say of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hostler.forge.budget.caps import HOUR
from hostler.forge.limits import Budget

# Resets of one window differ by seconds between GitHub's servers.
SKEW = 60.0
# An answer may be minutes on its way, and its reset seems as much later; the next window's is an
# hour later.
SAME_WINDOW = HOUR / 2


@dataclass(frozen=True, slots=True)
class Told:
    """What an answer said of the hour, with the reset as seconds from then."""

    limit: int
    remaining: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Primary:
    """What is known of the hour; `ends` by the clock that never runs backwards."""

    limit: int
    remaining: int
    ends: float


def told(budget: Budget, now: datetime) -> Told | None:
    """What an answer's headers say; None where they say nothing that can be."""
    if not budget.limit or budget.remaining is None or budget.reset is None:
        return None
    seconds = (budget.reset - (budget.date or now)).total_seconds()
    possible = -SKEW <= seconds <= HOUR + SKEW
    within = min(max(seconds, 0.0), HOUR) if possible else HOUR
    return Told(budget.limit, min(budget.remaining, budget.limit), within)


def heard(known: Primary | None, said: Told, now: float) -> Primary:
    """What is known after an answer. In one window, what remains only falls."""
    ends = now + said.seconds
    new = Primary(said.limit, said.remaining, ends)
    if known is None or now >= known.ends or said.limit != known.limit:
        return new
    if ends > known.ends + SAME_WINDOW:
        return new
    if ends < known.ends - SAME_WINDOW:
        # Said of a window that is over; or this one is not what we take it for.
        return charged(known)
    return known if said.remaining >= known.remaining else _with_remaining(known, said.remaining)


def charged(known: Primary) -> Primary:
    """One request more was counted, for all we know."""
    return _with_remaining(known, max(known.remaining - 1, 0))


def _with_remaining(known: Primary, remaining: int) -> Primary:
    return Primary(known.limit, remaining, known.ends)


def present(known: Primary, now: float) -> Primary:
    """The window that we are in: a new one where the last is over."""
    return known if now < known.ends else Primary(known.limit, known.limit, now + HOUR)
