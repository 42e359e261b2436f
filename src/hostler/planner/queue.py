"""The queue of root tasks, and reading queue, blockers and dependencies from the database.

Functions that read or write take an open transaction. Finished tasks are read only if another task
names them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from hostler.model import parse_timestamp
from hostler.planner.dependencies import (
    Blocker,
    DependencyGraph,
    DependencySnapshot,
    build_graph,
    find_blockers,
    find_hopeless,
    is_waiting,
    select_blockers,
)
from hostler.store.dependencies import (
    TaskFacts,
    facts_of,
    issues_known,
    last_runs,
    tasks_named,
    tasks_of_issues,
    waiting_dependents,
)
from hostler.store.runs import open_runs
from hostler.store.tasks import OVER, IssueRef, Task, TaskState, change_task, tasks_in
from hostler.store.transaction import Transaction


class SubmissionStatus(StrEnum):
    """Whether a task that was just submitted has started."""

    STARTED = "started"
    QUEUED = "queued"


@dataclass(frozen=True, slots=True)
class SubmissionResult:
    """The result of a submission. Position 1 is the next.

    0: started, or waiting for dependencies.
    """

    status: SubmissionStatus
    queue_position: int = 0


@dataclass(frozen=True, slots=True)
class TaskQueue:
    """The waiting root tasks, first come first served.

    `held`: those with unfinished dependencies; `occupied`: root tasks that have a slot; a cap of 0
    or less means no cap.
    """

    waiting: tuple[Task, ...]
    held: Mapping[str, tuple[Blocker, ...]]
    positions: Mapping[str, int]
    occupied: frozenset[str]
    cap: int = 0

    @property
    def free(self) -> int | None:
        """How many more may start; None: any number."""
        return None if self.cap <= 0 else max(self.cap - len(self.occupied), 0)


def queue_order(task: Task) -> tuple[int, str]:
    """Return the sort key of the queue: order, then id."""
    return task.order, task.id


def is_root(task: Task | TaskFacts) -> bool:
    """Return whether no agent submitted the task.

    An implementation has a parent, but is a root too.
    """
    return task.parent_task is None or task.issue_number is not None


def find_occupants(
    running: Iterable[Task | TaskFacts], is_root_by_task: Mapping[str, bool]
) -> frozenset[str]:
    """Return root tasks that have a slot: running, or with a run that has not ended."""
    by_issue = {task.id for task in running if is_root(task)}
    return frozenset(by_issue | {task for task, root in is_root_by_task.items() if root})


def has_free_slot(task: Task | TaskFacts, taken: int, cap: int) -> bool:
    """Return whether a task can have a slot if this many are taken. Child tasks need none."""
    return cap <= 0 or not is_root(task) or taken < cap


def queue_positions(
    waiting: Iterable[Task], held: Collection[str] = (), rank: Callable[[Task], Any] = queue_order
) -> dict[str, int]:
    """Return the position of each queued root task without unfinished dependencies.

    1 is the next.
    """
    free = (task for task in waiting if is_queued(task) and task.id not in held)
    return {task.id: position for position, task in enumerate(sorted(free, key=rank), start=1)}


def submission_result(queue: TaskQueue, task: Task, *, held: bool = False) -> SubmissionResult:
    """Return whether a task starts now, or its position.

    `held`: a gate outside of the queue holds it.
    """
    if task.id in queue.held:
        return SubmissionResult(SubmissionStatus.QUEUED)
    position = queue.positions.get(task.id, 0)
    if held:
        return SubmissionResult(SubmissionStatus.QUEUED, position)
    if not is_queued(task) or task.id in queue.occupied:
        return SubmissionResult(SubmissionStatus.STARTED)
    starts = queue.free is None or position <= queue.free
    return (
        SubmissionResult(SubmissionStatus.STARTED)
        if starts
        else SubmissionResult(SubmissionStatus.QUEUED, position)
    )


def is_queued(task: Task) -> bool:
    """Return whether a task is an entry of this queue."""
    return task.state is TaskState.QUEUED and is_root(task)


def find_stale(
    running: Iterable[Task], attended: Collection[str], now: datetime, grace: timedelta
) -> list[Task]:
    """Return tasks that started longer ago than the grace period, but have no run or worker."""
    lost = (
        task
        for task in running
        if task.state is TaskState.RUNNING
        and task.id not in attended
        and now - parse_timestamp(task.state_since) > grace
    )
    return sorted(lost, key=queue_order)


UNFINISHED_STATES = tuple(state for state in TaskState if state not in OVER)
# States in which a successful run can count for an unfinished task.
_STATES_WITH_WORK = (TaskState.AWAITING_FEEDBACK, TaskState.QUEUED)


class BlockerChange(StrEnum):
    """How the blockers of a task changed."""

    NONE = "none"
    CHANGED = "changed"
    CLEAR = "clear"


def read_blockers(tx: Transaction, tasks: Iterable[Task]) -> dict[str, tuple[Blocker, ...]]:
    """Return the blockers of each of these tasks, without tasks that have none."""
    waiting_tasks = [facts_of(task) for task in tasks if task.depends_on]
    found = _find_blockers(tx, [task for task in waiting_tasks if is_waiting(task)])
    return {task: held for task, held in found.items() if held}


def read_hopeless(tx: Transaction) -> dict[str, tuple[Blocker, ...]]:
    """Return all tasks that can never start without a user, and why."""
    waiting = waiting_dependents(tx, UNFINISHED_STATES)
    return find_hopeless(waiting, find_blockers(_read_snapshot(tx, waiting))) if waiting else {}


def read_graph(tx: Transaction, names: Iterable[str]) -> DependencyGraph:
    """Return everything that can be reached from these names; see `require_no_cycle`."""
    tasks, issues = _read_reachable(tx, {}, set(names))
    return build_graph(DependencySnapshot(tasks, issues))


def read_queue(
    tx: Transaction, cap: int = 0, rank: Callable[[Task], Any] = queue_order
) -> TaskQueue:
    """Read the waiting root tasks, their blockers, and which tasks have a slot."""
    queued = tasks_in(tx, (TaskState.QUEUED,))
    held = read_blockers(tx, queued)
    waiting = tuple(task for task in queued if is_queued(task))
    return TaskQueue(waiting, held, queue_positions(waiting, held, rank), read_occupied(tx), cap)


def read_occupied(tx: Transaction) -> frozenset[str]:
    """Return root tasks that have a slot, including runs of stopped and deleted tasks."""
    busy = {run.task_id for run in open_runs(tx)}
    known = tasks_named(tx, busy)
    is_root_by_task = {task: task not in known or is_root(known[task]) for task in busy}
    return find_occupants(tasks_in(tx, (TaskState.RUNNING,)), is_root_by_task)


def store_blockers(
    tx: Transaction, task: Task, held: Collection[Blocker]
) -> tuple[Task, BlockerChange]:
    """Store the blockers of a task; return the task, and how they changed."""
    change = blocker_change(task, held)
    if change is BlockerChange.NONE:
        return task, change
    return change_task(tx, task, replace(task, blockers=_dump_blockers(held))), change


def blocker_change(task: Task, held: Collection[Blocker]) -> BlockerChange:
    """Return how the blockers differ from the stored ones: in names, or in being hopeless.

    A new state of a dependency alone is not a change.
    """
    if _dump_blockers(held) == task.blockers:
        return BlockerChange.NONE
    return BlockerChange.CHANGED if held else BlockerChange.CLEAR


def _dump_blockers(held: Collection[Blocker]) -> str:
    return json.dumps([[one.name, one.hopeless] for one in held]) if held else ""


def _find_blockers(
    tx: Transaction, waiting_tasks: list[TaskFacts]
) -> dict[str, tuple[Blocker, ...]]:
    if not waiting_tasks:
        return {}
    blockers_by_name = find_blockers(_read_snapshot(tx, waiting_tasks))
    return {task.id: select_blockers(task, blockers_by_name) for task in waiting_tasks}


def _read_snapshot(tx: Transaction, waiting_tasks: Iterable[TaskFacts]) -> DependencySnapshot:
    start = {task.id: task for task in waiting_tasks}
    tasks, issues = _read_reachable(
        tx, start, {n for task in start.values() for n in task.depends_on}
    )
    untracked = [
        ref for name, found in issues.items() if not found and (ref := IssueRef.parse(name))
    ]
    states = {str(ref): seen.state for ref, seen in issues_known(tx, untracked).items()}
    with_work = [task.id for task in tasks.values() if task.state in _STATES_WITH_WORK]
    return DependencySnapshot(tasks, issues, states, last_runs(tx, with_work))


def _read_reachable(
    tx: Transaction, tasks: dict[str, TaskFacts], names: set[str]
) -> tuple[dict[str, TaskFacts], dict[str, tuple[str, ...]]]:
    """Read tasks and issues that the names lead to. Tasks that wait for nothing end the path."""
    issues: dict[str, tuple[str, ...]] = {}
    seen = set(tasks)
    while names:
        seen |= names
        refs = [ref for name in sorted(names) if (ref := IssueRef.parse(name)) is not None]
        by_issue = tasks_of_issues(tx, refs)
        issues |= {str(ref): tuple(task.id for task in by_issue.get(ref, ())) for ref in refs}
        found = tasks_named(tx, names) | {t.id: t for group in by_issue.values() for t in group}
        tasks = found | tasks
        waiting = (task for task in found.values() if is_waiting(task))
        names = {name for task in waiting for name in task.depends_on} - seen
    return tasks, issues
