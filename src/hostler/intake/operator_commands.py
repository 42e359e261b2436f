"""Authorise operator commands, store them, and reply to each exactly once."""

from __future__ import annotations

from datetime import timedelta

from hostler.forge.actions import CreateComment, find_tokens, sanitize_text
from hostler.forge.outbox.queue import build_token, enqueue_action
from hostler.intake.model import (
    CommentEvent,
    IntakeDecision,
    RefuseCommand,
    StoreCommand,
    ThreadState,
)
from hostler.intake.operator_syntax import UNKNOWN_VERB, InvalidCommand, ParsedCommand, command_key
from hostler.intake.repo_policy import RepoPolicy, is_bot
from hostler.model import parse_timestamp
from hostler.store.inbox import supersede
from hostler.store.operator import CommandRow, CommandStatus, add_command, change_command
from hostler.store.outbox import Lane
from hostler.store.transaction import Transaction, normal_stamp
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import OPERATOR_COMMANDS_APPLIED, OPERATOR_COMMANDS_SEEN

# The longest usual pause between two looks.
GRACE_BEFORE_TASK = timedelta(minutes=10)


def decide_on_command(
    said: CommentEvent,
    asked: ParsedCommand | InvalidCommand,
    known: ThreadState,
    policy: RepoPolicy,
) -> IntakeDecision:
    """What one version of a comment with a command in it causes."""
    who, number = said.row.author, said.row.scope_number
    if is_bot(who):
        return IntakeDecision(f"{who} is a bot, and bots give no commands.")
    if find_tokens(said.body):
        return IntakeDecision("It carries a mark of ours: what we write is no command.")
    if said.is_empty:
        return IntakeDecision("It asks for nothing.")
    tracked = bool(known.tasks) or known.pull is not None
    if not tracked and number != policy.operations_issue:
        if known.opening:
            return IntakeDecision(
                "A pull request is just being opened; it may be there.", waits=True
            )
        return IntakeDecision("Commands count on the threads of tasks and on the operations issue.")
    if tracked and _is_before_task(said, known):
        return IntakeDecision("It was said before there was a task here, and is history.")
    if not tracked and not known.operations_begun:
        return IntakeDecision("The operations issue was not read whole yet.", waits=True)
    if not policy.is_operator(who):
        return IntakeDecision(f"{who} is not among operator_logins.", (RefuseCommand(said, asked),))
    return IntakeDecision(f"{who} gives a command.", (StoreCommand(said, asked),))


def _is_before_task(said: CommentEvent, known: ThreadState) -> bool:
    """Whether something was said long before the thread was followed.

    A scan that reads threads whole shows what people once commanded elsewhere. Shortly before
    counts: who labels an issue and commands at once may be faster than we are.
    """
    tasks = known.tasks or ((known.pull_task,) if known.pull_task else ())
    begun = min((task.created_at for task in tasks if task.created_at), default="")
    if not begun:
        return False
    return (
        parse_timestamp(normal_stamp(said.row.updated_at))
        < parse_timestamp(begun) - GRACE_BEFORE_TASK
    )


COMMAND_SOURCE = "operator_command"
MAX_REPLY_LENGTH = 16_000


def reply_to_command(
    tx: Transaction, command: CommandRow, status: CommandStatus, text: str
) -> None:
    """Settle a command and queue its one reply. Scope: outbox."""
    said = sanitize_text(text).strip()[:MAX_REPLY_LENGTH]
    change_command(tx, command, status, said)
    enqueue_action(
        tx,
        command.repo,
        CreateComment(command.thread_number, f"@{command.actor}: {said}"),
        token=reply_token(command.command_key),
        lane=Lane.OPERATOR,
        source=COMMAND_SOURCE,
    )
    if status is CommandStatus.APPLIED:
        tx.after_commit(lambda: metrics.count(OPERATOR_COMMANDS_APPLIED, verb=command.verb))


def reply_token(command_key: str) -> str:
    """One reply per command, whoever makes it."""
    return build_token("command", command_key)


NOT_OPERATOR_REPLY = (
    "@{who}: thank you, but only operators of this repository can give me commands. \
What you would like can be said in plain words, and they will see it."
)
NOT_OPERATOR_RESULT = "Not an operator."


def store_command(tx: Transaction, policy: RepoPolicy, note: StoreCommand) -> None:
    """Keep a command until it is carried out; one that was not understood is answered at once."""
    row = _command_row(policy, note)
    if _add_command(tx, policy, note, row) and not isinstance(note.asked, ParsedCommand):
        reply_to_command(tx, row, CommandStatus.REFUSED, f"{note.asked.why} Nothing was done.")


def refuse_command(tx: Transaction, policy: RepoPolicy, refuse: RefuseCommand) -> None:
    """Say once on a thread that not everybody gives commands."""
    row = _command_row(policy, refuse, CommandStatus.REFUSED, NOT_OPERATOR_RESULT)
    if not _add_command(tx, policy, refuse, row):
        return
    enqueue_action(
        tx,
        policy.repo,
        CreateComment(row.thread_number, NOT_OPERATOR_REPLY.format(who=row.actor)),
        token=refusal_token(row.thread_number),
        lane=Lane.STATUS,
        source=COMMAND_SOURCE,
    )


def refusal_token(thread: int) -> str:
    """One refusal per thread, whoever asks."""
    return build_token("no-operator", thread)


def _add_command(
    tx: Transaction, policy: RepoPolicy, of: StoreCommand | RefuseCommand, row: CommandRow
) -> bool:
    said = of.remark.row
    # Words that were changed into a command are not meant any more.
    supersede(tx, policy.repo, said.kind, said.object_id, said.event_key)
    new = add_command(tx, row)
    if new:
        tx.after_commit(lambda: metrics.count(OPERATOR_COMMANDS_SEEN, verb=row.verb))
    return new


def _command_row(
    policy: RepoPolicy,
    of: StoreCommand | RefuseCommand,
    status: CommandStatus = CommandStatus.SEEN,
    result: str = "",
) -> CommandRow:
    said, asked = of.remark.row, of.asked
    verb, arguments = (
        (asked.verb, asked.arguments) if isinstance(asked, ParsedCommand) else (UNKNOWN_VERB, {})
    )
    return CommandRow(
        command_key=command_key(policy.repo, said.event_key),
        repo_full_name=str(policy.repo),
        thread_number=said.scope_number,
        comment_id=said.object_id,
        actor=said.author,
        verb=verb,
        arguments=arguments,
        said_at=said.updated_at,
        status=status,
        result=result,
    )
