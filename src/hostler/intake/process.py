"""Process the inbox: decide about each event and apply its effects in one transaction.

Also takeover: while people have the work of a task, its comments are ignored.
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

# `heard_from` while people have the work.
TAKEN_OVER = "9999-12-31T23:59:59.999Z"


def take_over(tx: Transaction, task: Task) -> None:
    """People have it: what was said until now is let go, and nothing more is heard."""
    waiting = waiting_keys(tx, task.repo, task.number, task.pr_number)
    mark_feedback_events_processed(tx, task.repo, waiting)
    hear_from(tx, task.repo, thread_number(task), TAKEN_OVER)


def end_takeover(tx: Transaction, task: Task, at: datetime | str | None = None) -> None:
    """Agents have it again: words count from this moment of GitHub's on.

    None: GitHub was not asked, so the newest moment that it has shown us.
    """
    if task.repo_full_name is None or not thread_number(task):
        return
    if comment_floors(tx, task.repo, thread_number(task)).heard_from == TAKEN_OVER:
        moment = newest_shown(tx, task.repo_full_name) if at is None else at
        hear_from(tx, task.repo, thread_number(task), truncate_to_second(moment))


def truncate_to_second(moment: datetime | str) -> str:
    """A moment as GitHub would write it: what is said within its second is not older."""
    if isinstance(moment, datetime):
        moment = format_timestamp(moment)
    return f"{normal_stamp(moment)[:19]}.000Z" if moment else ""


def thread_number(task: Task) -> int:
    """The issue that a task's floors belong to; its pull request, where there is no issue."""
    return task.number or task.pr_number or 0


REDIRECT_REPLY = "@{who}: the work on this issue is talked about on pull request #{pull} now. \
Please say it there, and it will be taken up."
# States in which a task waits for somebody to speak.
_WAITING_STATES = (TaskState.AWAITING_FEEDBACK, TaskState.NEEDS_INPUT)


def apply_effect(tx: Transaction, policy: RepoPolicy, effect: IntakeEffect) -> str | None:
    """Make one effect true; the task that it changed, if any."""
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
            take_over(tx, effect.task)
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


def _start_task(tx: Transaction, policy: RepoPolicy, begin: StartTask) -> str:
    row, parent = begin.issue.row, begin.parent
    task = Task(
        id=task_id(tx.now(), policy.project, row.scope_number, begin.flow),
        project=policy.project,
        repo_full_name=str(policy.repo),
        issue_number=row.scope_number,
        flow=begin.flow,
        title=parent.title if parent else begin.issue.title,
        author=row.author,
        approved_by=begin.approved_by,
        # What follows a design works from the text that was approved for it.
        issue_key=parent.issue_key if parent else row.event_key,
        body_digest=parent.body_digest if parent else begin.issue.digest,
        state=TaskState.QUEUED,
        state_since=tx.stamp(),
        order=next_order(tx),
        agent=parent.agent if parent else policy.agent,
        base_branch=policy.base_branch,
        parent_task=parent.id if parent else None,
        depends_on=parent.depends_on if parent else begin.waits_for.names,
        reason=" ".join(begin.waits_for.left_out),
    )
    add_task(tx, task)
    end_takeover(tx, task, begin.heard_from or row.updated_at)
    _add_earlier_comments(tx, policy, task)
    return task.id


def _add_earlier_comments(tx: Transaction, policy: RepoPolicy, task: Task) -> None:
    """Words on the issue that arrived before its task did are its words too."""
    for said in _read_skipped_comments(tx, policy, task.number, (ItemKind.ISSUE_COMMENT,)):
        if said.row.updated_at >= comment_floors(tx, policy.repo, task.number).heard_from:
            _record_feedback(tx, policy, task, said, 0)


def add_comments_since(tx: Transaction, policy: RepoPolicy, pull: PullRow, since: str) -> None:
    """Words on a pull request that came when it was closed are its task's words after all.

    Those changed before a moment are left out; what was answered stays so.
    """
    task = require_task(tx, pull.task)
    for said in _read_skipped_comments(tx, policy, pull.pr_number, COMMENT_KINDS):
        if said.row.updated_at >= since:
            _record_feedback(tx, policy, task, said, pull.pr_number)


