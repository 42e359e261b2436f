"""When a task is at rest, for whoever waits for it, and what it has come to then."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from hostler.planner import Blocker, blockers_of
from hostler.store import Transaction
from hostler.store.runs import open_runs
from hostler.store.tasks import Task, TaskState, require_task

# What a task waits for is not at rest; neither is one that waits for its time.
MOVING = frozenset({TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRYING, TaskState.PARKED})
# As exit codes: well, over without success, a person is needed.
WELL, OVER, PERSON = 0, 1, 3
_CODES = {
    TaskState.DONE: WELL,
    TaskState.AWAITING_FEEDBACK: WELL,
    TaskState.STOPPED: OVER,
    TaskState.FAILED: OVER,
}


@dataclass(frozen=True, slots=True)
class Rested:
    """A task at rest. `stuck`: it is queued, and what it waits for can never be ready."""

    task: Task
    stuck: tuple[Blocker, ...] = ()

    @property
    def code(self) -> int:
        """What it has come to, as an exit code."""
        return PERSON if self.stuck else _CODES.get(self.task.state, PERSON)


def rested(tx: Transaction, names: Collection[str]) -> list[Rested]:
    """Those of these tasks of which nothing is under way, or will be by itself."""
    tasks = [require_task(tx, name) for name in names]
    busy = {run.task_id for run in open_runs(tx)}
    stuck = _stuck(tx, tasks)
    return [
        Rested(task, stuck.get(task.id, ()))
        for task in tasks
        if task.id not in busy and (task.state not in MOVING or task.id in stuck)
    ]


def code_of(found: Iterable[Rested]) -> int:
    """What all of them have come to: what is over weighs more than what needs a person."""
    codes = {one.code for one in found}
    return next((code for code in (OVER, PERSON) if code in codes), WELL)


def _stuck(tx: Transaction, tasks: Iterable[Task]) -> dict[str, tuple[Blocker, ...]]:
    queued = [task for task in tasks if task.state is TaskState.QUEUED and task.depends_on]
    held = blockers_of(tx, queued) if queued else {}
    found = {name: tuple(one for one in all_ if one.hopeless) for name, all_ in held.items()}
    return {name: hopeless for name, hopeless in found.items() if hopeless}
