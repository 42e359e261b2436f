"""Commands of operators: stop, resume, retry and cancel tasks, and restart the service.

All take an open transaction. A restart is requested once, carried out by the service, and answered
once:

```
  (none) ── request ──▶ pending ── start ──▶ running ── finish ──▶ done | failed ── request ──▶ …
                                            step ↺
```
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from hostler.errors import HostlerError
from hostler.forge.outbox.sender import OUTBOX_SCOPE as OUTBOX
from hostler.intake.operator_commands import reply_to_command
from hostler.intake.process import end_takeover
from hostler.runs import request_stop
from hostler.store.operator import (
    RESTART,
    AuditAction,
    AuditEntry,
    CommandRow,
    CommandStatus,
    Operation,
    OperationStatus,
    Step,
    add_audit_entry,
    begin_operation,
    change_operation,
    find_command,
    find_operation,
)
from hostler.store.pull_requests import PullStatus, change_pull, find_pull
from hostler.store.runs import open_runs
from hostler.store.tasks import Task, TaskState, change_task, children_of, find_task
from hostler.store.transaction import Transaction
from hostler.workflows.status_comment import publish_status_comment

# Deeper than any real tree; it ends a cycle in damaged rows.
MAX_DEPTH = 64


def descendants(tx: Transaction, task: str, depth: int = MAX_DEPTH) -> Iterator[Task]:
    """Yield all tasks below one, each before its own children."""
    if depth <= 0:
        return
    for child in children_of(tx, task):
        yield child
        yield from descendants(tx, child.id, depth - 1)


def ancestors(tx: Transaction, task: Task) -> Iterator[str]:
    """Yield the ids of the tasks above one, the nearest first."""
    found: Task | None = task
    for _ in range(MAX_DEPTH):
        if found is None or found.parent_task is None:
            return
        yield found.parent_task
        found = find_task(tx, found.parent_task)


def is_in_tree(tx: Transaction, task: Task, roots: Collection[str]) -> bool:
    """Return whether a task is one of these roots, or below one."""
    return task.id in roots or any(name in roots for name in ancestors(tx, task))


def active_children(tx: Transaction, task: str) -> list[Task]:
    """Return the children that have a running agent."""
    busy = {run.task_id for run in open_runs(tx)}
    return [child for child in children_of(tx, task) if child.id in busy]


CANCELLED_PREFIX = "Cancelled"
MAX_ANSWER_LENGTH = 16_000
RESUMABLE = frozenset(
    {TaskState.STOPPED, TaskState.NEEDS_INPUT, TaskState.PARKED, TaskState.BLOCKED}
)
RETRIABLE = frozenset(
    {TaskState.FAILED, TaskState.STOPPED, TaskState.BLOCKED, TaskState.NEEDS_INPUT}
)


class CommandRefused(HostlerError):
    """The command does not apply to the task's state."""

    def __init__(self, verb: str, task: Task, remedy: str = "") -> None:
        state = task.state.value.replace("_", " ")
        super().__init__(
            f"Task {task.id} is {state} and cannot be {verb}.",
            safe="Nothing was changed.",
            remedy=remedy,
        )


def stop_task(tx: Transaction, task: Task, by: str, why: str = "") -> list[Task]:
    """Stop a task and all below it; return those that changed. Scopes: tasks, outbox."""
    if task.over:
        raise CommandRefused("stopped", task)
    return _stop_tree(tx, task, AuditEntry(tx.stamp(), by, AuditAction.STOPPED, why))


def cancel_task(tx: Transaction, task: Task, by: str, why: str = "") -> list[Task]:
    """Cancel a task and all below it: only a retry starts them again."""
    if task.over and task.state is not TaskState.STOPPED:
        raise CommandRefused("cancelled", task)
    return _stop_tree(tx, task, AuditEntry(tx.stamp(), by, AuditAction.CANCELLED, why))


def resume_task(tx: Transaction, task: Task, by: str, why: str = "") -> Task:
    """Queue the task to continue in the same session."""
    if task.state is TaskState.STOPPED and task.reason.startswith(CANCELLED_PREFIX):
        raise CommandRefused("resumed", task, f"Use: hostler task retry {task.id}")
    if task.state not in RESUMABLE:
        raise CommandRefused("resumed", task)
    return _queue_task(tx, task, AuditEntry(tx.stamp(), by, AuditAction.RESUMED, why))


def answer_question(tx: Transaction, task: Task, by: str, text: str) -> Task:
    """Answer the question of a manual task. Questions on issues are answered on GitHub."""
    if task.state is not TaskState.NEEDS_INPUT or not task.by_hand:
        where = "" if task.by_hand else "Answer with a comment on its issue."
        raise CommandRefused("answered", task, where)
    if not text.strip():
        raise HostlerError("The answer is empty.", safe="Nothing was changed.")
    answered = replace(task, note=f"{by} answers: {text.strip()}"[:MAX_ANSWER_LENGTH])
    answer_text = text.strip()[:MAX_ANSWER_LENGTH]
    asked = task.question or task.reason
    entry = AuditEntry(tx.stamp(), by, AuditAction.ANSWERED, answer_text, asked, task.state_since)
    return _queue_task(tx, task, entry, answered)


