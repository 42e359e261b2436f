"""Tasks by hand, by a few columns: who they are, and where their folders are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, exists, select

from hostler.store.task_tables import tasks
from hostler.store.tasks import TaskState
from hostler.store.transaction import Transaction, batches


@dataclass(frozen=True, slots=True)
class HandTask:
    """A task that no issue asked for."""

    id: str
    project: str
    on_repository: bool


def any_by_hand(tx: Transaction, states: Collection[TaskState]) -> bool:
    """Whether there is a task by hand in one of these states."""
    return bool(tx.execute(select(exists().where(_in(states)))).scalar_one())


def by_hand(tx: Transaction, states: Collection[TaskState]) -> list[HandTask]:
    """The tasks by hand in these states, in their order."""
    return _many(tx, _in(states))


def by_hand_named(
    tx: Transaction, names: Collection[str], states: Collection[TaskState]
) -> list[HandTask]:
    """Those among these names that are tasks by hand in one of these states."""
    found = (
        _many(tx, and_(tasks.c.id.in_(batch), _in(states))) for batch in batches(sorted(names))
    )
    return [one for group in found for one in group]


def _in(states: Collection[TaskState]) -> ColumnElement[bool]:
    return and_(
        tasks.c.state.in_([state.value for state in states]),
        tasks.c.issue_number.is_(None),
    )


def _many(tx: Transaction, chosen: ColumnElement[bool]) -> list[HandTask]:
    columns = (tasks.c.id, tasks.c.project, tasks.c.repo_full_name)
    rows = tx.execute(select(*columns).where(chosen).order_by(tasks.c.order, tasks.c.id))
    return [HandTask(row.id, row.project, row.repo_full_name is not None) for row in rows]
