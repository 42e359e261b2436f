"""How many rows each table has, and in which states: numbers alone, for support."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select

from hostler.store.forge_tables import outbox
from hostler.store.metadata import metadata
from hostler.store.run_tables import runs
from hostler.store.task_tables import tasks
from hostler.store.transaction import Transaction


def census(tx: Transaction) -> dict[str, Any]:
    """Counts of rows, of tasks by state and gate, of runs by state and outcome, of writes."""
    tables = {
        table.name: int(tx.execute(select(func.count()).select_from(table)).scalar_one())
        for table in metadata.sorted_tables
    }
    groups = {
        "tasks_by_state": tasks.c.state,
        "tasks_by_gate": tasks.c.gate,
        "runs_by_state": runs.c.state,
        "runs_by_outcome": runs.c.outcome,
        "writes_by_state": outbox.c.state,
    }
    counted = {}
    for name, column in groups.items():
        rows: list[Any] = list(tx.execute(select(column, func.count()).group_by(column)).all())
        counted[name] = {str(value or "none"): int(count) for value, count in rows}
    return {"rows": tables, **counted}
