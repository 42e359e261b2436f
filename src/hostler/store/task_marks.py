"""What shows that a task has changed, without reading the task."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, func, or_, select

from hostler.store.task_tables import tasks
from hostler.store.tasks import OVER, Task, TaskState, read_tasks
from hostler.store.transaction import Transaction, batches

UNFINISHED = tuple(state.value for state in TaskState if state not in OVER)


@dataclass(frozen=True, slots=True)
class Marks:
    """Tasks by id, each with a mark that every change of it changes; `order`: the newest place."""

    tasks: dict[str, tuple[str, ...]]
    order: int


def marks_of(tx: Transaction, behind: int) -> Marks:
    """All that is unfinished, and whatever came behind a place, finished or not."""
    table = tasks.c
    columns = (table.id, table.order, table.state, table.updated_at, table.gate, table.gate_since)
    over = [state.value for state in OVER]
    chosen = or_(table.state.in_(UNFINISHED), and_(table.state.in_(over), table.order > behind))
    rows: list[Any] = list(tx.execute(select(*columns).where(chosen)).all())
    marks = {row[0]: tuple(str(part) for part in row[2:]) for row in rows}
    # Whatever is newer than that place is among them.
    return Marks(marks, max((behind, *(int(row[1]) for row in rows))))


def newest_order(tx: Transaction) -> int:
    """The place of the newest task; 0 where there is none."""
    return int(tx.execute(select(func.coalesce(func.max(tasks.c.order), 0))).scalar_one())


def tasks_by_id(tx: Transaction, ids: Collection[str]) -> dict[str, Task]:
    """These tasks, as far as they exist."""
    found: list[Task] = []
    for batch in batches(sorted(set(ids))):
        found += read_tasks(tx, select(tasks).where(tasks.c.id.in_(batch)))
    return {task.id: task for task in found}
