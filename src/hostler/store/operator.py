"""What people asked for: operator commands, pauses, restarts, audit entries, notifications."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import and_, delete, func, insert, inspect, select, tuple_, update

from hostler.clock import Clock
from hostler.errors import StoreConflict
from hostler.model import RepoName
from hostler.store.engine.backend import Place
from hostler.store.engine.errors import translated
from hostler.store.engine.sqlite import Patience
from hostler.store.schema import (
    audit_entries,
    notices,
    operator_commands,
    pauses,
    runtime_operations,
)
from hostler.store.store import make_backend
from hostler.store.transaction import Transaction, insert_if_new, insert_or_update

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
    return insert_if_new(tx, operator_commands, values, key=("command_key",))


def find_command(tx: Transaction, key: str) -> CommandRow | None:
    """A command by its key."""
    found = (
        tx.execute(select(operator_commands).where(operator_commands.c.command_key == key))
        .mappings()
        .one_or_none()
    )
    return _command_row(dict(found)) if found else None


def commands_in(
    tx: Transaction, repo: RepoName, statuses: Collection[CommandStatus]
) -> list[CommandRow]:
    """A repository's commands in these states, as they were said."""
    chosen = and_(
        operator_commands.c.repo_full_name == str(repo),
        operator_commands.c.status.in_([status.value for status in statuses]),
    )
    order = (
        operator_commands.c.said_at,
        operator_commands.c.comment_id,
        operator_commands.c.command_key,
    )
    return [
        _command_row(dict(r))
        for r in tx.execute(select(operator_commands).where(chosen).order_by(*order)).mappings()
    ]


def change_command(
    tx: Transaction, before: CommandRow, status: CommandStatus, result: str = ""
) -> None:
    """Store what became of a command; refused if somebody else has moved it meanwhile."""
    same = and_(
        operator_commands.c.command_key == before.command_key,
        operator_commands.c.status == before.status.value,
    )
    values = {"status": status.value, "result": result, "updated_at": tx.stamp()}
    if tx.execute(update(operator_commands).where(same).values(values)).rowcount != 1:
        raise StoreConflict(f"The command {before.command_key} is no longer {before.status}.")


def threads_commanded(tx: Transaction, threads: Collection[Thread]) -> set[Thread]:
    """Which of these threads hold a command that has no answer yet."""
    where = (operator_commands.c.repo_full_name, operator_commands.c.thread_number)
    still = operator_commands.c.status.in_([status.value for status in OPEN])
    chosen = select(*where).where(tuple_(*where).in_(list(threads)), still).distinct()
    rows = tx.execute(chosen).mappings()
    return {(row["repo_full_name"], row["thread_number"]) for row in rows}


def remove_commands(tx: Transaction, threads: Collection[Thread]) -> None:
    """Forget the commands of these threads."""
    where = tuple_(operator_commands.c.repo_full_name, operator_commands.c.thread_number)
    tx.execute(delete(operator_commands).where(where.in_(list(threads))))


def _command_row(values: dict[str, Any]) -> CommandRow:
    values["arguments"] = json.loads(values["arguments"])
    values["status"] = CommandStatus(values["status"])
    return CommandRow(**values)


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
    found = (
        tx.execute(select(runtime_operations).where(runtime_operations.c.op_name == name))
        .mappings()
        .one_or_none()
    )
    return _operation(dict(found)) if found else None


def begin_operation(tx: Transaction, wanted: Operation) -> bool:
    """Ask for an operation; whether none of its kind was under way. Scope: operations."""
    known = find_operation(tx, wanted.op_name)
    if known is not None and known.under_way:
        return False
    moments = {"created_at": tx.stamp(), "updated_at": tx.stamp()}
    insert_or_update(
        tx, runtime_operations, asdict(wanted) | {"status": wanted.status.value} | moments
    )
    return True


def change_operation(
    tx: Transaction, before: Operation, status: OperationStatus, detail: str = ""
) -> Operation:
    """Store how far an operation has come; refused if somebody else has moved it meanwhile."""
    same = and_(
        runtime_operations.c.op_name == before.op_name,
        runtime_operations.c.status == before.status.value,
    )
    values = {"status": status.value, "detail": detail, "updated_at": tx.stamp()}
    if tx.execute(update(runtime_operations).where(same).values(values)).rowcount != 1:
        raise StoreConflict(f"The operation {before.op_name} is no longer {before.status}.")
    after = find_operation(tx, before.op_name)
    assert after is not None
    return after


def _operation(values: dict[str, Any]) -> Operation:
    values["status"] = OperationStatus(values["status"])
    return Operation(**values)


# The scope of a pause of all projects.
ALL = "all"


@dataclass(frozen=True, slots=True)
class Pause:
    """One pause."""

    scope: str
    since: str
    by: str
    why: str


def project_scope(project: str) -> str:
    """Return the scope of one project: the id of a repository in the settings."""
    if not project:
        raise ValueError("a project has an id")
    return f"project:{project}"


def project_of(scope: str) -> str:
    """Return the project of a project's scope."""
    return scope.removeprefix("project:")


def pause(tx: Transaction, scope: str, by: str, why: str) -> bool:
    """Pause a scope. Return False if it was paused already: time and reason stay."""
    if not scope:
        raise ValueError("a pause has a scope")
    row = {"scope": scope, "since": tx.stamp(), "by": by, "why": why}
    return insert_if_new(tx, pauses, row, key=("scope",))


def unpause(tx: Transaction, scope: str) -> bool:
    """Remove a pause. Return False if there was none."""
    return tx.execute(delete(pauses).where(pauses.c.scope == scope)).rowcount == 1