def retry_task(tx: Transaction, task: Task, by: str, why: str = "") -> Task:
    """Queue the task from scratch: same checkout and branch, all counters at zero."""
    if task.state not in RETRIABLE:
        raise CommandRefused("retried", task)
    fresh = replace(task, attempt=0, session="", progress="", note="", question="")
    return _queue_task(tx, task, AuditEntry(tx.stamp(), by, AuditAction.RETRIED, why), fresh)


def _reason_text(entry: AuditEntry) -> str:
    """Return the text for the task's state. An answer is stored elsewhere."""
    answered = f": {entry.text}" if entry.text and entry.what is not AuditAction.ANSWERED else "."
    return f"{entry.what.capitalize()} by {entry.by}{answered}"


def _stop_tree(tx: Transaction, task: Task, entry: AuditEntry) -> list[Task]:
    """Stop a task, all that is unfinished below it, and their agents."""
    below = [child for child in descendants(tx, task.id) if not child.over]
    return [_stop_one(tx, one, entry) for one in (task, *below)]


def _stop_one(tx: Transaction, task: Task, entry: AuditEntry) -> Task:
    reason = _reason_text(entry)
    for run in open_runs(tx, task_id=task.id):
        request_stop(tx, run.run, reason)
    stopped = replace(task, state=TaskState.STOPPED, reason=reason, wake_at=None, finishing=False)
    add_audit_entry(tx, task.id, entry)
    return publish_status_comment(tx, change_task(tx, task, stopped))


def _queue_task(tx: Transaction, task: Task, entry: AuditEntry, fresh: Task | None = None) -> Task:
    if open_runs(tx, task_id=task.id):
        raise CommandRefused(
            "started again", task, "Its last run has not ended yet. Try again in a moment."
        )
    end_takeover(tx, task)
    queued = replace(
        fresh or task,
        state=TaskState.QUEUED,
        reason=_reason_text(entry),
        wake_at=None,
        finishing=False,
        blockers="",
        exits_without_progress=0,
        repair_rounds=0,
        requeues=0,
        outages=0,
        pr_number=_reopen_pull(tx, task),
    )
    add_audit_entry(tx, task.id, entry)
    return publish_status_comment(tx, change_task(tx, task, queued))


def _reopen_pull(tx: Transaction, task: Task) -> int | None:
    """Return the pull request to continue; None if it is closed, so that a new one follows."""
    if task.pr_number is None or task.repo_full_name is None:
        return task.pr_number
    pull = find_pull(tx, task.repo, task.pr_number)
    if pull is None or pull.final:
        return None
    change_pull(tx, pull, replace(pull, status=PullStatus.AWAITING_FEEDBACK))
    return pull.pr_number


# Write scopes for requesting, starting and finishing a restart.
RESTART_SCOPES = ("operations", OUTBOX)


def request_restart(tx: Transaction, by: str, command: CommandRow | None = None) -> bool:
    """Request a restart, for a command if there is one. Return False if one is under way."""
    wanted = Operation(
        RESTART,
        requested_by=by,
        command_key=command.command_key if command else None,
        repo_full_name=command.repo_full_name if command else None,
    )
    return begin_operation(tx, wanted)


def current_restart(tx: Transaction) -> Operation | None:
    """Return the restart that was requested and is not finished, if any."""
    found = find_operation(tx, RESTART)
    return found if found is not None and found.under_way else None


def start_restart(tx: Transaction) -> Operation | None:
    """Start the requested restart; None if there is none, or it has started already."""
    found = current_restart(tx)
    if found is None or found.status is not OperationStatus.PENDING:
        return None
    return change_operation(tx, found, OperationStatus.RUNNING)


def store_restart_step(tx: Transaction, step: Step) -> Operation | None:
    """Store the step that the running restart has reached; None if none is running."""
    found = current_restart(tx)
    if found is None or found.status is not OperationStatus.RUNNING:
        return None
    return change_operation(tx, found, OperationStatus.RUNNING, step)


def finish_restart(tx: Transaction, ok: bool, detail: str = "") -> Operation | None:
    """Finish the restart and reply to its command; None if none was under way."""
    found = current_restart(tx)
    if found is None:
        return None
    status = OperationStatus.DONE if ok else OperationStatus.FAILED
    over = change_operation(tx, found, status, detail)
    command = find_command(tx, over.command_key) if over.command_key else None
    if command is not None and command.open:
        became = CommandStatus.APPLIED if ok else CommandStatus.FAILED
        reply_to_command(tx, command, became, _answer_text(ok, detail))
    return over


def _answer_text(ok: bool, detail: str) -> str:
    if ok:
        return f"Restarted. {detail}".strip()
    return f"The restart failed: {detail or 'unknown reason.'}"
