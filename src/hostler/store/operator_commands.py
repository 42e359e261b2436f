"""Rows of operator commands: who asked for what, where, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import and_, delete, select, tuple_, update

from hostler.errors import StoreConflict
from hostler.model import RepoName
from hostler.store.operator_tables import operator_commands as table
from hostler.store.transaction import Transaction
from hostler.store.upserts import insert_if_new

# A repository, and the number of an issue or pull request.
Thread = tuple[str, int]


class CommandStatus(StrEnum):
    """How far a command has come."""

    SEEN = "seen"
    WAITING = "waiting"
    APPLIED = "applied"
    FAILED = "failed"
    REFUSED = "refused"


# Something is still to be done, or to be said.
OPEN = (CommandStatus.SEEN, CommandStatus.WAITING)


@dataclass(frozen=True, slots=True)
class CommandRow:
    """One command. `thread_number` is the issue or pull request where it was said."""

    command_key: str
    repo_full_name: str
    thread_number: int
    comment_id: int
    actor: str
    verb: str
    said_at: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    status: CommandStatus = CommandStatus.SEEN
    result: str = ""
    created_at: str = ""
    updated_at: str = ""

    @property
    def repo(self) -> RepoName:
        """Whose thread it was said on."""
        return RepoName.parse(self.repo_full_name)

    @property
    def open(self) -> bool:
        """Whether it has no answer yet."""
        return self.status in OPEN


def add_command(tx: Transaction, row: CommandRow) -> bool:
    """Note a command; whether it was new. One that is known stays as it is."""
    values = {
        "command_key": row.command_key,
        "repo_full_name": row.repo_full_name,
        "thread_number": row.thread_number,
        "comment_id": row.comment_id,
        "actor": row.actor,
        "verb": row.verb,
        "arguments": json.dumps(dict(row.arguments), sort_keys=True),
        "status": row.status.value,
        "result": row.result,
        "said_at": row.said_at,
        "created_at": tx.stamp(),
        "updated_at": tx.stamp(),
    }
    return insert_if_new(tx, table, values, key=("command_key",))


def find_command(tx: Transaction, key: str) -> CommandRow | None:
    """A command by its key."""
    found = tx.execute(select(table).where(table.c.command_key == key)).mappings().one_or_none()
    return _row(dict(found)) if found else None


def commands_in(
    tx: Transaction, repo: RepoName, statuses: Collection[CommandStatus]
) -> list[CommandRow]:
    """A repository's commands in these states, as they were said."""
    chosen = and_(
        table.c.repo_full_name == str(repo),
        table.c.status.in_([status.value for status in statuses]),
    )
    order = (table.c.said_at, table.c.comment_id, table.c.command_key)
    return [
        _row(dict(r)) for r in tx.execute(select(table).where(chosen).order_by(*order)).mappings()
    ]


def change_command(
    tx: Transaction, before: CommandRow, status: CommandStatus, result: str = ""
) -> None:
    """Store what became of a command; refused if somebody else has moved it meanwhile."""
    same = and_(table.c.command_key == before.command_key, table.c.status == before.status.value)
    values = {"status": status.value, "result": result, "updated_at": tx.stamp()}
    if tx.execute(update(table).where(same).values(values)).rowcount != 1:
        raise StoreConflict(f"The command {before.command_key} is no longer {before.status}.")


def threads_commanded(tx: Transaction, threads: Collection[Thread]) -> set[Thread]:
    """Which of these threads hold a command that has no answer yet."""
    where = (table.c.repo_full_name, table.c.thread_number)
    still = table.c.status.in_([status.value for status in OPEN])
    chosen = select(*where).where(tuple_(*where).in_(list(threads)), still).distinct()
    rows = tx.execute(chosen).mappings()
    return {(row["repo_full_name"], row["thread_number"]) for row in rows}


def remove_commands(tx: Transaction, threads: Collection[Thread]) -> None:
    """Forget the commands of these threads."""
    where = tuple_(table.c.repo_full_name, table.c.thread_number)
    tx.execute(delete(table).where(where.in_(list(threads))))


def _row(values: dict[str, Any]) -> CommandRow:
    values["arguments"] = json.loads(values["arguments"])
    values["status"] = CommandStatus(values["status"])
    return CommandRow(**values)
