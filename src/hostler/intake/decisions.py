"""Decide about one event, read what the decision needs, and preview decisions for open issues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hostler.errors import ForgeError
from hostler.forge.events import encode_content, event_key
from hostler.forge.outbox.queue import build_token
from hostler.forge.port import Blocking, Forge, Item, ItemKind, SurfaceFeed
from hostler.intake.ci import UnfinishedRuns, decide_on_run, read_ci_state
from hostler.intake.model import (
    CiState,
    CommentEvent,
    InboxEvent,
    IntakeDecision,
    IssueEvent,
    PullEvent,
    StartTask,
    ThreadState,
    WorkflowRunEvent,
    parse_event,
)
from hostler.intake.repo_policy import RepoPolicy, find_flow, is_ignored
from hostler.intake.rules import decide_on_comment, decide_on_issue, decide_on_pull, is_past_waiting
from hostler.model import Surface
from hostler.store.inbox import InboxRow, is_first, is_newest, rows_of_thread, was_told
from hostler.store.outbox import open_writes
from hostler.store.pull_requests import PullRow, comment_floors, find_pull
from hostler.store.repositories import Repo
from hostler.store.tasks import Flow, IssueRef, Task, find_task, tasks_of_issue
from hostler.store.transaction import Transaction


def decide(event: InboxEvent, thread: ThreadState, policy: RepoPolicy) -> IntakeDecision:
    """Return what an event causes, and why."""
    match event:
        case IssueEvent():
            return decide_on_issue(event, thread, policy)
        case PullEvent():
            return decide_on_pull(event, thread, policy)
        case CommentEvent():
            return decide_on_comment(event, thread, policy)
        case WorkflowRunEvent():
            return decide_on_run(event, thread, policy)
        case _:
            return IntakeDecision("GitHub's data about it could not be parsed.")


def needs_blockers(event: InboxEvent, task: Task | None, policy: RepoPolicy) -> bool:
    """Return whether GitHub must be queried for issues that block this one.

    It must if the issue has, or may get, a task that can wait.
    """
    if not isinstance(event, IssueEvent) or event.is_pull or not event.is_open:
        return False
    if event.blockers == 0 or is_ignored(policy, event.labels):
        return False
    return (
        find_flow(policy, event.labels) is not None if task is None else not is_past_waiting(task)
    )


def needs_labeller(event: InboxEvent, policy: RepoPolicy) -> bool:
    """Return whether it matters who set an issue's labels: its author is not an allowed user."""
    return (
        isinstance(event, IssueEvent)
        and event.is_open
        and not event.is_pull
        and not policy.allows(event.row.author)
        and not is_ignored(policy, event.labels)
        and find_flow(policy, event.labels) is not None
    )


# By issue: who labelled it, and what blocks it.
LabellersByIssue = Mapping[int, dict[str, str]]
BlockersByIssue = Mapping[int, Sequence[Blocking]]


def read_thread_state(
    tx: Transaction,
    policy: RepoPolicy,
    event: InboxEvent,
    labellers: LabellersByIssue,
    blockers: BlockersByIssue | None = None,
    unfinished: UnfinishedRuns | None = None,
) -> ThreadState:
    """Read everything that a decision about this event needs.

    `blockers` None: ignore GitHub's lists.
    """
    number = event.row.scope_number
    pull = find_pull(tx, policy.repo, number)
    issue = pull.issue_number if pull else number
    tasks = tuple(tasks_of_issue(tx, policy.repo, issue))
    # Only a comment on an issue can have been delivered or redirected before.
    comment = event if isinstance(event, CommentEvent) and pull is None and tasks else None
    return ThreadState(
        tasks=tasks,
        pull=pull,
        pull_task=find_task(tx, pull.task) if pull else None,
        # Only a merge needs it.
        issue=_newest_issue(tx, policy, issue) if isinstance(event, PullEvent) else None,
        labellers=labellers.get(number),
        # A pull request of a manual task has no issue, so it has floors of its own.
        floors=comment_floors(tx, policy.repo, issue or number),
        pull_opening=pull is None and _is_opening_pull(tx, policy),
        is_newest=is_newest(tx, event.row),
        blocked_by=_blocked_by(policy, event, tasks, blockers),
        is_first=comment is None or is_first(tx, comment.row),
        delivered=comment is not None and was_told(tx, policy.repo, issue, comment.row),
        redirected=comment is not None and _was_comment_redirected(tx, policy, comment),
        operations_begun=number == policy.operations_issue
        and _is_operations_issue_read(tx, policy),
        checks=_read_checks(tx, policy, event, pull, unfinished),
    )


