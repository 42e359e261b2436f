"""The one answer to an operator's command, stored together with what became of it."""

from __future__ import annotations

from hostler.forge.deeds import Comment
from hostler.forge.markers import clean
from hostler.forge.outbox import enqueue, token_of
from hostler.store.operator import CommandRow, CommandStatus, change_command
from hostler.store.outbox import Lane
from hostler.store.transaction import Transaction
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import OPERATOR_COMMANDS_APPLIED

SOURCE = "operator_command"
LONGEST_ANSWER = 16_000


def answer(tx: Transaction, command: CommandRow, status: CommandStatus, text: str) -> None:
    """Settle a command and queue its one reply. Scope: outbox."""
    said = clean(text).strip()[:LONGEST_ANSWER]
    change_command(tx, command, status, said)
    enqueue(
        tx,
        command.repo,
        Comment(command.thread_number, f"@{command.actor}: {said}"),
        token=reply_token(command.command_key),
        lane=Lane.OPERATOR,
        source=SOURCE,
    )
    if status is CommandStatus.APPLIED:
        tx.after_commit(lambda: metrics.count(OPERATOR_COMMANDS_APPLIED, verb=command.verb))


def reply_token(command_key: str) -> str:
    """One reply per command, whoever makes it."""
    return token_of("command", command_key)
