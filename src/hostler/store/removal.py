"""Taking a task out of the database, with everything that is its own."""

from __future__ import annotations

from sqlalchemy import delete

from hostler.store.deeds import forget_deeds
from hostler.store.run_tables import runs
from hostler.store.runs import open_runs
from hostler.store.task_tables import tasks
from hostler.store.transaction import Transaction


def remove_task(tx: Transaction, task: str) -> bool:
    """Remove a task and its runs; whether it was removed. One with an open run stays."""
    if open_runs(tx, task_id=task):
        return False
    tx.execute(delete(runs).where(runs.c.task_id == task))
    forget_deeds(tx, [task])
    return tx.execute(delete(tasks).where(tasks.c.id == task)).rowcount == 1
