"""Tasks a page at a time, and the newest of a state: no reader has to take all of them."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import ColumnElement, select

from hostler.store.task_tables import tasks
from hostler.store.tasks import Task, TaskState, read_tasks
from hostler.store.transaction import Transaction, batches


def task_page(
    tx: Transaction,
    limit: int,
    *,
    before: str = "",
    states: Collection[TaskState] = (),
    project: str = "",
    parent: str = "",
) -> list[Task]:
    """Tasks, newest first, that come before an id in the alphabet; no filter lets all through."""
    chosen: list[ColumnElement[bool]] = []
    if before:
        chosen.append(tasks.c.id < before)
    if states:
        chosen.append(tasks.c.state.in_([state.value for state in states]))
    if project:
        chosen.append(tasks.c.project == project)
    if parent:
        chosen.append(tasks.c.parent_task == parent)
    statement = select(tasks).where(*chosen).order_by(tasks.c.id.desc()).limit(limit)
    return read_tasks(tx, statement)


def newest_in(tx: Transaction, state: TaskState, limit: int) -> list[Task]:
    """The tasks in a state that came last, oldest of them first."""
    chosen = select(tasks).where(tasks.c.state == state.value)
    return read_tasks(tx, chosen.order_by(tasks.c.order.desc()).limit(limit))[::-1]


def titles_of(tx: Transaction, ids: Collection[str]) -> dict[str, str]:
    """What these tasks are called, as far as they exist."""
    found: dict[str, str] = {}
    for batch in batches(sorted(set(ids))):
        chosen = select(tasks.c.id, tasks.c.title).where(tasks.c.id.in_(batch))
        found |= {row.id: row.title for row in tx.execute(chosen)}
    return found
