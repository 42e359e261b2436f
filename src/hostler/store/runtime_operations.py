"""Rows of what is to be done with the service as a whole: at most one of each kind at a time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import and_, select, update

from hostler.errors import StoreConflict
from hostler.store.operator_tables import runtime_operations as table
from hostler.store.transaction import Transaction
from hostler.store.upserts import insert_or_update

RESTART = "restart"


class OperationStatus(StrEnum):
    """How far an operation has come."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class Step(StrEnum):
    """What a running restart has begun last. It is the row's detail until the end has one."""

    LOOK = "look"
    READY = "ready"
    UPDATE = "update"
    UPDATED = "updated"
    ROLLBACK = "rollback"
    UNFIT = "unfit"


UNDER_WAY = (OperationStatus.PENDING, OperationStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. Without a `command_key`, nobody on GitHub waits for its end."""

    op_name: str
    requested_by: str
    command_key: str | None = None
    repo_full_name: str | None = None
    status: OperationStatus = OperationStatus.PENDING
    detail: str = ""
    created_at: str = ""
    updated_at: str = ""

    @property
    def under_way(self) -> bool:
        """Whether it was asked for and is not over."""
        return self.status in UNDER_WAY

    @property
    def step(self) -> Step | None:
        """What was begun last; None before the first step, and after the end."""
        return step_of(self.status, self.detail)


def step_of(status: str, detail: str) -> Step | None:
    """The step that a row names, whoever wrote it."""
    named = status == OperationStatus.RUNNING and detail in frozenset(Step)
    return Step(detail) if named else None


def find_operation(tx: Transaction, name: str) -> Operation | None:
    """The last operation of a kind, whatever became of it."""
    found = tx.execute(select(table).where(table.c.op_name == name)).mappings().one_or_none()
    return _row(dict(found)) if found else None


def begin_operation(tx: Transaction, wanted: Operation) -> bool:
    """Ask for an operation; whether none of its kind was under way. Scope: operations."""
    known = find_operation(tx, wanted.op_name)
    if known is not None and known.under_way:
        return False
    moments = {"created_at": tx.stamp(), "updated_at": tx.stamp()}
    insert_or_update(tx, table, asdict(wanted) | {"status": wanted.status.value} | moments)
    return True


def change_operation(
    tx: Transaction, before: Operation, status: OperationStatus, detail: str = ""
) -> Operation:
    """Store how far an operation has come; refused if somebody else has moved it meanwhile."""
    same = and_(table.c.op_name == before.op_name, table.c.status == before.status.value)
    values = {"status": status.value, "detail": detail, "updated_at": tx.stamp()}
    if tx.execute(update(table).where(same).values(values)).rowcount != 1:
        raise StoreConflict(f"The operation {before.op_name} is no longer {before.status}.")
    after = find_operation(tx, before.op_name)
    assert after is not None
    return after


def _row(values: dict[str, Any]) -> Operation:
    values["status"] = OperationStatus(values["status"])
    return Operation(**values)
