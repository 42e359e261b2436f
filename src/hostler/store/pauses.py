"""Rows of pauses: what people held back, since when, and why."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, select

from hostler.store.pause_tables import pauses as table
from hostler.store.transaction import Transaction
from hostler.store.upserts import insert_if_new

# Everything, whatever its project.
ALL = "all"


@dataclass(frozen=True, slots=True)
class Pause:
    """One pause. `since` is a stamp."""

    scope: str
    since: str
    by: str
    why: str


def project_scope(project: str) -> str:
    """The scope of one project: the id of a repository in the settings."""
    if not project:
        raise ValueError("a project has an id")
    return f"project:{project}"


def project_of(scope: str) -> str:
    """The project of a scope that is one project's."""
    return scope.removeprefix("project:")


def pause(tx: Transaction, scope: str, by: str, why: str) -> bool:
    """Hold a scope back; whether that is new. A pause in force keeps its moment and reason."""
    if not scope:
        raise ValueError("a pause has a scope")
    row = {"scope": scope, "since": tx.stamp(), "by": by, "why": why}
    return insert_if_new(tx, table, row, key=("scope",))


def unpause(tx: Transaction, scope: str) -> bool:
    """Let a scope go on; whether it was paused."""
    return tx.execute(delete(table).where(table.c.scope == scope)).rowcount == 1


def pauses(tx: Transaction) -> dict[str, Pause]:
    """Every pause in force, by its scope."""
    rows = tx.execute(select(table)).mappings()
    return {row["scope"]: Pause(**row) for row in rows}
