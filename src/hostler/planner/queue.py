"""The queue of root tasks, and reading queue, blockers and dependencies from the database.

What reads or writes takes an open transaction. Finished tasks are read only if another names them.
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
    find_hopeless,
    is_waiting,
    judge_names,
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
    """What became of a task that was just submitted."""

    STARTED = "started"
    QUEUED = "queued"


@dataclass(frozen=True, slots=True)
class SubmissionResult:
    """The answer to whoever submits. Position 1 is the next; 0: started, or held by others."""

    status: SubmissionStatus
    queue_position: int = 0


@dataclass(frozen=True, slots=True)
class TaskQueue:
    """Root tasks that wait, first come first, at one moment.

    `held`: those that wait for others; `occupied`: root tasks that have a place; a cap of 0 or
    less is none.
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
    """Who comes first: the lower order, and of equal ones the lower name."""
    return task.order, task.id


def is_root(task: Task | TaskFacts) -> bool:
    """Whether no agent submitted a task. What follows from an issue's design has a parent too."""
    return task.parent_task is None or task.issue_number is not None


def find_occupants(
    running: Iterable[Task | TaskFacts], with_runs: Mapping[str, bool]
) -> frozenset[str]:
    """Root tasks that have a place: those running, and those with a run that has not ended.

    `with_runs` says of each such task whether it is a root; one that nobody knows counts as one.
    """
    theirs = {task.id for task in running if is_root(task)}
    return frozenset(theirs | {task for task, root in with_runs.items() if root})


def has_free_slot(task: Task | TaskFacts, taken: int, cap: int) -> bool:
    """Whether there is a place for a task, if so many are taken. Children need none."""
    return cap <= 0 or not is_root(task) or taken < cap


def queue_positions(
    waiting: Iterable[Task], held: Collection[str] = (), rank: Callable[[Task], Any] = queue_order
) -> dict[str, int]:
    """The place of each queued root task among those that nothing else holds; 1 is the next."""
    free = (task for task in waiting if is_queued(task) and task.id not in held)
    return {task.id: place for place, task in enumerate(sorted(free, key=rank), start=1)}


