"""Wait for tasks to settle, releasing the slot of the waiting run meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TypeVar

from hostler.clock import Clock
from hostler.errors import HostlerError
from hostler.governor.holders import read_host
from hostler.governor.leases import release_temporarily as lend_lease
from hostler.governor.policy import Policy
from hostler.planner.dependencies import Blocker, require_no_cycle
from hostler.planner.queue import is_root, read_blockers, read_graph
from hostler.store import Store, Transaction
from hostler.store.runs import (
    LIVE,
    Run,
    RunState,
    find_run,
    live_runs,
    open_runs,
    release_run_slot,
    request_run_slot,
)
from hostler.store.tasks import Task, TaskState, require_task
from hostler.workflows.commands import ancestors, is_in_tree

# In what is noted about whoever lent a place, beside its identity.
WAITS_FOR = "waits_for"
# By task: what it waits for.
WaitGraph = Mapping[str, tuple[str, ...]]


def read_waits(runs: Iterable[Run]) -> dict[str, tuple[str, ...]]:
    """Tasks whose agents wait now, and for which tasks."""
    waiting = (run for run in runs if run.slot_released_at and not run.slot_requested_at)
    return {run.task_id: tasks_awaited_by(run) for run in waiting}


def tasks_awaited_by(run: Run) -> tuple[str, ...]:
    """The tasks that a run with a lent place waits for."""
    names = json.loads(run.slot_released_by or "{}").get(WAITS_FOR, ())
    return tuple(name for name in names if isinstance(name, str))


def _build_wait_graph(tx: Transaction, names: Collection[str], waits: WaitGraph) -> WaitGraph:
    """What can be reached from these tasks and from all who wait, by dependencies and waits."""
    reached = read_graph(tx, {*names, *waits, *chain.from_iterable(waits.values())})
    both = {*reached, *waits}
    return {name: (*reached.get(name, ()), *waits.get(name, ())) for name in both}


def count_waiting_roots(
    tx: Transaction, runs: Collection[Run], tasks: Mapping[str, Task]
) -> dict[str, int]:
    """By task: how many root tasks have lent their place and wait for it, in whatever way."""
    waits = read_waits(runs)
    graph = _build_wait_graph(tx, (), waits) if waits else {}
    counts: dict[str, int] = {}
    for name in waits:
        if name in tasks and is_root(tasks[name]):
            for reached in _reachable(graph, name):
                counts[reached] = counts.get(reached, 0) + 1
    return counts


def find_awaited(tx: Transaction, runs: Collection[Run], tasks: Iterable[Task]) -> frozenset[str]:
    """Which of these tasks somebody with a lent place may wait for.

    Those that it names, what they depend on, and what came from any of them or from itself: who
    waits for the first of several names none.
    """
    waits = read_waits(runs)
    if not waits:
        return frozenset()
    graph = _build_wait_graph(tx, (), waits)
    roots = set(waits).union(*(_reachable(graph, name) for name in waits))
    return frozenset(task.id for task in tasks if is_in_tree(tx, task, roots))


def _reachable(graph: WaitGraph, start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = [name for name in graph.get(waiting.pop(), ()) if name not in found]
        found.update(new)
        waiting += new
    return found


# What a task waits for is not at rest; neither is one that waits for its time.
_UNSETTLED_STATES = frozenset(
    {TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRYING, TaskState.PARKED}
)
# As exit codes: well, over without success, a person is needed.
_EXIT_SUCCESS, _EXIT_FAILED, _EXIT_NEEDS_PERSON = 0, 1, 3
_EXIT_CODES = {
    TaskState.DONE: _EXIT_SUCCESS,
    TaskState.AWAITING_FEEDBACK: _EXIT_SUCCESS,
    TaskState.STOPPED: _EXIT_FAILED,
    TaskState.FAILED: _EXIT_FAILED,
}


@dataclass(frozen=True, slots=True)
class SettledTask:
    """A task at rest. `stuck`: it is queued, and what it waits for can never be ready."""

    task: Task
    stuck: tuple[Blocker, ...] = ()

    @property
    def code(self) -> int:
        """What it has come to, as an exit code."""
        return (
            _EXIT_NEEDS_PERSON
            if self.stuck
            else _EXIT_CODES.get(self.task.state, _EXIT_NEEDS_PERSON)
        )


def find_settled(tx: Transaction, names: Collection[str]) -> list[SettledTask]:
    """Those of these tasks of which nothing is under way, or will be by itself."""
    tasks = [require_task(tx, name) for name in names]
    busy = {run.task_id for run in open_runs(tx)}
    stuck = _find_hopeless(tx, tasks)
    return [
        SettledTask(task, stuck.get(task.id, ()))
        for task in tasks
        if task.id not in busy and (task.state not in _UNSETTLED_STATES or task.id in stuck)
    ]


def exit_code_of(found: Iterable[SettledTask]) -> int:
    """What all of them have come to: what is over weighs more than what needs a person."""
    codes = {one.code for one in found}
    return next(
        (code for code in (_EXIT_FAILED, _EXIT_NEEDS_PERSON) if code in codes), _EXIT_SUCCESS
    )


def _find_hopeless(tx: Transaction, tasks: Iterable[Task]) -> dict[str, tuple[Blocker, ...]]:
    queued = [task for task in tasks if task.state is TaskState.QUEUED and task.depends_on]
    held = read_blockers(tx, queued) if queued else {}
    found = {name: tuple(one for one in all_ if one.hopeless) for name, all_ in held.items()}
    return {name: hopeless for name, hopeless in found.items() if hopeless}


T = TypeVar("T")
# How long nothing of what is waited for moves, before a place that counts is lent once more.
MAX_STANDSTILL_SECONDS = 5.0

# How many of the tasks are to be at rest: `all` or `any` of them.
Quantifier = Callable[[Iterable[bool]], bool]


class WaitOver(HostlerError):
    """The wait ended before the tasks did."""

    exit_code = 75


def wait_for_tasks(
    store: Store,
    clock: Clock,
    names: Collection[str],
    run: str = "",
    seconds: float | None = None,
    tell: Callable[[str], None] = lambda _: None,
    enough: Quantifier = all,
    policy: Policy | None = None,
) -> list[SettledTask]:
    """Until they are at rest. In a run, its place is lent, and had again at the return."""
    end = None if seconds is None else clock.monotonic() + seconds
    found = find_enough_settled(store, names, enough)
    if found is not None:
        return found
    # Whoever waits for any of several is not held up by one that waits for it.
    needed = tuple(names) if enough is all or len(names) == 1 else ()
    lender = ReleasedSlot(store, clock, run, names, needed, policy)
    if lender.lend():
        tell("The place of this run is lent while it waits.")
    try:
        return _wait_until(
            store, clock, lambda: find_enough_settled(store, names, enough), end, lender
        )
    finally:
        lender.come_back(tell)


def find_enough_settled(
    store: Store, names: Collection[str], enough: Quantifier = all
) -> list[SettledTask] | None:
    """Those at rest, when there are enough of them; None before that."""
    with store.read() as tx:
        found = find_settled(tx, names)
    known = {one.task.id for one in found}
    return found if enough(name in known for name in names) else None


class ReleasedSlot:
    """The place of the run that waits here. Of several waits in one run, each is one.

    When one of them returns, the run has its place, and counts. The others may then wait for
    what cannot start without that place: they lend it again when nothing of it moves.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        run: str,
        names: Collection[str],
        needed: Collection[str],
        policy: Policy | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._run = run
        self._names = names
        self._needed = needed
        self._policy = policy
        self._stands_since: float | None = None

    def lend(self) -> bool:
        """Lend the place; whether there was one to lend. Refused if it would wait for itself.

        Both in one transaction: of two that want to wait for each other, one is told.
        """
        if not self._run:
            return False
        here = read_host()
        with self._store.write("admission") as tx:
            found = find_run(tx, self._run)
            if found is None:
                return False
            _require_no_self_wait(tx, found, self._names)
            if found.state is not RunState.RUNNING:
                return False
            by = {**asdict(here.holder), WAITS_FOR: [*self._needed]}
            lent = release_run_slot(tx, self._run, json.dumps(by))
            if lent:
                lend_lease(tx, self._run, self._policy)
            return lent

    def look(self) -> float | None:
        """Lend again if need be; in how many seconds to look again."""
        if not self._run:
            return None
        with self._store.read() as tx:
            found = find_run(tx, self._run)
            stands = found is not None and found.slot_released_at is None and not self._moves(tx)
        now = self._clock.monotonic()
        if not stands:
            self._stands_since = None
        elif self._stands_since is None:
            self._stands_since = now
        elif now - self._stands_since >= MAX_STANDSTILL_SECONDS:
            self._stands_since = None
            self.lend()
        return MAX_STANDSTILL_SECONDS

    def come_back(self, tell: Callable[[str], None]) -> None:
        """Have the place again, if it is lent, before the agent goes on."""
        if not self._run or self._has_place(ask=True):
            return
        tell("Waiting for the place of this run.")
        _wait_until(self._store, self._clock, lambda: self._has_place(ask=True), None)

    def _has_place(self, *, ask: bool) -> Run | None:
        """The run, when it counts, or when there is nothing to come back to."""
        with self._store.read() as tx:
            found = find_run(tx, self._run)
        if found is None or found.state not in LIVE:
            raise WaitOver(f"The run {self._run} has ended meanwhile.")
        if found.slot_released_at is None:
            return found
        if ask and found.slot_requested_at is None:
            with self._store.write("admission") as tx:
                request_run_slot(tx, self._run)
        return None

    def _moves(self, tx: Transaction) -> bool:
        """Whether an agent is at work on what is waited for, or on what that waits for."""
        wanted = {*read_graph(tx, self._names), *self._names}
        others = [
            run for run in live_runs(tx) if run.slot_released_at is None and run.run != self._run
        ]
        return any(is_in_tree(tx, require_task(tx, run.task_id), wanted) for run in others)


def _require_no_self_wait(tx: Transaction, run: Run, names: Collection[str]) -> None:
    """Refuse to wait for what waits for us: a task above, one that depends on it, or a waiter."""
    graph = _build_wait_graph(tx, names, read_waits(live_runs(tx)))
    for name in (run.task_id, *ancestors(tx, require_task(tx, run.task_id))):
        require_no_cycle(graph, name, names)


def _wait_until(
    store: Store,
    clock: Clock,
    seen: Callable[[], T | None],
    end: float | None,
    lender: ReleasedSlot | None = None,
) -> T:
    while True:
        mark = store.change_mark()
        found = seen()
        if found is not None:
            return found
        left = None if end is None else end - clock.monotonic()
        if left is not None and left <= 0:
            raise WaitOver(
                "They are not at rest yet.", safe="Nothing was changed.", remedy="Wait longer."
            )
        again = lender.look() if lender else None
        store.wait_for_change(mark, min((one for one in (left, again) if one), default=None))
