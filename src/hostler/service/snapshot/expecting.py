"""Rule: when a task that waits may start. Touches nothing."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median

from hostler.governor import Gate as GovernorGate
from hostler.service.candidates import Gate

# Whose places are waited for at a gate; at others nobody can guess.
EVERYBODY = frozenset({Gate.WORKERS, Gate.RUNS, Gate.ROOT_TASKS, GovernorGate.MACHINE})
PROJECT = frozenset({GovernorGate.WIDTH, GovernorGate.SHARE})
# Closed for a whole pool; when it opens, its tasks go through one after another.
CLOSED = frozenset(
    {GovernorGate.PARKED, GovernorGate.BREAKER, GovernorGate.LIMIT, GovernorGate.SPACING}
)
POOL = CLOSED | {GovernorGate.CAP}
# Who is at work for longer than usual needs more; at least this part of the time so far.
STILL_TO_GO = 0.25


@dataclass(frozen=True, slots=True)
class Waiter:
    """A task of the queue: where it runs, the gate that holds it, and when that opens by itself.

    `over`: how many more than the gate allows are there; they leave before anybody comes.
    """

    project: str
    pool: str
    gate: str | None
    until: datetime | None = None
    over: int = 0


@dataclass(frozen=True, slots=True)
class Busy:
    """An agent at work, which will leave its place."""

    project: str
    pool: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Pool:
    """How many places a pool has free, below zero: too many; and seconds between two starts."""

    free: int = 0
    interval: float = 0.0


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
    queue: Sequence[Waiter],
    busy: Iterable[Busy],
    usual: Mapping[str, float],
    pools: Mapping[str, Pool],
    now: datetime,
) -> list[Expected | None]:
    """For each of a queue, in its order; None: nothing is known."""
    lines = _Lines(usual, pools, now)
    for one in busy:
        lines.leaves(one)
    for name in {one.pool for one in queue}:
        lines.opens(name, len(queue))
    return [lines.start(one) for one in queue]


@dataclass(slots=True)
class _Line:
    """Places: in how many seconds each is free, soonest first; and when the last was taken."""

    places: list[float] = field(default_factory=list)
    skipped: int = 0
    last: float | None = None

    def skip(self, over: int) -> None:
        """So many places are given up when they become free."""
        while self.skipped < over:
            self.skipped += 1
            if self.places:
                heapq.heappop(self.places)

    def take(self, earliest: float, interval: float) -> float | None:
        """When the next in line starts; None: no place is known."""
        if not self.places:
            return None
        after = 0.0 if self.last is None else self.last + interval
        self.last = max(heapq.heappop(self.places), earliest, after)
        return self.last


class _Lines:
    """Who waits for whose places, one waiter after another."""

    def __init__(
        self, usual: Mapping[str, float], pools: Mapping[str, Pool], now: datetime
    ) -> None:
        self._usual = usual
        self._pools = pools
        self._now = now
        self._lines: defaultdict[str, _Line] = defaultdict(_Line)
        self._seen: set[str] = set()

    def leaves(self, one: Busy) -> None:
        """An agent at work gives its place back after the usual time."""
        if (whole := self._usual.get(one.pool)) is None:
            return
        left = max(whole - one.seconds, one.seconds * STILL_TO_GO)
        for line in ("all", f"pool {one.pool}", f"project {one.project}"):
            heapq.heappush(self._lines[line].places, left)

    def opens(self, name: str, most: int) -> None:
        """What a pool has free already, or has to lose first."""
        line, free = self._lines[f"pool {name}"], self._pools.get(name, Pool()).free
        line.skip(-free)
        for _ in range(min(free, most)):
            heapq.heappush(line.places, 0.0)

    def start(self, one: Waiter) -> Expected | None:
        """When the next of the queue starts."""
        first = one.pool not in self._seen
        self._seen.add(one.pool)
        if one.gate is None:
            return Expected(self._now, about=False)
        if not (name := _line(one)):
            return Expected(max(one.until, self._now), about=not first) if one.until else None
        line = self._lines[name]
        if one.gate in CLOSED and not _opens(one, line):
            return None
        return self._taken(one, line, first=first and line.last is None)

    def _taken(self, one: Waiter, line: _Line, *, first: bool) -> Expected | None:
        pool = self._pools.get(one.pool, Pool())
        earliest = max((one.until - self._now).total_seconds(), 0.0) if one.until else 0.0
        # Of a pool it is known by its places.
        line.skip(0 if one.gate in POOL else one.over)
        if one.gate in PROJECT and one.until and line.last is None:
            # The turn of a project gives it one more.
            heapq.heappush(line.places, earliest)
        begins = line.take(earliest, pool.interval if one.gate in POOL else 0.0)
        if begins is None:
            return None
        if (whole := self._usual.get(one.pool)) is not None:
            heapq.heappush(line.places, begins + whole)
        opens = one.gate in PROJECT or (one.gate in CLOSED and pool.free > 0)
        sure = first and opens and one.until is not None
        return Expected(self._now + timedelta(seconds=begins), about=not sure)


def _opens(one: Waiter, line: _Line) -> bool:
    """Whether a closed pool opens for it: a breaker lets one through, and nobody knows the rest."""
    return one.until is not None and (one.gate != GovernorGate.BREAKER or line.last is None)


def _line(one: Waiter) -> str:
    if one.gate in EVERYBODY:
        return "all"
    if one.gate in POOL:
        return f"pool {one.pool}"
    return f"project {one.project}" if one.gate in PROJECT else ""
