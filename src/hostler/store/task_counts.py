"""How many tasks are in which state, and whose are held by a gate: without reading the tasks."""

from __future__ import annotations

from sqlalchemy import func, select

from hostler.store.task_tables import tasks
from hostler.store.tasks import WAITING, TaskState
from hostler.store.transaction import Transaction


def count_states(tx: Transaction) -> dict[TaskState, int]:
    """Counts by state, in the order of states; those without any task are left out."""
    counted = select(tasks.c.state, func.count().label("number")).group_by(tasks.c.state)
    found = {row["state"]: int(row["number"]) for row in tx.execute(counted).mappings()}
    return {state: found[state] for state in TaskState if state in found}


def newest_change(tx: Transaction) -> str:
    """When a task was last changed; empty without tasks."""
    return str(tx.execute(select(func.max(tasks.c.updated_at))).scalar() or "")


def projects_held(tx: Transaction, gate: str, since: str) -> frozenset[str]:
    """Projects with tasks of which it was noted, since a moment, that this gate holds them."""
    held = (
        tasks.c.state.in_([state.value for state in WAITING]),
        tasks.c.gate == gate,
        tasks.c.gate_since >= since,
    )
    return frozenset(tx.execute(select(tasks.c.project).where(*held).distinct()).scalars())
