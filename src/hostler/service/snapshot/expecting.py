"""Rule: when a task that waits may start. Touches nothing."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from hostler.governor import Gate as GovernorGate
from hostler.service.candidates import Gate

# Whose places are waited for at a gate; at others nobody can guess.
EVERYBODY = frozenset({Gate.WORKERS, Gate.RUNS, Gate.ROOT_TASKS, GovernorGate.MACHINE})
POOL = frozenset({GovernorGate.CAP})
PROJECT = frozenset({GovernorGate.WIDTH, GovernorGate.SHARE})
# Who is at work for longer than usual needs more; at least this part of the time so far.
STILL_TO_GO = 0.25


@dataclass(frozen=True, slots=True)
class Waiter:
    """A task of the queue: where it runs, the gate that holds it, and when that opens by itself."""

    project: str
    pool: str
    gate: str | None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Busy:
    """An agent at work, which will leave its place."""

    project: str
    pool: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Expected:
    """When a task starts. `about`: an estimate, by how long runs of its pool take."""

    at: datetime
    about: bool


def usual_seconds(lasted: Iterable[tuple[str, float]]) -> dict[str, float]:
    """How long runs usually take, by pool."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for pool, seconds in lasted:
        found[pool].append(seconds)
    return {pool: median(each) for pool, each in found.items()}


def expected_starts(
    queue: Sequence[Waiter], busy: Iterable[Busy], usual: Mapping[str, float], now: datetime
) -> list[Expected | None]:
    """For each of a queue, in its order; None: nothing is known."""
    lines = _lines(busy, usual)
    return [_expected(one, lines, usual, now) for one in queue]


def _lines(busy: Iterable[Busy], usual: Mapping[str, float]) -> dict[str, list[float]]:
    """In how many seconds each place is free, by whose it is, soonest first."""
    lines: defaultdict[str, list[float]] = defaultdict(list)
    for one in busy:
        if (whole := usual.get(one.pool)) is not None:
            left = max(whole - one.seconds, one.seconds * STILL_TO_GO)
            for line in ("all", f"pool {one.pool}", f"project {one.project}"):
                heapq.heappush(lines[line], left)
    return lines


def _expected(
    one: Waiter, lines: Mapping[str, list[float]], usual: Mapping[str, float], now: datetime
) -> Expected | None:
    if one.gate is None:
        return Expected(now, about=False)
    if one.until is not None:
        return Expected(max(one.until, now), about=False)
    places = lines.get(_line(one))
    if not places:
        return None
    free = heapq.heappop(places)
    if (whole := usual.get(one.pool)) is not None:
        heapq.heappush(places, free + whole)
    return Expected(now + timedelta(seconds=free), about=True)


def _line(one: Waiter) -> str:
    if one.gate in EVERYBODY:
        return "all"
    if one.gate in POOL:
        return f"pool {one.pool}"
    return f"project {one.project}" if one.gate in PROJECT else ""
