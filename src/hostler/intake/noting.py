"""Commands become rows, in the transaction that consumes their event."""

from __future__ import annotations

from hostler.forge.deeds import Comment
from hostler.forge.outbox import enqueue, token_of
from hostler.intake.answering import SOURCE, answer
from hostler.intake.effects import Note, Refuse
from hostler.intake.operator import UNKNOWN, Asked, command_key
from hostler.intake.people import Watch
from hostler.store.inbox import supersede
from hostler.store.operator import CommandRow, CommandStatus, add_command
from hostler.store.outbox import Lane
from hostler.store.transaction import Transaction
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import OPERATOR_COMMANDS_SEEN

NOT_YOURS = "@{who}: thank you, but only operators of this repository can give me commands. \
What you would like can be said in plain words, and they will see it."
REFUSED = "Not an operator."


def note_command(tx: Transaction, watch: Watch, note: Note) -> None:
    """Keep a command until it is carried out; one that was not understood is answered at once."""
    row = _row(watch, note)
    if _added(tx, watch, note, row) and not isinstance(note.asked, Asked):
        answer(tx, row, CommandStatus.REFUSED, f"{note.asked.why} Nothing was done.")


def refuse_command(tx: Transaction, watch: Watch, refuse: Refuse) -> None:
    """Say once on a thread that not everybody gives commands."""
    row = _row(watch, refuse, CommandStatus.REFUSED, REFUSED)
    if not _added(tx, watch, refuse, row):
        return
    enqueue(
        tx,
        watch.repo,
        Comment(row.thread_number, NOT_YOURS.format(who=row.actor)),
        token=refusal_token(row.thread_number),
        lane=Lane.STATUS,
        source=SOURCE,
    )


def refusal_token(thread: int) -> str:
    """One refusal per thread, whoever asks."""
    return token_of("no-operator", thread)


def _added(tx: Transaction, watch: Watch, of: Note | Refuse, row: CommandRow) -> bool:
    said = of.remark.row
    # Words that were changed into a command are not meant any more.
    supersede(tx, watch.repo, said.kind, said.object_id, said.event_key)
    new = add_command(tx, row)
    if new:
        tx.after_commit(lambda: metrics.count(OPERATOR_COMMANDS_SEEN, verb=row.verb))
    return new


def _row(
    watch: Watch,
    of: Note | Refuse,
    status: CommandStatus = CommandStatus.SEEN,
    result: str = "",
) -> CommandRow:
    said, asked = of.remark.row, of.asked
    verb, arguments = (asked.verb, asked.arguments) if isinstance(asked, Asked) else (UNKNOWN, {})
    return CommandRow(
        command_key=command_key(watch.repo, said.event_key),
        repo_full_name=str(watch.repo),
        thread_number=said.scope_number,
        comment_id=said.object_id,
        actor=said.author,
        verb=verb,
        arguments=arguments,
        said_at=said.updated_at,
        status=status,
        result=result,
    )
