"""Runs that began before a moment, page by page, with what matters of their tasks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, func, select

from hostler.store.run_tables import runs
from hostler.store.runs import RunState
from hostler.store.task_tables import tasks
from hostler.store.tasks import TaskState
from hostler.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class OldRun:
    """One run; without a task, where that is gone."""

    run: str
    task_id: str
    folder: str
    state: RunState
    admitted_at: str
    ended_at: str | None
    newest: bool
    task_state: TaskState | None
    task_since: str | None


def runs_before(tx: Transaction, moment: str, after: str, most: int) -> list[OldRun]:
    """The next runs by name that were admitted before a moment."""
    return _runs(tx, and_(runs.c.run > after, runs.c.admitted_at < moment), most)


def runs_named(tx: Transaction, names: Collection[str]) -> list[OldRun]:
    """These runs, as far as they exist."""
    return _runs(tx, runs.c.run.in_(list(names)), len(names))


def _runs(tx: Transaction, chosen: ColumnElement[bool], most: int) -> list[OldRun]:
    other = runs.alias("other")
    newest = select(func.max(other.c.fence)).where(other.c.task_id == runs.c.task_id)
    statement = (
        select(
            runs.c.run,
            runs.c.task_id,
            runs.c.folder,
            runs.c.state,
            runs.c.admitted_at,
            runs.c.ended_at,
            (runs.c.fence == newest.scalar_subquery()).label("newest"),
            tasks.c.state.label("task_state"),
            tasks.c.state_since.label("task_since"),
        )
        .select_from(runs.outerjoin(tasks, tasks.c.id == runs.c.task_id))
        .where(chosen)
        .order_by(runs.c.run)
        .limit(most)
    )
    return [_run(dict(row)) for row in tx.execute(statement).mappings()]


def _run(row: dict[str, Any]) -> OldRun:
    state = row["task_state"]
    changed = {
        "state": RunState(row["state"]),
        "newest": bool(row["newest"]),
        "task_state": TaskState(state) if state else None,
    }
    return OldRun(**row | changed)
