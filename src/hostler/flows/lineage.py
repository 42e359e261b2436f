"""Who came from whom: tasks and the tasks that their agents submitted."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hostler.store.runs import open_runs
from hostler.store.tasks import Task, children_of, find_task
from hostler.store.transaction import Transaction

# Deeper than any sensible tree; a circle in damaged rows must end somewhere.
DEEPEST = 64


def descendants(tx: Transaction, task: str, depth: int = DEEPEST) -> Iterator[Task]:
    """All tasks below one, each before its own children."""
    if depth <= 0:
        return
    for child in children_of(tx, task):
        yield child
        yield from descendants(tx, child.id, depth - 1)


def ancestors(tx: Transaction, task: Task) -> Iterator[str]:
    """The tasks above one, the nearest first."""
    found: Task | None = task
    for _ in range(DEEPEST):
        if found is None or found.parent_task is None:
            return
        yield found.parent_task
        found = find_task(tx, found.parent_task)


def belongs(tx: Transaction, task: Task, roots: Collection[str]) -> bool:
    """Whether a task is one of these, or comes from one."""
    return task.id in roots or any(name in roots for name in ancestors(tx, task))


def active_children(tx: Transaction, task: str) -> list[Task]:
    """Children with an agent at work now."""
    busy = {run.task_id for run in open_runs(tx)}
    return [child for child in children_of(tx, task) if child.id in busy]
