"""The queue in admission order, the gate that denies each task, and estimated starts."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from hostler.governor.gates import Gate as GovernorGate
from hostler.governor.status import PoolStatus
from hostler.model import format_timestamp, parse_timestamp
from hostler.service.scheduling.explain import ExplainInputs, GateEvaluator, denied_since
from hostler.service.scheduling.gates import GateDenial, HomeGate
from hostler.service.tasks.summary import task_json
from hostler.store import Transaction
from hostler.store.runs import Ended
from hostler.store.tasks import Task
from hostler.store.transaction import age, not_after

# Whose places are waited for at a gate; at others nobody can guess.
MACHINE_GATES = frozenset(
    {HomeGate.WORKERS, HomeGate.RUNS, HomeGate.ROOT_TASKS, GovernorGate.MACHINE}
)
PROJECT_GATES = frozenset({GovernorGate.WIDTH, GovernorGate.SHARE})
# Closed for a whole pool; when it opens, its tasks go through one after another.
CLOSED_POOL_GATES = frozenset(
    {GovernorGate.PARKED, GovernorGate.BREAKER, GovernorGate.LIMIT, GovernorGate.SPACING}
)
POOL_GATES = CLOSED_POOL_GATES | {GovernorGate.CAP}
# Who is at work for longer than usual needs more; at least this part of the time so far.
MIN_REMAINING_PART = 0.25


@dataclass(frozen=True, slots=True)
class WaitingTask:
    """A task of the queue: where it runs, the gate that holds it, and when that opens by itself.

    `over`: how many more than the gate allows are there; they leave before anybody comes.
    """

    project: str
    pool: str
    gate: str | None
    until: datetime | None = None
    over: int = 0


@dataclass(frozen=True, slots=True)
class BusyAgent:
    """An agent at work, which will leave its place."""

    project: str
    pool: str
    seconds: float


@dataclass(frozen=True, slots=True)
class PoolCapacity:
    """How many places a pool has free, below zero: too many; and seconds between two starts."""

    free: int = 0
    interval: float = 0.0


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """When a task starts. `about`: an estimate, by how long runs of its pool take."""

    at: datetime
    about: bool


def median_seconds(lasted: Iterable[tuple[str, float]]) -> dict[str, float]:
    """How long runs usually take, by pool."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for pool, seconds in lasted:
        found[pool].append(seconds)
    return {pool: median(each) for pool, each in found.items()}


def estimate_starts(
    queue: Sequence[WaitingTask],
    busy: Iterable[BusyAgent],
    usual: Mapping[str, float],
    pools: Mapping[str, PoolCapacity],
    now: datetime,
) -> list[ExpectedStart | None]:
    """For each of a queue, in its order; None: nothing is known."""
    lines = _SlotLines(usual, pools, now)
    for one in busy:
        lines.leaves(one)
    for name in {one.pool for one in queue}:
        lines.opens(name, len(queue))
    return [lines.start(one) for one in queue]


@dataclass(slots=True)
class _SlotLine:
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


class _SlotLines:
    """Who waits for whose places, one waiter after another."""

    def __init__(
        self, usual: Mapping[str, float], pools: Mapping[str, PoolCapacity], now: datetime
    ) -> None:
        self._usual = usual
        self._pools = pools
        self._now = now
        self._lines: defaultdict[str, _SlotLine] = defaultdict(_SlotLine)
        self._seen: set[str] = set()

    def leaves(self, one: BusyAgent) -> None:
        """An agent at work gives its place back after the usual time."""
        if (whole := self._usual.get(one.pool)) is None:
            return
        left = max(whole - one.seconds, one.seconds * MIN_REMAINING_PART)
        for line in ("all", f"pool {one.pool}", f"project {one.project}"):
            heapq.heappush(self._lines[line].places, left)

    def opens(self, name: str, most: int) -> None:
        """What a pool has free already, or has to lose first."""
        line, free = self._lines[f"pool {name}"], self._pools.get(name, PoolCapacity()).free
        line.skip(-free)
        for _ in range(min(free, most)):
            heapq.heappush(line.places, 0.0)

    def start(self, one: WaitingTask) -> ExpectedStart | None:
        """When the next of the queue starts."""
        first = one.pool not in self._seen
        self._seen.add(one.pool)
        if one.gate is None:
            return ExpectedStart(self._now, about=False)
        if not (name := _line_name(one)):
            return ExpectedStart(max(one.until, self._now), about=not first) if one.until else None
        line = self._lines[name]
        if one.gate in CLOSED_POOL_GATES and not _pool_opens(one, line):
            return None
        return self._taken(one, line, first=first and line.last is None)

    def _taken(self, one: WaitingTask, line: _SlotLine, *, first: bool) -> ExpectedStart | None:
        pool = self._pools.get(one.pool, PoolCapacity())
        earliest = max((one.until - self._now).total_seconds(), 0.0) if one.until else 0.0
        # Of a pool it is known by its places.
        line.skip(0 if one.gate in POOL_GATES else one.over)
        if one.gate in PROJECT_GATES and one.until and line.last is None:
            # The turn of a project gives it one more.
            heapq.heappush(line.places, earliest)
        begins = line.take(earliest, pool.interval if one.gate in POOL_GATES else 0.0)
        if begins is None:
            return None
        if (whole := self._usual.get(one.pool)) is not None:
            heapq.heappush(line.places, begins + whole)
        opens = one.gate in PROJECT_GATES or (one.gate in CLOSED_POOL_GATES and pool.free > 0)
        sure = first and opens and one.until is not None
        return ExpectedStart(self._now + timedelta(seconds=begins), about=not sure)