def submission_result(queue: TaskQueue, task: Task, *, held: bool = False) -> SubmissionResult:
    """Whether there is a place for a task and all before it, or which position it has.

    `held`: a gate that is none of the queue's holds it.
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
    """Whether a task is an entry of this queue."""
    return task.state is TaskState.QUEUED and is_root(task)


def find_stale(
    running: Iterable[Task], attended: Collection[str], now: datetime, grace: timedelta
) -> list[Task]:
    """Tasks that began longer ago than the grace, and have no run or worker to show for it."""
    lost = (
        task
        for task in running
        if task.state is TaskState.RUNNING
        and task.id not in attended
        and now - parse_timestamp(task.state_since) > grace
    )
    return sorted(lost, key=queue_order)


UNFINISHED_STATES = tuple(state for state in TaskState if state not in OVER)
# The states in which a successful run can stand for a task that is not over.
_STATES_WITH_WORK = (TaskState.AWAITING_FEEDBACK, TaskState.QUEUED)


class BlockerChange(StrEnum):
    """What there is to tell about what holds a task."""

    NONE = "none"
    CHANGED = "changed"
    CLEAR = "clear"


def read_blockers(tx: Transaction, tasks: Iterable[Task]) -> dict[str, tuple[Blocker, ...]]:
    """What holds each of these tasks; those that nothing holds are left out."""
    asked = [facts_of(task) for task in tasks if task.depends_on]
    found = _find_blockers(tx, [task for task in asked if is_waiting(task)])
    return {task: held for task, held in found.items() if held}


def read_hopeless(tx: Transaction) -> dict[str, tuple[Blocker, ...]]:
    """All tasks that can never proceed by themselves, and why."""
    waiting = waiting_dependents(tx, UNFINISHED_STATES)
    return find_hopeless(waiting, judge_names(_read_snapshot(tx, waiting))) if waiting else {}


def read_graph(tx: Transaction, names: Iterable[str]) -> DependencyGraph:
    """Everything that can be reached from these names; see `require_no_cycle`."""
    tasks, issues = _read_reachable(tx, {}, set(names))
    return build_graph(DependencySnapshot(tasks, issues))


def read_queue(
    tx: Transaction, cap: int = 0, rank: Callable[[Task], Any] = queue_order
) -> TaskQueue:
    """The root tasks that wait, what holds them, and who has a place."""
    queued = tasks_in(tx, (TaskState.QUEUED,))
    held = read_blockers(tx, queued)
    waiting = tuple(task for task in queued if is_queued(task))
    return TaskQueue(waiting, held, queue_positions(waiting, held, rank), read_occupied(tx), cap)


def read_occupied(tx: Transaction) -> frozenset[str]:
    """Root tasks that have a place, agents of stopped and unknown tasks included."""
    busy = {run.task_id for run in open_runs(tx)}
    known = tasks_named(tx, busy)
    with_runs = {task: task not in known or is_root(known[task]) for task in busy}
    return find_occupants(tasks_in(tx, (TaskState.RUNNING,)), with_runs)


def store_blockers(
    tx: Transaction, task: Task, held: Collection[Blocker]
) -> tuple[Task, BlockerChange]:
    """Store what holds a task; the task as it is now, and whether there is news."""
    news = blocker_change(task, held)
    if news is BlockerChange.NONE:
        return task, news
    return change_task(tx, task, replace(task, blockers=_dump_blockers(held))), news


def blocker_change(task: Task, held: Collection[Blocker]) -> BlockerChange:
    """Whether what holds a task is another than what is noted: a name, or hope lost or found.

    Each step of what is waited for is no news.
    """
    if _dump_blockers(held) == task.blockers:
        return BlockerChange.NONE
    return BlockerChange.CHANGED if held else BlockerChange.CLEAR


def _dump_blockers(held: Collection[Blocker]) -> str:
    return json.dumps([[one.name, one.hopeless] for one in held]) if held else ""


def _find_blockers(tx: Transaction, asked: list[TaskFacts]) -> dict[str, tuple[Blocker, ...]]:
    if not asked:
        return {}
    judged = judge_names(_read_snapshot(tx, asked))
    return {task.id: select_blockers(task, judged) for task in asked}


def _read_snapshot(tx: Transaction, asked: Iterable[TaskFacts]) -> DependencySnapshot:
    start = {task.id: task for task in asked}
    tasks, issues = _read_reachable(
        tx, start, {n for task in start.values() for n in task.depends_on}
    )
    bare = [ref for name, found in issues.items() if not found and (ref := IssueRef.parse(name))]
    states = {str(ref): seen.state for ref, seen in issues_known(tx, bare).items()}
    standing = [task.id for task in tasks.values() if task.state in _STATES_WITH_WORK]
    return DependencySnapshot(tasks, issues, states, last_runs(tx, standing))


def _read_reachable(
    tx: Transaction, tasks: dict[str, TaskFacts], names: set[str]
) -> tuple[dict[str, TaskFacts], dict[str, tuple[str, ...]]]:
    """Tasks and issues that names lead to. Whoever waits for nobody ends the way."""
    issues: dict[str, tuple[str, ...]] = {}
    seen = set(tasks)
    while names:
        seen |= names
        refs = [ref for name in sorted(names) if (ref := IssueRef.parse(name)) is not None]
        theirs = tasks_of_issues(tx, refs)
        issues |= {str(ref): tuple(task.id for task in theirs.get(ref, ())) for ref in refs}
        found = tasks_named(tx, names) | {t.id: t for group in theirs.values() for t in group}
        tasks = found | tasks
        waiting = (task for task in found.values() if is_waiting(task))
        names = {name for task in waiting for name in task.depends_on} - seen
    return tasks, issues
