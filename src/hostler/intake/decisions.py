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


def decide(signal: InboxEvent, known: ThreadState, policy: RepoPolicy) -> IntakeDecision:
    """What an event causes, and why."""
    match signal:
        case IssueEvent():
            return decide_on_issue(signal, known, policy)
        case PullEvent():
            return decide_on_pull(signal, known, policy)
        case CommentEvent():
            return decide_on_comment(signal, known, policy)
        case WorkflowRunEvent():
            return decide_on_run(signal, known, policy)
        case _:
            return IntakeDecision("GitHub's words about it could not be read.")


def needs_blockers(signal: InboxEvent, task: Task | None, policy: RepoPolicy) -> bool:
    """Whether GitHub must be asked what blocks an issue: it has, or may get, a task to hold."""
    if not isinstance(signal, IssueEvent) or signal.is_pull or not signal.is_open:
        return False
    if signal.blockers == 0 or is_ignored(policy, signal.labels):
        return False
    return (
        find_flow(policy, signal.labels) is not None if task is None else not is_past_waiting(task)
    )


def needs_labeller(signal: InboxEvent, policy: RepoPolicy) -> bool:
    """Whether it matters who put the labels on an issue: a stranger wrote it, and it has some."""
    return (
        isinstance(signal, IssueEvent)
        and signal.is_open
        and not signal.is_pull
        and not policy.allows(signal.row.author)
        and not is_ignored(policy, signal.labels)
        and find_flow(policy, signal.labels) is not None
    )


# By issue: who labelled it, and what blocks it.
LabellersByIssue = Mapping[int, dict[str, str]]
BlockersByIssue = Mapping[int, Sequence[Blocking]]


def read_thread_state(
    tx: Transaction,
    policy: RepoPolicy,
    signal: InboxEvent,
    labellers: LabellersByIssue,
    blockers: BlockersByIssue | None = None,
    unfinished: UnfinishedRuns | None = None,
) -> ThreadState:
    """Everything that a decision about this event rests on. None: GitHub's lists do not count."""
    number = signal.row.scope_number
    pull = find_pull(tx, policy.repo, number)
    issue = pull.issue_number if pull else number
    tasks = tuple(tasks_of_issue(tx, policy.repo, issue))
    # Only words on an issue may have been told, or sent to the pull request, before.
    said = signal if isinstance(signal, CommentEvent) and pull is None and tasks else None
    return ThreadState(
        tasks=tasks,
        pull=pull,
        pull_task=find_task(tx, pull.task) if pull else None,
        # Only a merge asks for it.
        issue=_newest_issue(tx, policy, issue) if isinstance(signal, PullEvent) else None,
        labellers=labellers.get(number),
        # A pull request of a task by hand has no issue, and floors of its own.
        floors=comment_floors(tx, policy.repo, issue or number),
        opening=pull is None and _is_opening_pull(tx, policy),
        newest=is_newest(tx, signal.row),
        blocked_by=_blocked_by(policy, signal, tasks, blockers),
        first=said is None or is_first(tx, said.row),
        told=said is not None and was_told(tx, policy.repo, issue, said.row),
        redirected=said is not None and _was_comment_redirected(tx, policy, said),
        operations_begun=number == policy.operations_issue
        and _is_operations_issue_read(tx, policy),
        checks=_read_checks(tx, policy, signal, pull, unfinished),
    )


def _is_operations_issue_read(tx: Transaction, policy: RepoPolicy) -> bool:
    """Whether the feeds have read the operations issue, and told its history from its news."""
    where = (Surface.ISSUE_OPERATOR_COMMANDS, policy.operations_issue)
    return Repo(policy.repo).get_poll_cursor(tx, *where) is not None


def _read_checks(
    tx: Transaction,
    policy: RepoPolicy,
    signal: InboxEvent,
    pull: PullRow | None,
    unfinished: UnfinishedRuns | None,
) -> CiState:
    if pull is None or not isinstance(signal, WorkflowRunEvent):
        return CiState()
    return read_ci_state(tx, policy, pull, unfinished)


def _was_comment_redirected(tx: Transaction, policy: RepoPolicy, said: CommentEvent) -> bool:
    return Repo(policy.repo).get_action_token(tx, redirect_token(said)) is not None


def redirect_token(said: CommentEvent) -> str:
    """One reply per comment, whatever becomes of it."""
    return build_token("redirect", said.row.object_id)


def _blocked_by(
    policy: RepoPolicy,
    signal: InboxEvent,
    tasks: tuple[Task, ...],
    blockers: BlockersByIssue | None,
) -> tuple[str, ...] | None:
    if blockers is None or not needs_blockers(signal, ThreadState(tasks).present, policy):
        return ()
    told = blockers.get(signal.row.scope_number)
    return None if told is None else blocker_names(told)


def blocker_names(blockers: Sequence[Blocking]) -> tuple[str, ...]:
    """Issues as tasks name what they depend on, in an order that stays."""
    return tuple(
        str(ref) for ref in sorted({IssueRef.of(one.repo, one.number) for one in blockers})
    )


def _newest_issue(tx: Transaction, policy: RepoPolicy, number: int) -> IssueEvent | None:
    """The newest version of an issue that was seen."""
    rows = rows_of_thread(tx, policy.repo, number, ItemKind.ISSUE.value)
    seen = parse_event(rows[-1]) if rows else None
    return seen if isinstance(seen, IssueEvent) else None


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
    """The open issues as they are now, with who labelled them where that matters."""
    reading = forge.changes(SurfaceFeed.ISSUES, None, only_open=True)
    signals = [parse_event(build_inbox_row(policy, item)) for item in reading.items]
    issues = [seen for seen in signals if isinstance(seen, IssueEvent) and not seen.is_pull]
    return [(seen, _fetch_issue_labellers(forge, policy, seen)) for seen in issues]


def preview_issues(
    tx: Transaction, policy: RepoPolicy, issues: list[tuple[IssueEvent, dict[str, str] | None]]
) -> list[IssuePreview]:
    """The decisions that a pass would make about these issues. Nothing is written."""
    return [
        _build_preview(seen, decide(seen, _preview_state(tx, policy, seen, who), policy))
        for seen, who in issues
    ]


def build_inbox_row(policy: RepoPolicy, item: Item) -> InboxRow:
    """An event that is only looked at."""
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
    tx: Transaction, policy: RepoPolicy, seen: IssueEvent, who: dict[str, str] | None
) -> ThreadState:
    tasks = tuple(tasks_of_issue(tx, policy.repo, seen.row.scope_number))
    return ThreadState(tasks=tasks, labellers=who)


def _build_preview(seen: IssueEvent, decision: IntakeDecision) -> IssuePreview:
    begun = next((one.flow for one in decision.effects if isinstance(one, StartTask)), None)
    return IssuePreview(seen.row.scope_number, seen.title, seen.row.author, begun, decision.reason)


def _fetch_issue_labellers(
    forge: Forge, policy: RepoPolicy, seen: InboxEvent
) -> dict[str, str] | None:
    if not needs_labeller(seen, policy):
        return None
    try:
        return forge.labellers(seen.row.scope_number)
    except ForgeError:
        return None
