"""At the start: what an earlier service left under way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hostler.runs import Found, recover
from hostler.store import Store
from hostler.store.tasks import Task, TaskState, tasks_in


@dataclass(frozen=True, slots=True)
class Left:
    """Runs that are not ended, and tasks of which only our own part is left."""

    runs: tuple[Found, ...]
    tasks: tuple[Task, ...]


def left_behind(home: Path, store: Store) -> Left:
    """Everything under way. A running task without an open run waits for our part of it."""
    runs = recover(home, store)
    busy = {found.run.task_id for found in runs}
    with store.read() as tx:
        running = tasks_in(tx, (TaskState.RUNNING,))
    return Left(tuple(runs), tuple(task for task in running if task.id not in busy))