def all_pauses(tx: Transaction) -> dict[str, Pause]:
    """Return every pause by its scope."""
    rows = tx.execute(select(pauses)).mappings()
    return {row["scope"]: Pause(**row) for row in rows}


# Only the newest entries are kept: a script may retry a task for ever.
MAX_ENTRIES_PER_TASK = 50


class AuditAction(StrEnum):
    """What a user did with a task."""

    ANSWERED = "answered"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    RESUMED = "resumed"
    RETRIED = "retried"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What a user did with a task, and why. An answer has its question and when it was asked."""

    at: str
    by: str
    what: AuditAction
    text: str = ""
    asked: str = ""
    asked_at: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the entry for JSON output."""
        return asdict(self)


def add_audit_entry(tx: Transaction, task: str, entry: AuditEntry) -> None:
    """Store an audit entry of a task. Scope: tasks."""
    of_task = audit_entries.c.task_id == task
    newest = tx.execute(select(func.max(audit_entries.c.number)).where(of_task)).scalar() or 0
    tx.execute(insert(audit_entries).values(task_id=task, number=newest + 1, **asdict(entry)))
    tx.execute(
        delete(audit_entries).where(
            of_task, audit_entries.c.number <= newest + 1 - MAX_ENTRIES_PER_TASK
        )
    )


def audit_entries_of(tx: Transaction, task: str) -> tuple[AuditEntry, ...]:
    """Return the audit entries of a task, oldest first."""
    names = [audit_entries.c[name] for name in AuditEntry.__dataclass_fields__]
    chosen = select(*names).where(audit_entries.c.task_id == task).order_by(audit_entries.c.number)
    rows = tx.execute(chosen).mappings()
    return tuple(AuditEntry(**{**row, "what": AuditAction(row["what"])}) for row in rows)


def delete_audit_entries(tx: Transaction, tasks: Collection[str]) -> None:
    """Delete the audit entries of tasks that are removed."""
    tx.execute(delete(audit_entries).where(audit_entries.c.task_id.in_(tasks)))


class NoticeState(StrEnum):
    """The delivery state of a notice. `told`: reported elsewhere, so nothing is sent."""

    TOLD = "told"
    QUEUED = "queued"
    SENT = "sent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a user should know, by the key of its cause."""

    key: str
    occasion: str
    title: str = ""
    body: str = ""
    url: str = ""
    state: NoticeState = NoticeState.QUEUED
    attempts: int = 0
    not_before: str = ""
    last_error: str = ""
    created_at: str = ""


def add_notice(tx: Transaction, notice: Notice) -> bool:
    """Store a notice. Return False if its cause is known already."""
    moments = {"created_at": tx.stamp(), "updated_at": tx.stamp()}
    values = asdict(notice) | moments | {"not_before": notice.not_before or tx.stamp()}
    return insert_if_new(tx, notices, values, key=("key",))


def first_time(tx: Transaction, key: str, occasion: str) -> bool:
    """Return True if a cause is reported for the first time."""
    return add_notice(tx, Notice(key, occasion, state=NoticeState.TOLD))


def queued_notices(tx: Transaction) -> list[Notice]:
    """Return the notices to send, the first due first."""
    chosen = select(notices).where(notices.c.state == NoticeState.QUEUED.value)
    rows = tx.execute(chosen.order_by(notices.c.not_before, notices.c.key)).mappings()
    return [_notice(dict(row)) for row in rows]


def known_notices(tx: Transaction, keys: list[str]) -> set[str]:
    """Return the keys that were reported, or are about to be."""
    found = select(notices.c.key).where(notices.c.key.in_(keys))
    return set(tx.execute(found).scalars()) if keys else set()


def change_notice(tx: Transaction, key: str, **values: Any) -> None:
    """Update a notice after an attempt to send it."""
    changed = values | {"updated_at": tx.stamp()}
    tx.execute(update(notices).where(notices.c.key == key).values(changed))


def count_notices(tx: Transaction, state: NoticeState) -> int:
    """Return how many notices are in a state."""
    chosen = select(func.count()).select_from(notices).where(notices.c.state == state.value)
    return int(tx.execute(chosen).scalar_one())


def forget_notices(tx: Transaction, before: str) -> None:
    """Delete notices that were settled before a time."""
    settled = notices.c.state != NoticeState.QUEUED.value
    tx.execute(delete(notices).where(settled, notices.c.updated_at < before))


def _notice(row: dict[str, Any]) -> Notice:
    del row["updated_at"]
    return Notice(**row | {"state": NoticeState(row["state"])})


# Columns are named one by one: a later schema may have more of them.
_STEP = select(runtime_operations.c.status, runtime_operations.c.detail).where(
    runtime_operations.c.op_name == RESTART
)
_RUNNING = and_(
    runtime_operations.c.op_name == RESTART,
    runtime_operations.c.status == OperationStatus.RUNNING.value,
)


def peek_step(place: Place, clock: Clock, patience: Patience) -> Step | None:
    """Return the step of the running restart; None if none runs or it is unknown."""
    backend = make_backend(place, clock, patience)
    try:
        with translated(place, reading=True), backend.reading() as connection:
            if not inspect(connection).has_table(runtime_operations.name):
                return None
            found = connection.execute(_STEP).one_or_none()
            return step_of(found.status, found.detail) if found is not None else None
    finally:
        backend.close()


def leave_step(place: Place, clock: Clock, patience: Patience, step: Step) -> None:
    """Store the step of the running restart, whatever the database's schema revision."""
    backend = make_backend(place, clock, patience)
    try:
        with translated(place), backend.writing(("operations",), relaxed=False) as connection:
            connection.execute(update(runtime_operations).where(_RUNNING).values(detail=step.value))
            backend.before_commit(connection)
            connection.commit()
    finally:
        backend.close()
