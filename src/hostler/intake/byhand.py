"""One issue now, because the operator says so: no label or allowlist is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

from hostler.errors import HostlerError
from hostler.forge.port import Issue, ItemKind
from hostler.intake.applying import apply
from hostler.intake.effects import Begin
from hostler.intake.issues import BY_HAND
from hostler.intake.people import Watch, flow_of
from hostler.intake.signals import IssueSeen, read
from hostler.intake.takeover import give_back
from hostler.store.inbox import InboxRow, add_inbox_row, consume_inbox_rows, rows_by_key
from hostler.store.pull_requests import PullStatus, change_pull, find_pull
from hostler.store.tasks import Flow, Task, TaskState, change_task, require_task, tasks_of_issue
from hostler.store.transaction import Transaction, normal_stamp


class NotAnIssue(HostlerError):
    """What the operator named cannot be worked on."""


def request(
    tx: Transaction,
    watch: Watch,
    issue: Issue,
    flow: Flow | None = None,
    by: str = "operator",
    at: datetime | None = None,
) -> Task:
    """The issue's task, new or waked up. A person's word is the only way out of `stopped`.

    `at`: GitHub's time, where it is known better than by the issue's last change.
    """
    if issue.is_pull or issue.state != "open":
        what = "a pull request" if issue.is_pull else "closed"
        raise NotAnIssue(f"{watch.repo}#{issue.number} is {what}.", safe="Nothing was started.")
    known = tasks_of_issue(tx, watch.repo, issue.number)
    if known:
        give_back(tx, known[-1], at or issue.updated_at)
        return _wake(tx, watch, known[-1], by)
    found = flow_of(watch, issue.labels)
    chosen = flow or (found[1] if found else Flow.SMALL_JOB)
    begun = apply(tx, watch, Begin(chosen, _stored(tx, watch, issue), by))
    assert begun is not None
    return require_task(tx, begun)


def _wake(tx: Transaction, watch: Watch, task: Task, by: str) -> Task:
    asleep = (TaskState.STOPPED, TaskState.FAILED, TaskState.BLOCKED, TaskState.PARKED)
    if task.state not in asleep:
        return task
    fresh = replace(
        task,
        state=TaskState.QUEUED,
        reason=f"Started again by {by}.",
        wake_at=None,
        pr_number=_reopened(tx, watch, task),
        exits_without_progress=0,
        repair_rounds=0,
        requeues=0,
        outages=0,
    )
    return change_task(tx, task, fresh)


def _reopened(tx: Transaction, watch: Watch, task: Task) -> int | None:
    """The pull request to go on with; one that is closed stays so, and a new one follows."""
    pull = find_pull(tx, watch.repo, task.pr_number or 0)
    if pull is None or pull.final:
        return None
    change_pull(tx, pull, replace(pull, status=PullStatus.AWAITING_FEEDBACK))
    return pull.pr_number


def _stored(tx: Transaction, watch: Watch, issue: Issue) -> IssueSeen:
    """The issue's text as an event that has had its effect, so that agents read what was meant."""
    payload = {
        "number": issue.number,
        "title": issue.title,
        "body": issue.body,
        "state": issue.state,
        "user": {"login": issue.author},
        "labels": [{"name": name} for name in sorted(issue.labels)],
        "updated_at": issue.updated_at,
        "html_url": issue.url,
    }
    row = InboxRow(
        repo_full_name=str(watch.repo),
        event_key=f"issue:{issue.number}{BY_HAND}{issue.updated_at}",
        kind=ItemKind.ISSUE.value,
        scope_number=issue.number,
        # GitHub's id is not known here; no id of GitHub's is negative.
        object_id=-issue.number,
        author=issue.author,
        updated_at=normal_stamp(issue.updated_at),
        payload=json.dumps(payload),
    )
    if add_inbox_row(tx, row):
        consume_inbox_rows(tx, watch.repo, [row.event_key])
    seen = read(rows_by_key(tx, watch.repo, [row.event_key])[0])
    assert isinstance(seen, IssueSeen)
    return seen
