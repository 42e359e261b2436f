"""A restart of the service: asked for once, carried out by the service, answered once.

```
(none) ── request ──▶ pending ── start ──▶ running ── finish ──▶ done | failed ── request ──▶ …
                                          step ↺
```
"""

from __future__ import annotations

from hostler.forge.outbox.sender import SCOPE as OUTBOX
from hostler.intake.answering import answer
from hostler.store.operator import (
    RESTART,
    CommandRow,
    CommandStatus,
    Operation,
    OperationStatus,
    Step,
    begin_operation,
    change_operation,
    find_command,
    find_operation,
)
from hostler.store.transaction import Transaction

# Whoever asks for, starts or finishes an operation names these.
SCOPES = ("operations", OUTBOX)


def request_restart(tx: Transaction, by: str, command: CommandRow | None = None) -> bool:
    """Ask for a restart, on behalf of a command if there is one; False: one is under way."""
    wanted = Operation(
        RESTART,
        requested_by=by,
        command_key=command.command_key if command else None,
        repo_full_name=command.repo_full_name if command else None,
    )
    return begin_operation(tx, wanted)


def current_operation(tx: Transaction) -> Operation | None:
    """The restart that was asked for and is not over, if there is one."""
    found = find_operation(tx, RESTART)
    return found if found is not None and found.under_way else None


def start_operation(tx: Transaction) -> Operation | None:
    """The restart that is asked for begins now; None if none is, or it has begun already."""
    found = current_operation(tx)
    if found is None or found.status is not OperationStatus.PENDING:
        return None
    return change_operation(tx, found, OperationStatus.RUNNING)


def note_step(tx: Transaction, step: Step) -> Operation | None:
    """The restart that runs begins this now; None if none runs."""
    found = current_operation(tx)
    if found is None or found.status is not OperationStatus.RUNNING:
        return None
    return change_operation(tx, found, OperationStatus.RUNNING, step)


def finish_operation(tx: Transaction, ok: bool, detail: str = "") -> Operation | None:
    """The restart is over, and whoever asked for it is told; None if none was under way."""
    found = current_operation(tx)
    if found is None:
        return None
    status = OperationStatus.DONE if ok else OperationStatus.FAILED
    over = change_operation(tx, found, status, detail)
    command = find_command(tx, over.command_key) if over.command_key else None
    if command is not None and command.open:
        became = CommandStatus.APPLIED if ok else CommandStatus.FAILED
        answer(tx, command, became, _words(ok, detail))
    return over


def _words(ok: bool, detail: str) -> str:
    if ok:
        return f"Restarted. {detail}".strip()
    return f"The restart failed: {detail or 'no reason is known.'}"