def _read_skipped_comments(
    tx: Transaction, policy: RepoPolicy, number: int, kinds: tuple[ItemKind, ...]
) -> Iterator[CommentEvent]:
    """What allowed people said on a thread and was looked at, each in its newest version."""
    for kind in kinds:
        for row in rows_of_thread(tx, policy.repo, number, kind.value):
            said = parse_event(row)
            if row.consumed_at is None or not isinstance(said, CommentEvent):
                continue
            if said.is_empty or not policy.allows(row.author):
                continue
            if not said.is_work(policy.is_operator(row.author)):
                continue
            if is_newest(tx, row):
                yield said


def _change_state(tx: Transaction, move: ChangeTaskState) -> str:
    # An effect before this one may have changed the row.
    present = require_task(tx, move.task.id)
    after = replace(
        present, state=move.state, reason=move.reason, question=move.question, wake_at=None
    )
    if after.over:
        after = replace(after, finishing=False)
    change_task(tx, present, after)
    return present.id


def _update_issue(tx: Transaction, reword: UpdateTaskIssue) -> str:
    present = require_task(tx, reword.task.id)
    row = reword.issue.row
    after = replace(present, issue_key=row.event_key, body_digest=reword.issue.digest)
    named = reword.waits_for
    if named is not None:
        after = replace(after, depends_on=named.names)
        if present.state is TaskState.QUEUED:
            after = replace(after, reason=" ".join(named.left_out))
    change_task(tx, present, after)
    return present.id


def _add_feedback(tx: Transaction, policy: RepoPolicy, hear: AddFeedback) -> str:
    task = require_task(tx, hear.task.id)
    _record_feedback(tx, policy, task, hear.remark, hear.pull)
    after = replace(task, exits_without_progress=0, repair_rounds=0)
    if task.state in _WAITING_STATES:
        reason = f"{hear.remark.row.author} said something."
        # Our own question about the text was not the agent's.
        asked = "" if task.question == APPROVAL_QUESTION else task.question
        after = replace(after, state=TaskState.QUEUED, reason=reason, question=asked, wake_at=None)
    change_task(tx, task, after)
    pull = find_pull(tx, policy.repo, task.pr_number or 0)
    if pull is not None:
        change_pull(tx, pull, replace(pull, turns_without_person=0))
    return task.id


def _record_feedback(
    tx: Transaction, policy: RepoPolicy, task: Task, said: CommentEvent, pull: int
) -> None:
    row = said.row
    supersede(tx, policy.repo, row.kind, row.object_id, row.event_key)
    event = FeedbackEvent(row.event_key, pull, task.number, row.kind, row.object_id, row.updated_at)
    record_feedback_event(tx, policy.repo, event)
    if pull == 0:
        heard = Floors(pre_pr_last_consumed_comment_id=row.object_id)
        raise_floors(tx, policy.repo, task.number, heard)


def _redirect_comment(tx: Transaction, policy: RepoPolicy, redirect: RedirectComment) -> None:
    row, task = redirect.remark.row, redirect.task
    enqueue_action(
        tx,
        policy.repo,
        CreateComment(task.number, REDIRECT_REPLY.format(who=row.author, pull=redirect.pull)),
        token=redirect_token(redirect.remark),
        lane=Lane.FEEDBACK,
        source="redirect",
    )
    sent = Floors(post_pr_last_redirected_comment_id=row.object_id)
    raise_floors(tx, policy.repo, task.number, sent)


# Issues that GitHub is asked about in one look; the events of further ones wait for the next.
MAX_QUERIED_ISSUES = 100
# Of things that happened in one second: a merge closes its issue, not the other way round.
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
    """What a pass did."""

    heard: tuple[ProcessedEvent, ...] = ()
    changed: tuple[str, ...] = ()

    def __add__(self, other: ProcessResult) -> ProcessResult:
        changed = dict.fromkeys((*self.changed, *other.changed))
        return ProcessResult((*self.heard, *other.heard), tuple(changed))


