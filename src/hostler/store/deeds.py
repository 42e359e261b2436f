"""Rows of what people did with tasks: who, when, and in which words."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import delete, func, insert, select

from hostler.store.deed_tables import deeds
from hostler.store.transaction import Transaction

# So many of a task are kept, the newest; a script may retry one for ever.
KEPT = 50


class What(StrEnum):
    """What somebody did."""

    ANSWERED = "answered"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    RESUMED = "resumed"
    RETRIED = "retried"


@dataclass(frozen=True, slots=True)
class Deed:
    """What somebody did, and why; an answer has its question, and since when that was asked."""

    at: str
    by: str
    what: What
    text: str = ""
    asked: str = ""
    asked_at: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def add_deed(tx: Transaction, task: str, deed: Deed) -> None:
    """Note what was done with a task, behind what was done before. Scope: tasks."""
    of_task = deeds.c.task_id == task
    newest = tx.execute(select(func.max(deeds.c.number)).where(of_task)).scalar() or 0
    tx.execute(insert(deeds).values(task_id=task, number=newest + 1, **asdict(deed)))
    tx.execute(delete(deeds).where(of_task, deeds.c.number <= newest + 1 - KEPT))


def deeds_of(tx: Transaction, task: str) -> tuple[Deed, ...]:
    """What was done with a task, oldest first."""
    names = [deeds.c[name] for name in Deed.__dataclass_fields__]
    chosen = select(*names).where(deeds.c.task_id == task).order_by(deeds.c.number)
    rows = tx.execute(chosen).mappings()
    return tuple(Deed(**{**row, "what": What(row["what"])}) for row in rows)


def forget_deeds(tx: Transaction, tasks: Collection[str]) -> None:
    """Those of tasks that are removed."""
    tx.execute(delete(deeds).where(deeds.c.task_id.in_(tasks)))
