"""Process the inbox: decide about each event and apply its effects in one transaction.

Also takeover: while users have taken over a task, its comments are ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from hostler.errors import ForgeError, RateLimited, Refused, ServerFailed, Unauthorized
from hostler.forge.actions import CreateComment
from hostler.forge.outbox.queue import enqueue_action
from hostler.forge.port import Blocking, Forge, ItemKind
from hostler.intake.ci import UnfinishedRuns, apply_ci_effect
from hostler.intake.decisions import (
    BlockersByIssue,
    LabellersByIssue,
    decide,
    needs_blockers,
    needs_labeller,
    read_thread_state,
    redirect_token,
)
from hostler.intake.model import (
    COMMENT_KINDS,
    EVENT_KINDS,
    AddCiFeedback,
    AddFeedback,
    AskAboutCi,
    BlockTask,
    ChangeTaskState,
    CommentEvent,
    InboxEvent,
    IntakeDecision,
    IntakeEffect,
    RedirectComment,
    RefuseCommand,
    RerunFlakyCheck,
    SetPullState,
    StartTask,
    StoreCommand,
    TakeOverTask,
    ThreadState,
    UpdateTaskIssue,
    parse_event,
)
from hostler.intake.operator_commands import refuse_command, store_command
from hostler.intake.repo_policy import RepoPolicy
from hostler.intake.rules import APPROVAL_QUESTION
from hostler.model import format_timestamp
from hostler.store.inbox import (
    FeedbackEvent,
    InboxRow,
    consume_inbox_rows,
    hold,
    is_newest,
    mark_feedback_events_processed,
    record_feedback_event,
    rows_by_key,
    rows_of_thread,
    rows_to_look_at,
    supersede,
    waiting_keys,
)
from hostler.store.outbox import Lane
from hostler.store.pull_requests import (
    Floors,
    PullRow,
    change_pull,
    comment_floors,
    find_pull,
    hear_from,
    raise_floors,
)
from hostler.store.retention import newest_shown
from hostler.store.tasks import (
    Task,
    TaskState,
    add_task,
    change_task,
    next_order,
    require_task,
    task_id,
    tasks_of_issue,
)
from hostler.store.transaction import Transaction, normal_stamp

# `comments_since` while users have taken over the work.
TAKEN_OVER = "9999-12-31T23:59:59.999Z"


def _take_over(tx: Transaction, task: Task) -> None:
    """Hand a task over to users: drop pending comments, and ignore later ones."""
    waiting = waiting_keys(tx, task.repo, task.number, task.pr_number)
    mark_feedback_events_processed(tx, task.repo, waiting)
    hear_from(tx, task.repo, thread_number(task), TAKEN_OVER)


def end_takeover(tx: Transaction, task: Task, at: datetime | str | None = None) -> None:
    """End a takeover: comments count again from this time of GitHub's clock on.

    `at` None: GitHub was not queried, so the newest time that it has reported counts.
    """
    if task.repo_full_name is None or not thread_number(task):
        return
    if comment_floors(tx, task.repo, thread_number(task)).comments_since == TAKEN_OVER:
        timestamp = newest_shown(tx, task.repo_full_name) if at is None else at
        hear_from(tx, task.repo, thread_number(task), truncate_to_second(timestamp))


def truncate_to_second(timestamp: datetime | str) -> str:
    """Return a time as GitHub writes it, so that comments within the same second are not older."""
    if isinstance(timestamp, datetime):
        timestamp = format_timestamp(timestamp)
    return f"{normal_stamp(timestamp)[:19]}.000Z" if timestamp else ""


def thread_number(task: Task) -> int:
    """Return the issue that a task's floors belong to; its pull request if there is no issue."""
    return task.number or task.pr_number or 0


REDIRECT_REPLY = "@{who}: this work has moved to pull request #{pull}. Please comment there."
# States in which a task is waiting for a comment.
_WAITING_STATES = (TaskState.AWAITING_FEEDBACK, TaskState.NEEDS_INPUT)


