"""What follows when a write of ours is settled: a pull request has its number, a status goes on."""

from __future__ import annotations

from dataclasses import replace

from hostler.flows.status import PREFIX, publish
from hostler.forge.deeds import OpenPull, RerunFailedJobs, unpack
from hostler.store.outbox import OutboxRow, WriteState
from hostler.store.pull_requests import PullRow, PullStatus, add_pull, change_pull, find_pull
from hostler.store.tasks import Task, TaskState, change_task, find_task
from hostler.store.transaction import Transaction


def settled(tx: Transaction, row: OutboxRow) -> None:
    """Called once for each write, in the transaction that stores its end."""
    if row.kind == RerunFailedJobs.kind and row.state is WriteState.FAILED:
        _not_repeated(tx, row)
        return
    purpose, _, rest = row.token.partition(":")
    task = find_task(tx, rest.rpartition(":")[0]) if purpose in ("pull", PREFIX) else None
    if task is None:
        return
    if purpose == "pull":
        task = _pull_settled(tx, task, row)
    publish(tx, task)


def _pull_settled(tx: Transaction, task: Task, row: OutboxRow) -> Task:
    if row.state is WriteState.SENT and row.result_number:
        return _opened(tx, task, row, row.result_number)
    if task.over:
        return task
    why = (
        f"GitHub did not take the pull request of the branch {task.branch}: "
        f"{row.last_error or 'it gave no reason'}"
    )
    return change_task(tx, task, replace(task, state=TaskState.BLOCKED, reason=why[:2000]))


def _not_repeated(tx: Transaction, row: OutboxRow) -> None:
    """A failed check that cannot be run once more stays failed: somebody has to look at it."""
    pull = find_pull(tx, row.repo, row.scope_number)
    task = find_task(tx, pull.task) if pull else None
    if pull is None or pull.final or task is None or task.state is not TaskState.AWAITING_FEEDBACK:
        return
    why = f"GitHub did not run the failed check once more: {row.last_error or 'it gave no reason'}"
    blocked = replace(task, state=TaskState.BLOCKED, reason=why[:2000])
    change_pull(tx, pull, replace(pull, status=PullStatus.BLOCKED))
    publish(tx, change_task(tx, task, blocked))


def _opened(tx: Transaction, task: Task, row: OutboxRow, number: int) -> Task:
    deed = unpack(row.kind, row.payload)
    assert isinstance(deed, OpenPull)
    pull = PullRow(
        repo_full_name=row.repo_full_name,
        pr_number=number,
        issue_number=task.number,
        task=task.id,
        branch=deed.head,
        status=PullStatus.AWAITING_FEEDBACK,
        url=row.result_url or "",
    )
    add_pull(tx, pull)
    return change_task(tx, task, replace(task, pr_number=number))