def _pool_opens(one: WaitingTask, line: _SlotLine) -> bool:
    """Whether a closed pool opens for it: a breaker lets one through, and nobody knows the rest."""
    return one.until is not None and (one.gate != GovernorGate.BREAKER or line.last is None)


def _line_name(one: WaitingTask) -> str:
    if one.gate in MACHINE_GATES:
        return "all"
    if one.gate in POOL_GATES:
        return f"pool {one.pool}"
    return f"project {one.project}" if one.gate in PROJECT_GATES else ""


@dataclass(frozen=True, slots=True)
class QueuedTask:
    """A task that waits. `denial` is None for the one that starts next."""

    position: int
    task: Task
    denial: GateDenial | None
    since: datetime
    seconds: float
    expected: ExpectedStart | None = None

    def as_json(self, web_url: str) -> dict[str, Any]:
        """For programs; `until` is when its gate opens by itself, where that is known."""
        denial, expected = self.denial, self.expected
        return {
            "position": self.position,
            **task_json(self.task, web_url),
            "attempt": self.task.attempt,
            "seconds": self.seconds,
            "would_start": denial is None,
            "gate": str(denial.gate) if denial else None,
            "why": denial.why if denial else None,
            "remedy": denial.remedy if denial else None,
            "since": format_timestamp(self.since),
            "until": format_timestamp(denial.until) if denial and denial.until else None,
            "starts_at": format_timestamp(expected.at) if expected else None,
            "starts_about": expected.about if expected else None,
        }


def read_queue(
    tx: Transaction,
    inputs: ExplainInputs,
    runs: Iterable[BusyAgent] = (),
    ended: Iterable[Ended] = (),
    pools: Iterable[PoolStatus] = (),
) -> tuple[QueuedTask, ...]:
    """All that wait for a place, in the order in which they are looked at.

    `runs` and `ended`: who is at work, and who was; by them and `pools` starts are estimated.
    """
    keeper, now = GateEvaluator(tx, inputs), tx.now()
    found = keeper.queue()
    usual = median_seconds((one.pool, one.work_seconds) for one in ended)
    waiters = [_build_waiting(task, denial, keeper) for task, denial in found]
    starts: list[ExpectedStart | None] = [None] * len(found)
    # Without a service nothing starts, whatever gates say.
    if inputs.presence.takes_tasks:
        rooms = _pool_capacities(waiters, pools, inputs)
        starts = estimate_starts(waiters, runs, usual, rooms, now)
    return tuple(
        QueuedTask(
            position,
            task,
            denial,
            not_after(denied_since(task, denial), now),
            age(parse_timestamp(task.state_since), now).total_seconds(),
            expected,
        )
        for position, ((task, denial), expected) in enumerate(zip(found, starts, strict=True), 1)
    )


def _build_waiting(task: Task, denial: GateDenial | None, keeper: GateEvaluator) -> WaitingTask:
    place = keeper.snapshot.placements.get(task.id)
    pool = place.pool if place else ""
    if denial is None:
        return WaitingTask(task.project, pool, None)
    return WaitingTask(task.project, pool, denial.gate, denial.until, denial.excess)


def _pool_capacities(
    waiters: Iterable[WaitingTask], pools: Iterable[PoolStatus], inputs: ExplainInputs
) -> Mapping[str, PoolCapacity]:
    """What each pool has free; one that nobody has used yet, its whole cap."""
    unused = {one.pool: PoolCapacity(inputs.policy.cap(one.pool)) for one in waiters}
    return unused | {one.pool: _pool_capacity(one) for one in pools}


def _pool_capacity(one: PoolStatus) -> PoolCapacity:
    interval = one.config.min_dispatch_interval_seconds if one.learned else 0.0
    return PoolCapacity(one.cap - one.active, max(interval, 0.0))
