"""Rules of the queue: first come, first served, and no more root tasks at once than allowed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from hostler.model import parse_stamp
from hostler.planner.readiness import Blocker
from hostler.store.dependencies import TaskFacts
from hostler.store.tasks import Task, TaskState


class Status(StrEnum):
    """What became of a task that was just submitted."""

    STARTED = "started"
    QUEUED = "queued"


@dataclass(frozen=True, slots=True)
class Submitted:
    """The answer to whoever submits. Position 1 is the next; 0: started, or held by others."""

    status: Status
    queue_position: int = 0


@dataclass(frozen=True, slots=True)
class Queue:
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


def by_order(task: Task) -> tuple[int, str]:
    """Who comes first: the lower order, and of equal ones the lower name."""
    return task.order, task.id


def is_root(task: Task | TaskFacts) -> bool:
    """Whether no agent submitted a task. What follows from an issue's design has a parent too."""
    return task.parent_task is None or task.issue_number is not None


def occupants(running: Iterable[Task | TaskFacts], with_runs: Mapping[str, bool]) -> frozenset[str]:
    """Root tasks that have a place: those running, and those with a run that has not ended.

    `with_runs` says of each such task whether it is a root; one that nobody knows counts as one.
    """
    theirs = {task.id for task in running if is_root(task)}
    return frozenset(theirs | {task for task, root in with_runs.items() if root})


def admits(task: Task | TaskFacts, taken: int, cap: int) -> bool:
    """Whether there is a place for a task, if so many are taken. Children need none."""
    return cap <= 0 or not is_root(task) or taken < cap


def positions(
    waiting: Iterable[Task], held: Collection[str] = (), rank: Callable[[Task], Any] = by_order
) -> dict[str, int]:
    """The place of each queued root task among those that nothing else holds; 1 is the next."""
    free = (task for task in waiting if is_queued(task) and task.id not in held)
    return {task.id: place for place, task in enumerate(sorted(free, key=rank), start=1)}


def submitted(queue: Queue, task: Task, *, held: bool = False) -> Submitted:
    """Whether there is a place for a task and all before it, or which position it has.

    `held`: a gate that is none of the queue's holds it.
    """
    if task.id in queue.held:
        return Submitted(Status.QUEUED)
    position = queue.positions.get(task.id, 0)
    if held:
        return Submitted(Status.QUEUED, position)
    if not is_queued(task) or task.id in queue.occupied:
        return Submitted(Status.STARTED)
    starts = queue.free is None or position <= queue.free
    return Submitted(Status.STARTED) if starts else Submitted(Status.QUEUED, position)


def is_queued(task: Task) -> bool:
    """Whether a task is an entry of this queue."""
    return task.state is TaskState.QUEUED and is_root(task)


def stale(
    running: Iterable[Task], attended: Collection[str], now: datetime, grace: timedelta
) -> list[Task]:
    """Tasks that began longer ago than the grace, and have no run or worker to show for it."""
    lost = (
        task
        for task in running
        if task.state is TaskState.RUNNING
        and task.id not in attended
        and now - parse_stamp(task.state_since) > grace
    )
    return sorted(lost, key=by_order)
