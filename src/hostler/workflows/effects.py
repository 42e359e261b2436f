"""A task's transition and its effects as data, and how they are stored in one transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from hostler.forge.actions import Action, OpenPull, RerunFailedJobs, decode_action
from hostler.forge.outbox.queue import enqueue_action
from hostler.store.inbox import mark_feedback_events_processed
from hostler.store.outbox import Lane, OutboxRow, WriteState
from hostler.store.pull_requests import PullRow, PullStatus, add_pull, change_pull, find_pull
from hostler.store.tasks import Task, TaskState, change_task, find_task
from hostler.store.transaction import Transaction
from hostler.workflows.status_comment import STATUS_PREFIX, publish_status_comment


@dataclass(frozen=True, slots=True)
class QueueWrite:
    """An action on GitHub, done once per token."""

    action: Action
    token: str
    lane: Lane
    source: str


@dataclass(frozen=True, slots=True)
class MarkProcessed:
    """These events have had their turn."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetPullStatus:
    """The task's pull request gets this status and, if known, this head."""

    status: PullStatus
    head_sha: str = ""
    without_person: bool = False


Effect = QueueWrite | MarkProcessed | SetPullStatus


@dataclass(frozen=True, slots=True)
class TaskTransition:
    """A task's new values, and the effects stored in the same transaction."""

    task: Task
    effects: tuple[Effect, ...] = ()


def apply_transition(tx: Transaction, before: Task, transition: TaskTransition) -> Task:
    """Store the new values and the effects, and update the status comment."""
    after = change_task(tx, before, transition.task) if transition.task != before else before
    for effect in transition.effects:
        _apply_effect(tx, after, effect)
    return publish_status_comment(tx, after)


def _apply_effect(tx: Transaction, task: Task, effect: Effect) -> None:
    match effect:
        case QueueWrite() if not _has_thread(task, effect):
            return  # There is no thread on GitHub: the bus and the task's state have the text.
        case QueueWrite(action, token, lane, source):
            enqueue_action(tx, task.repo, action, token=token, lane=lane, source=source)
        case MarkProcessed(keys):
            mark_feedback_events_processed(tx, task.repo, keys)
        case SetPullStatus():
            _set_pull_status(tx, task, effect)
        case _:
            assert_never(effect)


def _has_thread(task: Task, write: QueueWrite) -> bool:
    """Return whether there is a thread on GitHub to write to. Opening a pull request needs none."""
    if task.repo_full_name is None:
        return False
    return bool(task.issue_number or task.pr_number) or isinstance(write.action, OpenPull)


def _set_pull_status(tx: Transaction, task: Task, change: SetPullStatus) -> None:
    pull = find_pull(tx, task.repo, task.pr_number or 0)
    if pull is None or pull.final:
        return
    after = replace(
        pull,
        status=change.status,
        last_seen_head_sha=change.head_sha or pull.last_seen_head_sha,
        turns_without_person=pull.turns_without_person + change.without_person,
    )
    change_pull(tx, pull, after)


def handle_settled_write(tx: Transaction, row: OutboxRow) -> None:
    """Apply the result of a write, once, in the transaction that stores the result."""
    if row.kind == RerunFailedJobs.kind and row.state is WriteState.FAILED:
        _block_failed_rerun(tx, row)
        return
    purpose, _, rest = row.token.partition(":")
    task = find_task(tx, rest.rpartition(":")[0]) if purpose in ("pull", STATUS_PREFIX) else None
    if task is None:
        return
    if purpose == "pull":
        task = _handle_settled_pull(tx, task, row)
    publish_status_comment(tx, task)


def _handle_settled_pull(tx: Transaction, task: Task, row: OutboxRow) -> Task:
    if row.state is WriteState.SENT and row.result_number:
        return _store_opened_pull(tx, task, row, row.result_number)
    if task.over:
        return task
    why = (
        f"GitHub rejected the pull request for branch {task.branch}: "
        f"{row.last_error or 'no reason given'}"
    )
    return change_task(tx, task, replace(task, state=TaskState.BLOCKED, reason=why[:2000]))


def _block_failed_rerun(tx: Transaction, row: OutboxRow) -> None:
    """Block a task whose failed check could not be run again."""
    pull = find_pull(tx, row.repo, row.scope_number)
    task = find_task(tx, pull.task) if pull else None
    if pull is None or pull.final or task is None or task.state is not TaskState.AWAITING_FEEDBACK:
        return
    why = f"GitHub rejected rerunning the failed check: {row.last_error or 'no reason given'}"
    blocked = replace(task, state=TaskState.BLOCKED, reason=why[:2000])
    change_pull(tx, pull, replace(pull, status=PullStatus.BLOCKED))
    publish_status_comment(tx, change_task(tx, task, blocked))


def _store_opened_pull(tx: Transaction, task: Task, row: OutboxRow, number: int) -> Task:
    action = decode_action(row.kind, row.payload)
    assert isinstance(action, OpenPull)
    pull = PullRow(
        repo_full_name=row.repo_full_name,
        pr_number=number,
        issue_number=task.number,
        task=task.id,
        branch=action.head,
        status=PullStatus.AWAITING_FEEDBACK,
        url=row.result_url or "",
    )
    add_pull(tx, pull)
    return change_task(tx, task, replace(task, pr_number=number))
