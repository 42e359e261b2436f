"""What is told of tasks, as bare rows: to see which have changed, not all need to be read whole."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, select

from hostler.store.task_tables import tasks
from hostler.store.tasks import TaskState
from hostler.store.transaction import Transaction

Outline = tuple[Any, ...]

_TOLD = (tasks.c.state, tasks.c.reason, tasks.c.question, tasks.c.pr_number)
_WHOSE = (tasks.c.repo_full_name, tasks.c.issue_number, tasks.c.flow)


def outlines_in(tx: Transaction, states: Collection[TaskState]) -> dict[str, Outline]:
    """By name, what is told of the tasks in any of these states."""
    return _outlines(tx, tasks.c.state.in_([state.value for state in states]))


def outlines_of(tx: Transaction, names: Collection[str]) -> dict[str, Outline]:
    """The same of those that are named, as far as they exist."""
    return _outlines(tx, tasks.c.id.in_(names)) if names else {}


def _outlines(tx: Transaction, chosen: ColumnElement[bool]) -> dict[str, Outline]:
    rows = tx.execute(select(tasks.c.id, *_TOLD, *_WHOSE).where(chosen))
    return {row[0]: tuple(row[1:]) for row in rows}