def apply_effect(tx: Transaction, policy: RepoPolicy, effect: IntakeEffect) -> str | None:
    """Store one effect; return the id of the task that it changed, if any."""
    match effect:
        case StartTask():
            return _start_task(tx, policy, effect)
        case ChangeTaskState():
            return _change_state(tx, effect)
        case UpdateTaskIssue():
            return _update_issue(tx, effect)
        case AddFeedback():
            return _add_feedback(tx, policy, effect)
        case RedirectComment():
            _redirect_comment(tx, policy, effect)
            return None
        case SetPullState():
            after = replace(effect.pull, status=effect.status, last_seen_head_sha=effect.head_sha)
            change_pull(tx, effect.pull, after)
            return effect.pull.task
        case TakeOverTask():
            _take_over(tx, effect.task)
            return None
        case StoreCommand() | RefuseCommand():
            _apply_command(tx, policy, effect)
            return None
        case AddCiFeedback() | AskAboutCi() | RerunFlakyCheck() | BlockTask():
            return apply_ci_effect(tx, policy, effect)
        case _:
            assert_never(effect)


def _apply_command(
    tx: Transaction, policy: RepoPolicy, effect: StoreCommand | RefuseCommand
) -> None:
    if isinstance(effect, StoreCommand):
        store_command(tx, policy, effect)
    else:
        refuse_command(tx, policy, effect)


def _start_task(tx: Transaction, policy: RepoPolicy, effect: StartTask) -> str:
    row, parent = effect.issue.row, effect.parent
    task = Task(
        id=task_id(tx.now(), policy.project, row.scope_number, effect.flow),
        project=policy.project,
        repo_full_name=str(policy.repo),
        issue_number=row.scope_number,
        flow=effect.flow,
        title=parent.title if parent else effect.issue.title,
        author=row.author,
        approved_by=effect.approved_by,
        # An implementation works from the issue text that was approved for its design.
        issue_key=parent.issue_key if parent else row.event_key,
        body_digest=parent.body_digest if parent else effect.issue.digest,
        state=TaskState.QUEUED,
        state_since=tx.stamp(),
        order=next_order(tx),
        agent=parent.agent if parent else policy.agent,
        base_branch=policy.base_branch,
        parent_task=parent.id if parent else None,
        depends_on=parent.depends_on if parent else effect.waits_for.names,
        reason=" ".join(effect.waits_for.left_out),
    )
    add_task(tx, task)
    end_takeover(tx, task, effect.comments_since or row.updated_at)
    _add_earlier_comments(tx, policy, task)
    return task.id


def _add_earlier_comments(tx: Transaction, policy: RepoPolicy, task: Task) -> None:
    """Add comments that were made on the issue before its task existed."""
    for comment in _read_skipped_comments(tx, policy, task.number, (ItemKind.ISSUE_COMMENT,)):
        if comment.row.updated_at >= comment_floors(tx, policy.repo, task.number).comments_since:
            _record_feedback(tx, policy, task, comment, 0)


def add_comments_since(tx: Transaction, policy: RepoPolicy, pull: PullRow, since: str) -> None:
    """Add comments that were made on a pull request while it was closed.

    Comments last edited before `since` are left out; answered ones stay answered.
    """
    task = require_task(tx, pull.task)
    for comment in _read_skipped_comments(tx, policy, pull.pr_number, COMMENT_KINDS):
        if comment.row.updated_at >= since:
            _record_feedback(tx, policy, task, comment, pull.pr_number)


def _read_skipped_comments(
    tx: Transaction, policy: RepoPolicy, number: int, kinds: tuple[ItemKind, ...]
) -> Iterator[CommentEvent]:
    """Yield processed comments of allowed users on a thread, each in its newest version."""
    for kind in kinds:
        for row in rows_of_thread(tx, policy.repo, number, kind.value):
            comment = parse_event(row)
            if row.consumed_at is None or not isinstance(comment, CommentEvent):
                continue
            if comment.is_empty or not policy.allows(row.author):
                continue
            if not comment.has_agent_text(policy.is_operator(row.author)):
                continue
            if is_newest(tx, row):
                yield comment