def _is_operations_issue_read(tx: Transaction, policy: RepoPolicy) -> bool:
    """Return whether the operations issue was polled, so that its older comments are known."""
    where = (Surface.ISSUE_OPERATOR_COMMANDS, policy.operations_issue)
    return Repo(policy.repo).get_poll_cursor(tx, *where) is not None


def _read_checks(
    tx: Transaction,
    policy: RepoPolicy,
    event: InboxEvent,
    pull: PullRow | None,
    unfinished: UnfinishedRuns | None,
) -> CiState:
    if pull is None or not isinstance(event, WorkflowRunEvent):
        return CiState()
    return read_ci_state(tx, policy, pull, unfinished)


def _was_comment_redirected(tx: Transaction, policy: RepoPolicy, comment: CommentEvent) -> bool:
    return Repo(policy.repo).get_action_token(tx, redirect_token(comment)) is not None


def redirect_token(comment: CommentEvent) -> str:
    """Return the token of the reply that redirects a comment: one per comment."""
    return build_token("redirect", comment.row.object_id)


def _blocked_by(
    policy: RepoPolicy,
    event: InboxEvent,
    tasks: tuple[Task, ...],
    blockers: BlockersByIssue | None,
) -> tuple[str, ...] | None:
    if blockers is None or not needs_blockers(event, ThreadState(tasks).current_task, policy):
        return ()
    listed = blockers.get(event.row.scope_number)
    return None if listed is None else _blocker_names(listed)


def _blocker_names(blockers: Sequence[Blocking]) -> tuple[str, ...]:
    """Return issues in the form in which tasks name dependencies, in a stable order."""
    return tuple(
        str(ref) for ref in sorted({IssueRef.of(one.repo, one.number) for one in blockers})
    )


def _newest_issue(tx: Transaction, policy: RepoPolicy, number: int) -> IssueEvent | None:
    """Return the newest known version of an issue."""
    rows = rows_of_thread(tx, policy.repo, number, ItemKind.ISSUE.value)
    event = parse_event(rows[-1]) if rows else None
    return event if isinstance(event, IssueEvent) else None


def _is_opening_pull(tx: Transaction, policy: RepoPolicy) -> bool:
    return any(row.kind == "open_pull" and row.repo == policy.repo for row in open_writes(tx))


@dataclass(frozen=True, slots=True)
class IssuePreview:
    """One open issue: the flow that would start, or none, and why."""

    number: int
    title: str
    author: str
    flow: Flow | None
    reason: str


def fetch_open_issues(
    forge: Forge, policy: RepoPolicy
) -> list[tuple[IssueEvent, dict[str, str] | None]]:
    """Query the open issues, and who set their labels if that matters."""
    reading = forge.changes(SurfaceFeed.ISSUES, None, only_open=True)
    events = [parse_event(build_inbox_row(policy, item)) for item in reading.items]
    issues = [event for event in events if isinstance(event, IssueEvent) and not event.is_pull]
    return [(event, _fetch_issue_labellers(forge, policy, event)) for event in issues]


def preview_issues(
    tx: Transaction, policy: RepoPolicy, issues: list[tuple[IssueEvent, dict[str, str] | None]]
) -> list[IssuePreview]:
    """Return the decisions that a poll would make about these issues. Nothing is written."""
    return [
        _build_preview(event, decide(event, _preview_state(tx, policy, event, labellers), policy))
        for event, labellers in issues
    ]


def build_inbox_row(policy: RepoPolicy, item: Item) -> InboxRow:
    """Return an item as an inbox row, without storing it."""
    return InboxRow(
        repo_full_name=str(policy.repo),
        event_key=event_key(item),
        kind=item.kind.value,
        scope_number=item.number,
        object_id=item.id,
        author=item.author,
        updated_at=item.updated_at,
        payload=encode_content(item.content),
    )


def _preview_state(
    tx: Transaction, policy: RepoPolicy, event: IssueEvent, labellers: dict[str, str] | None
) -> ThreadState:
    tasks = tuple(tasks_of_issue(tx, policy.repo, event.row.scope_number))
    return ThreadState(tasks=tasks, labellers=labellers)


def _build_preview(event: IssueEvent, decision: IntakeDecision) -> IssuePreview:
    flow = next((one.flow for one in decision.effects if isinstance(one, StartTask)), None)
    return IssuePreview(
        event.row.scope_number, event.title, event.row.author, flow, decision.reason
    )


def _fetch_issue_labellers(
    forge: Forge, policy: RepoPolicy, event: InboxEvent
) -> dict[str, str] | None:
    if not needs_labeller(event, policy):
        return None
    try:
        return forge.labellers(event.row.scope_number)
    except ForgeError:
        return None
