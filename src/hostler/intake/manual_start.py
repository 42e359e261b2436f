"""Start the task of one issue now, without requiring a label or an allowed author."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from hostler.errors import HostlerError
from hostler.forge.events import encode_content
from hostler.forge.port import Issue, ItemKind
from hostler.intake.model import IssueEvent, StartTask, parse_event
from hostler.intake.process import apply_effect, end_takeover
from hostler.intake.repo_policy import RepoPolicy, find_flow
from hostler.intake.rules import MANUAL_KEY_PART
from hostler.store.inbox import InboxRow, add_inbox_row, consume_inbox_rows, rows_by_key
from hostler.store.pull_requests import PullStatus, change_pull, find_pull
from hostler.store.tasks import Flow, Task, TaskState, change_task, require_task, tasks_of_issue
from hostler.store.transaction import Transaction, normal_stamp


class NotAnIssue(HostlerError):
    """The number is not an open issue."""


def start_issue(
    tx: Transaction,
    policy: RepoPolicy,
    issue: Issue,
    flow: Flow | None = None,
    by: str = "operator",
    at: datetime | None = None,
) -> Task:
    """Return the issue's task, new or queued again. Only a user can restart a stopped task.

    `at`: GitHub's time, if it is known better than by the issue's last change.
    """
    if issue.is_pull or issue.state != "open":
        what = "a pull request" if issue.is_pull else "closed"
        raise NotAnIssue(f"{policy.repo}#{issue.number} is {what}.", safe="Nothing was started.")
    known = tasks_of_issue(tx, policy.repo, issue.number)
    if known:
        end_takeover(tx, known[-1], at or issue.updated_at)
        return _restart_task(tx, policy, known[-1], by)
    found = find_flow(policy, issue.labels)
    chosen = flow or (found[1] if found else Flow.SMALL_JOB)
    begun = apply_effect(tx, policy, StartTask(chosen, _store_issue_event(tx, policy, issue), by))
    assert begun is not None
    return require_task(tx, begun)


def _restart_task(tx: Transaction, policy: RepoPolicy, task: Task, by: str) -> Task:
    asleep = (TaskState.STOPPED, TaskState.FAILED, TaskState.BLOCKED, TaskState.PARKED)
    if task.state not in asleep:
        return task
    fresh = replace(
        task,
        state=TaskState.QUEUED,
        reason=f"Started again by {by}.",
        wake_at=None,
        pr_number=_reopen_pull(tx, policy, task),
        exits_without_progress=0,
        repair_rounds=0,
        requeues=0,
        outages=0,
    )
    return change_task(tx, task, fresh)


def _reopen_pull(tx: Transaction, policy: RepoPolicy, task: Task) -> int | None:
    """Return the pull request to continue; None if it is closed, so that a new one follows."""
    pull = find_pull(tx, policy.repo, task.pr_number or 0)
    if pull is None or pull.final:
        return None
    change_pull(tx, pull, replace(pull, status=PullStatus.AWAITING_FEEDBACK))
    return pull.pr_number


def _store_issue_event(tx: Transaction, policy: RepoPolicy, issue: Issue) -> IssueEvent:
    """Store the issue's text as a processed event, so that agents read exactly this version."""
    # Without blockers: what an operator starts waits for nothing.
    content = replace(issue, blocker_count=None, is_pull=False)
    row = InboxRow(
        repo_full_name=str(policy.repo),
        event_key=f"issue:{issue.number}{MANUAL_KEY_PART}{issue.updated_at}",
        kind=ItemKind.ISSUE.value,
        scope_number=issue.number,
        # GitHub's id is not known here; GitHub's ids are never negative.
        object_id=-issue.number,
        author=issue.author,
        updated_at=normal_stamp(issue.updated_at),
        payload=encode_content(content),
    )
    if add_inbox_row(tx, row):
        consume_inbox_rows(tx, policy.repo, [row.event_key])
    seen = parse_event(rows_by_key(tx, policy.repo, [row.event_key])[0])
    assert isinstance(seen, IssueEvent)
    return seen