def _change_state(tx: Transaction, effect: ChangeTaskState) -> str:
    # An earlier effect may have changed the row.
    present = require_task(tx, effect.task.id)
    after = replace(
        present, state=effect.state, reason=effect.reason, question=effect.question, wake_at=None
    )
    if after.over:
        after = replace(after, finishing=False)
    change_task(tx, present, after)
    return present.id


def _update_issue(tx: Transaction, effect: UpdateTaskIssue) -> str:
    present = require_task(tx, effect.task.id)
    row = effect.issue.row
    after = replace(present, issue_key=row.event_key, body_digest=effect.issue.digest)
    named = effect.waits_for
    if named is not None:
        after = replace(after, depends_on=named.names)
        if present.state is TaskState.QUEUED:
            after = replace(after, reason=" ".join(named.left_out))
    change_task(tx, present, after)
    return present.id


def _add_feedback(tx: Transaction, policy: RepoPolicy, effect: AddFeedback) -> str:
    task = require_task(tx, effect.task.id)
    _record_feedback(tx, policy, task, effect.comment, effect.pull)
    after = replace(task, exits_without_progress=0, repair_rounds=0)
    if task.state in _WAITING_STATES:
        reason = f"New comment from @{effect.comment.row.author}."
        # The question about an edited issue was Hostler's, so the agent gets no answer to it.
        asked = "" if task.question == APPROVAL_QUESTION else task.question
        after = replace(after, state=TaskState.QUEUED, reason=reason, question=asked, wake_at=None)
    change_task(tx, task, after)
    pull = find_pull(tx, policy.repo, task.pr_number or 0)
    if pull is not None:
        change_pull(tx, pull, replace(pull, turns_without_person=0))
    return task.id


def _record_feedback(
    tx: Transaction, policy: RepoPolicy, task: Task, comment: CommentEvent, pull: int
) -> None:
    row = comment.row
    supersede(tx, policy.repo, row.kind, row.object_id, row.event_key)
    event = FeedbackEvent(row.event_key, pull, task.number, row.kind, row.object_id, row.updated_at)
    record_feedback_event(tx, policy.repo, event)
    if pull == 0:
        floors = Floors(pre_pr_last_consumed_comment_id=row.object_id)
        raise_floors(tx, policy.repo, task.number, floors)


def _redirect_comment(tx: Transaction, policy: RepoPolicy, effect: RedirectComment) -> None:
    row, task = effect.comment.row, effect.task
    enqueue_action(
        tx,
        policy.repo,
        CreateComment(task.number, REDIRECT_REPLY.format(who=row.author, pull=effect.pull)),
        token=redirect_token(effect.comment),
        lane=Lane.FEEDBACK,
        source="redirect",
    )
    floors = Floors(post_pr_last_redirected_comment_id=row.object_id)
    raise_floors(tx, policy.repo, task.number, floors)


# GitHub is queried about this many issues per poll; events of further ones wait for the next.
MAX_QUERIED_ISSUES = 100
# For events within one second: a merge closes its issue, not the other way round.
_KIND_ORDER = {kind.value: rank for rank, kind in enumerate((ItemKind.PULL, ItemKind.ISSUE))}


