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

# Key in the stored identity of the process that released a slot.
WAITS_FOR = "waits_for"
# The names that each task waits for.
WaitGraph = Mapping[str, tuple[str, ...]]


def read_waits(runs: Iterable[Run]) -> dict[str, tuple[str, ...]]:
    """Return, by task, the tasks that its waiting agent waits for."""
    waiting = (run for run in runs if run.slot_released_at and not run.slot_requested_at)
    return {run.task_id: tasks_awaited_by(run) for run in waiting}


def tasks_awaited_by(run: Run) -> tuple[str, ...]:
    """Return the tasks that a run with a released slot waits for."""
    names = json.loads(run.slot_released_by or "{}").get(WAITS_FOR, ())
    return tuple(name for name in names if isinstance(name, str))


def _build_wait_graph(tx: Transaction, names: Collection[str], waits: WaitGraph) -> WaitGraph:
    """Return everything that these tasks and all waiting tasks reach by dependencies and waits."""
    reached = read_graph(tx, {*names, *waits, *chain.from_iterable(waits.values())})
    both = {*reached, *waits}
    return {name: (*reached.get(name, ()), *waits.get(name, ())) for name in both}


def count_waiting_roots(
    tx: Transaction, runs: Collection[Run], tasks: Mapping[str, Task]
) -> dict[str, int]:
    """Count, by task, the root tasks that released their slot and wait for it, even indirectly."""
    waits = read_waits(runs)
    graph = _build_wait_graph(tx, (), waits) if waits else {}
    counts: dict[str, int] = {}
    for name in waits:
        if name in tasks and is_root(tasks[name]):
            for reached in _reachable(graph, name):
                counts[reached] = counts.get(reached, 0) + 1
    return counts


def find_awaited(tx: Transaction, runs: Collection[Run], tasks: Iterable[Task]) -> frozenset[str]:
    """Return those of these tasks that a run with a released slot may wait for.

    These are the tasks that it names, their dependencies, and the children of all of them and of
    its own task: a run that waits for the first of several tasks names none.
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


# Tasks in these states continue by themselves.
_UNSETTLED_STATES = frozenset(
    {TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRYING, TaskState.PARKED}
)
# Exit codes: success, over without success, a user is needed.
_EXIT_SUCCESS, _EXIT_FAILED, _EXIT_NEEDS_PERSON = 0, 1, 3
_EXIT_CODES = {
    TaskState.DONE: _EXIT_SUCCESS,
    TaskState.AWAITING_FEEDBACK: _EXIT_SUCCESS,
    TaskState.STOPPED: _EXIT_FAILED,
    TaskState.FAILED: _EXIT_FAILED,
}


@dataclass(frozen=True, slots=True)
class SettledTask:
    """A settled task. `stuck`: blockers that can never be ready, of a queued task."""

    task: Task
    stuck: tuple[Blocker, ...] = ()

    @property
    def code(self) -> int:
        """The exit code for this task."""
        return (
            _EXIT_NEEDS_PERSON
            if self.stuck
            else _EXIT_CODES.get(self.task.state, _EXIT_NEEDS_PERSON)
        )


def find_settled(tx: Transaction, names: Collection[str]) -> list[SettledTask]:
    """Return the tasks on which nothing happens any more by itself."""
    tasks = [require_task(tx, name) for name in names]
    busy = {run.task_id for run in open_runs(tx)}
    stuck = _find_hopeless(tx, tasks)
    return [
        SettledTask(task, stuck.get(task.id, ()))
        for task in tasks
        if task.id not in busy and (task.state not in _UNSETTLED_STATES or task.id in stuck)
    ]


def exit_code_of(found: Iterable[SettledTask]) -> int:
    """Return the exit code for several tasks; a failed task outweighs one that needs a user."""
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
# After this time without progress on the awaited tasks, the slot is released again.
MAX_STANDSTILL_SECONDS = 5.0

# Whether `all` or `any` of the tasks must be settled.
Quantifier = Callable[[Iterable[bool]], bool]


class WaitOver(HostlerError):
    """The wait ended before the tasks settled."""

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
    """Wait until tasks settle. A run releases its slot while it waits, and has it again after."""
    end = None if seconds is None else clock.monotonic() + seconds
    found = find_enough_settled(store, names, enough)
    if found is not None:
        return found
    # A wait for any of several tasks does not depend on one that waits for this run.
    needed = tuple(names) if enough is all or len(names) == 1 else ()
    lender = ReleasedSlot(store, clock, run, names, needed, policy)
    if lender.lend():
        tell("This run releases its slot while it waits.")
    try:
        return _wait_until(
            store, clock, lambda: find_enough_settled(store, names, enough), end, lender
        )
    finally:
        lender.come_back(tell)


def find_enough_settled(
    store: Store, names: Collection[str], enough: Quantifier = all
) -> list[SettledTask] | None:
    """Return the settled tasks if they are enough, else None."""
    with store.read() as tx:
        found = find_settled(tx, names)
    known = {one.task.id for one in found}
    return found if enough(name in known for name in names) else None


class ReleasedSlot:
    """The slot of a run that waits. A run with several waits has one object for each.

    When one wait returns, the run has its slot again. The other waits may then wait for a task
    that cannot start without this slot: they release it again when nothing progresses.
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
        """Release the slot. Return False if there is none. Raise on a wait for itself.

        Check and release are one transaction: of two runs that wait for each other, one fails.
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

    def check_progress(self) -> float | None:
        """Release the slot again if nothing progresses; return when to check again, in seconds."""
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
        """Get the slot back before the agent continues."""
        if not self._run or self._has_place(ask=True):
            return
        tell("Waiting for a free slot for this run.")
        _wait_until(self._store, self._clock, lambda: self._has_place(ask=True), None)

    def _has_place(self, *, ask: bool) -> Run | None:
        """Return the run if it has its slot, else None. Raises `WaitOver` if the run has ended."""
        with self._store.read() as tx:
            found = find_run(tx, self._run)
        if found is None or found.state not in LIVE:
            raise WaitOver(f"The run {self._run} has ended.")
        if found.slot_released_at is None:
            return found
        if ask and found.slot_requested_at is None:
            with self._store.write("admission") as tx:
                request_run_slot(tx, self._run)
        return None

    def _moves(self, tx: Transaction) -> bool:
        """Return True if an agent runs on an awaited task or on one of its dependencies."""
        wanted = {*read_graph(tx, self._names), *self._names}
        others = [
            run for run in live_runs(tx) if run.slot_released_at is None and run.run != self._run
        ]
        return any(is_in_tree(tx, require_task(tx, run.task_id), wanted) for run in others)


def _require_no_self_wait(tx: Transaction, run: Run, names: Collection[str]) -> None:
    """Raise if an awaited task waits for this run, its parents or their dependents."""
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
                "Timed out: not all tasks have settled.",
                safe="Nothing was changed.",
                remedy="Wait longer.",
            )
        again = lender.check_progress() if lender else None
        store.wait_for_change(mark, min((one for one in (left, again) if one), default=None))