def list_pending_events(tx: Transaction, policy: RepoPolicy) -> list[str]:
    """The keys of all that is worth a look, as it happened."""
    return [row.event_key for row in sort_events(_read_pending(tx, policy))]


def process_inbox(
    tx: Transaction,
    policy: RepoPolicy,
    labellers: LabellersByIssue,
    blockers: BlockersByIssue | None = None,
    keys: Collection[str] | None = None,
    unfinished: UnfinishedRuns | None = None,
) -> ProcessResult:
    """Decide about every event that waits, and make it so. The order of arrival does not matter.

    `keys`: only about these, as far as they still wait.
    """
    heard: list[ProcessedEvent] = []
    changed: dict[str, None] = {}
    rows = _read_pending(tx, policy) if keys is None else rows_by_key(tx, policy.repo, keys)
    for row in sort_events(row for row in rows if row.consumed_at is None):
        signal = parse_event(row)
        known = read_thread_state(tx, policy, signal, labellers, blockers, unfinished)
        decision = decide(signal, known, policy)
        heard.append(_processed_event(row, decision))
        if decision.held:
            hold(tx, row)
        if decision.waits:
            continue
        for effect in decision.effects:
            task = apply_effect(tx, policy, effect)
            if task is not None:
                changed[task] = None
        consume_inbox_rows(tx, policy.repo, [row.event_key])
    return ProcessResult(tuple(heard), tuple(changed))


def sort_events(rows: Iterable[InboxRow]) -> list[InboxRow]:
    """Events as they happened, however they arrived."""
    return sorted(
        rows,
        key=lambda row: (row.updated_at, _KIND_ORDER.get(row.kind, 2), row.object_id, row.sequence),
    )


def find_issues_without_labellers(tx: Transaction, policy: RepoPolicy) -> list[int]:
    """Issues that wait and need to be asked who labelled them."""
    signals: list[InboxEvent] = [parse_event(row) for row in _read_pending(tx, policy)]
    numbers = {s.row.scope_number for s in signals if needs_labeller(s, policy)}
    return sorted(number for number in numbers if not tasks_of_issue(tx, policy.repo, number))


def fetch_labellers(forge: Forge, numbers: Iterable[int]) -> dict[int, dict[str, str]]:
    """Who labelled these issues; the network is asked here, outside of any transaction.

    An issue about which GitHub did not answer is left out: its event waits.
    """
    found: dict[int, dict[str, str]] = {}
    for number in numbers:
        try:
            found[number] = forge.labellers(number)
        except ForgeError:
            continue
    return found


def find_issues_without_blockers(tx: Transaction, policy: RepoPolicy) -> list[int]:
    """Issues that wait and need to be asked what blocks them, a bounded number at a time."""
    signals = [parse_event(row) for row in sort_events(_read_pending(tx, policy))]
    numbers = dict.fromkeys(
        signal.row.scope_number
        for signal in signals
        if needs_blockers(signal, _current_task(tx, policy, signal), policy)
    )
    return list(numbers)[:MAX_QUERIED_ISSUES]


def fetch_blockers(forge: Forge, numbers: Iterable[int]) -> dict[int, tuple[Blocking, ...]]:
    """What blocks these issues; the network is asked here, outside of any transaction.

    An issue about which GitHub did not answer is left out, and one that it will not talk about
    is blocked by nothing.
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
    """What is worth a look: words of a blocked task were looked at when they came."""
    return rows_to_look_at(tx, policy.repo, EVENT_KINDS)


def _current_task(tx: Transaction, policy: RepoPolicy, signal: InboxEvent) -> Task | None:
    return ThreadState(tuple(tasks_of_issue(tx, policy.repo, signal.row.scope_number))).present


def _processed_event(row: InboxRow, decision: IntakeDecision) -> ProcessedEvent:
    return ProcessedEvent(row.scope_number, row.kind, row.event_key, row.author, decision)