@dataclass(frozen=True, slots=True)
class ProcessedEvent:
    """One event, and what was decided about it."""

    number: int
    kind: str
    key: str
    author: str
    decision: IntakeDecision


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The events that were processed, and the ids of the tasks that changed."""

    events: tuple[ProcessedEvent, ...] = ()
    changed: tuple[str, ...] = ()

    def __add__(self, other: ProcessResult) -> ProcessResult:
        changed = dict.fromkeys((*self.changed, *other.changed))
        return ProcessResult((*self.events, *other.events), tuple(changed))


def list_pending_events(tx: Transaction, policy: RepoPolicy) -> list[str]:
    """Return the keys of all events to decide about, in the order in which they happened."""
    return [row.event_key for row in _sort_events(_read_pending(tx, policy))]


def process_inbox(
    tx: Transaction,
    policy: RepoPolicy,
    labellers: LabellersByIssue,
    blockers: BlockersByIssue | None = None,
    keys: Collection[str] | None = None,
    unfinished: UnfinishedRuns | None = None,
) -> ProcessResult:
    """Decide about all pending events and apply the effects. The order of arrival does not matter.

    `keys`: only these events, if they are still pending.
    """
    events: list[ProcessedEvent] = []
    changed: dict[str, None] = {}
    rows = _read_pending(tx, policy) if keys is None else rows_by_key(tx, policy.repo, keys)
    for row in _sort_events(row for row in rows if row.consumed_at is None):
        event = parse_event(row)
        thread = read_thread_state(tx, policy, event, labellers, blockers, unfinished)
        decision = decide(event, thread, policy)
        events.append(_processed_event(row, decision))
        if decision.held:
            hold(tx, row)
        if decision.waits:
            continue
        for effect in decision.effects:
            task = apply_effect(tx, policy, effect)
            if task is not None:
                changed[task] = None
        consume_inbox_rows(tx, policy.repo, [row.event_key])
    return ProcessResult(tuple(events), tuple(changed))


def _sort_events(rows: Iterable[InboxRow]) -> list[InboxRow]:
    """Return events in the order in which they happened, however they arrived."""
    return sorted(
        rows,
        key=lambda row: (row.updated_at, _KIND_ORDER.get(row.kind, 2), row.object_id, row.sequence),
    )


def find_issues_without_labellers(tx: Transaction, policy: RepoPolicy) -> list[int]:
    """Return the pending issues for which GitHub must be queried who set their labels."""
    events: list[InboxEvent] = [parse_event(row) for row in _read_pending(tx, policy)]
    numbers = {s.row.scope_number for s in events if needs_labeller(s, policy)}
    return sorted(number for number in numbers if not tasks_of_issue(tx, policy.repo, number))


def fetch_labellers(forge: Forge, numbers: Iterable[int]) -> dict[int, dict[str, str]]:
    """Query who set the labels of these issues, outside of any transaction.

    Issues for which the query fails are left out: their events stay in the inbox.
    """
    found: dict[int, dict[str, str]] = {}
    for number in numbers:
        try:
            found[number] = forge.labellers(number)
        except ForgeError:
            continue
    return found


def find_issues_without_blockers(tx: Transaction, policy: RepoPolicy) -> list[int]:
    """Return the issues with pending events for which GitHub must be queried what blocks them."""
    events = [parse_event(row) for row in _sort_events(_read_pending(tx, policy))]
    numbers = dict.fromkeys(
        event.row.scope_number
        for event in events
        if needs_blockers(event, _current_task(tx, policy, event), policy)
    )
    return list(numbers)[:MAX_QUERIED_ISSUES]


def fetch_blockers(forge: Forge, numbers: Iterable[int]) -> dict[int, tuple[Blocking, ...]]:
    """Query what blocks these issues, outside of any transaction.

    Issues for which the query fails are left out; one that GitHub refuses to show is not blocked.
    """
    found: dict[int, tuple[Blocking, ...]] = {}
    for number in numbers:
        try:
            found[number] = tuple(forge.blocked_by(number))
        except ServerFailed:
            continue
        except Refused as error:
            if isinstance(error, RateLimited | Unauthorized):
                break
            found[number] = ()
        except ForgeError:
            break
    return found


def _read_pending(tx: Transaction, policy: RepoPolicy) -> list[InboxRow]:
    """Return events to decide about, without those held until their task is unblocked."""
    return rows_to_look_at(tx, policy.repo, EVENT_KINDS)


def _current_task(tx: Transaction, policy: RepoPolicy, event: InboxEvent) -> Task | None:
    return ThreadState(tuple(tasks_of_issue(tx, policy.repo, event.row.scope_number))).current_task


def _processed_event(row: InboxRow, decision: IntakeDecision) -> ProcessedEvent:
    return ProcessedEvent(row.scope_number, row.kind, row.event_key, row.author, decision)
