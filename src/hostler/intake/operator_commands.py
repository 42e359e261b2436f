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

# The longest usual time between two polls.
GRACE_BEFORE_TASK = timedelta(minutes=10)


def decide_on_command(
    comment: CommentEvent,
    command: ParsedCommand | InvalidCommand,
    thread: ThreadState,
    policy: RepoPolicy,
) -> IntakeDecision:
    """Return what one version of a comment with a command causes."""
    who, number = comment.row.author, comment.row.scope_number
    if is_bot(who):
        return IntakeDecision(f"{who} is a bot, and bots cannot give commands.")
    if find_tokens(comment.body):
        return IntakeDecision("Hostler wrote it, so it is not a command.")
    if comment.is_empty:
        return IntakeDecision("It asks for nothing.")
    tracked = bool(thread.tasks) or thread.pull is not None
    if not tracked and number != policy.operations_issue:
        if thread.pull_opening:
            return IntakeDecision(
                "A pull request is being opened; it may belong to it.", waits=True
            )
        return IntakeDecision("Commands count only on threads of tasks and the operations issue.")
    if tracked and _is_before_task(comment, thread):
        return IntakeDecision("It was made before this thread had a task.")
    if not tracked and not thread.operations_begun:
        return IntakeDecision("The operations issue was not read completely yet.", waits=True)
    if not policy.is_operator(who):
        return IntakeDecision(
            f"{who} is not one of operator_logins.", (RefuseCommand(comment, command),)
        )
    return IntakeDecision(f"{who} gives a command.", (StoreCommand(comment, command),))


def _is_before_task(comment: CommentEvent, thread: ThreadState) -> bool:
    """Return whether a comment was made long before its task existed.

    The first poll of a thread reads old comments, whose commands must not be carried out. A short
    time before the task counts: an operator can set the label and comment before the next poll.
    """
    tasks = thread.tasks or ((thread.pull_task,) if thread.pull_task else ())
    created = min((task.created_at for task in tasks if task.created_at), default="")
    if not created:
        return False
    return (
        parse_timestamp(normal_stamp(comment.row.updated_at))
        < parse_timestamp(created) - GRACE_BEFORE_TASK
    )


COMMAND_SOURCE = "operator_command"
MAX_REPLY_LENGTH = 16_000


def reply_to_command(
    tx: Transaction, command: CommandRow, status: CommandStatus, text: str
) -> None:
    """Set a command's status and queue its one reply. Scope: outbox."""
    reply = sanitize_text(text).strip()[:MAX_REPLY_LENGTH]
    change_command(tx, command, status, reply)
    enqueue_action(
        tx,
        command.repo,
        CreateComment(command.thread_number, f"@{command.actor}: {reply}"),
        token=reply_token(command.command_key),
        lane=Lane.OPERATOR,
        source=COMMAND_SOURCE,
    )
    if status is CommandStatus.APPLIED:
        tx.after_commit(lambda: metrics.count(OPERATOR_COMMANDS_APPLIED, verb=command.verb))


def reply_token(command_key: str) -> str:
    """Return the token of a command's reply: one per command."""
    return build_token("command", command_key)


NOT_OPERATOR_REPLY = (
    "@{who}: only operators of this repository can use commands. You can describe what you need "
    "in a comment instead; they will see it."
)
NOT_OPERATOR_RESULT = "Not an operator."


def store_command(tx: Transaction, policy: RepoPolicy, effect: StoreCommand) -> None:
    """Store a command until it is carried out; reply at once to an invalid one."""
    row = _command_row(policy, effect)
    if _add_command(tx, policy, effect, row) and not isinstance(effect.command, ParsedCommand):
        reply_to_command(tx, row, CommandStatus.REFUSED, f"{effect.command.why} Nothing was done.")


def refuse_command(tx: Transaction, policy: RepoPolicy, effect: RefuseCommand) -> None:
    """Reply once per thread that only operators can give commands."""
    row = _command_row(policy, effect, CommandStatus.REFUSED, NOT_OPERATOR_RESULT)
    if not _add_command(tx, policy, effect, row):
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
    """Return the token of the refusal: one per thread."""
    return build_token("no-operator", thread)


def _add_command(
    tx: Transaction, policy: RepoPolicy, effect: StoreCommand | RefuseCommand, row: CommandRow
) -> bool:
    comment = effect.comment.row
    # A comment that was edited into a command no longer counts as feedback.
    supersede(tx, policy.repo, comment.kind, comment.object_id, comment.event_key)
    new = add_command(tx, row)
    if new:
        tx.after_commit(lambda: metrics.count(OPERATOR_COMMANDS_SEEN, verb=row.verb))
    return new


def _command_row(
    policy: RepoPolicy,
    effect: StoreCommand | RefuseCommand,
    status: CommandStatus = CommandStatus.SEEN,
    result: str = "",
) -> CommandRow:
    comment, command = effect.comment.row, effect.command
    verb, arguments = (
        (command.verb, command.arguments)
        if isinstance(command, ParsedCommand)
        else (UNKNOWN_VERB, {})
    )
    return CommandRow(
        command_key=command_key(policy.repo, comment.event_key),
        repo_full_name=str(policy.repo),
        thread_number=comment.scope_number,
        comment_id=comment.object_id,
        actor=comment.author,
        verb=verb,
        arguments=arguments,
        said_at=comment.updated_at,
        status=status,
        result=result,
    )
