"""Effects become rows, inside the transaction that consumes their event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from hostler.forge.deeds import Comment
from hostler.forge.outbox import enqueue
from hostler.forge.port import ItemKind
from hostler.intake.applying_ci import apply_ci
from hostler.intake.effects import (
    AskAboutCi,
    Begin,
    Effect,
    Hear,
    Move,
    Note,
    PullIs,
    Redirect,
    Refuse,
    Repeat,
    Reword,
    Stick,
    TakeOver,
    TellOfRuns,
)
from hostler.intake.issues import VOID_QUESTION
from hostler.intake.looking import redirect_token
from hostler.intake.noting import note_command, refuse_command
from hostler.intake.people import Watch
from hostler.intake.signals import SPOKEN, Remark, read
from hostler.intake.takeover import give_back, take_over
from hostler.store.inbox import (
    FeedbackEvent,
    is_newest,
    record_feedback_event,
    rows_of_thread,
    supersede,
)
from hostler.store.outbox import Lane
from hostler.store.pull_requests import (
    Floors,
    PullRow,
    change_pull,
    comment_floors,
    find_pull,
    raise_floors,
)
from hostler.store.tasks import (
    Task,
    TaskState,
    add_task,
    change_task,
    next_order,
    require_task,
    task_id,
)
from hostler.store.transaction import Transaction

REDIRECT = "@{who}: the work on this issue is talked about on pull request #{pull} now. \
Please say it there, and it will be taken up."
# States in which a task waits for somebody to speak.
_LISTENING = (TaskState.AWAITING_FEEDBACK, TaskState.NEEDS_INPUT)


def apply(tx: Transaction, watch: Watch, effect: Effect) -> str | None:
    """Make one effect true; the task that it changed, if any."""
    match effect:
        case Begin():
            return _begin(tx, watch, effect)
        case Move():
            return _move(tx, effect)
        case Reword():
            return _reword(tx, effect)
        case Hear():
            return _hear(tx, watch, effect)
        case Redirect():
            _redirect(tx, watch, effect)
            return None
        case PullIs():
            after = replace(effect.pull, status=effect.status, last_seen_head_sha=effect.head_sha)
            change_pull(tx, effect.pull, after)
            return effect.pull.task
        case TakeOver():
            take_over(tx, effect.task)
            return None
        case Note() | Refuse():
            _command(tx, watch, effect)
            return None
        case TellOfRuns() | AskAboutCi() | Repeat() | Stick():
            return apply_ci(tx, watch, effect)
        case _:
            assert_never(effect)


def _command(tx: Transaction, watch: Watch, effect: Note | Refuse) -> None:
    if isinstance(effect, Note):
        note_command(tx, watch, effect)
    else:
        refuse_command(tx, watch, effect)


def _begin(tx: Transaction, watch: Watch, begin: Begin) -> str:
    row, parent = begin.issue.row, begin.parent
    task = Task(
        id=task_id(tx.now(), watch.project, row.scope_number, begin.flow),
        project=watch.project,
        repo_full_name=str(watch.repo),
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
        agent=parent.agent if parent else watch.agent,
        base_branch=watch.base_branch,
        parent_task=parent.id if parent else None,
        depends_on=parent.depends_on if parent else begin.waits_for.names,
        reason=" ".join(begin.waits_for.left_out),
    )
    add_task(tx, task)
    give_back(tx, task, begin.heard_from or row.updated_at)
    _hear_earlier(tx, watch, task)
    return task.id


def _hear_earlier(tx: Transaction, watch: Watch, task: Task) -> None:
    """Words on the issue that arrived before its task did are its words too."""
    for said in _passed_over(tx, watch, task.number, (ItemKind.ISSUE_COMMENT,)):
        if said.row.updated_at >= comment_floors(tx, watch.repo, task.number).heard_from:
            _record(tx, watch, task, said, 0)


def hear_since(tx: Transaction, watch: Watch, pull: PullRow, since: str) -> None:
    """Words on a pull request that came when it was closed are its task's words after all.

    Those changed before a moment are left out; what was answered stays so.
    """
    task = require_task(tx, pull.task)
    for said in _passed_over(tx, watch, pull.pr_number, SPOKEN):
        if said.row.updated_at >= since:
            _record(tx, watch, task, said, pull.pr_number)


def _passed_over(
    tx: Transaction, watch: Watch, number: int, kinds: tuple[ItemKind, ...]
) -> Iterator[Remark]:
    """What allowed people said on a thread and was looked at, each in its newest version."""
    for kind in kinds:
        for row in rows_of_thread(tx, watch.repo, number, kind.value):
            said = read(row)
            if row.consumed_at is None or not isinstance(said, Remark):
                continue
            if said.is_empty or not watch.allows(row.author):
                continue
            if not said.is_work(watch.obeys(row.author)):
                continue
            if is_newest(tx, row):
                yield said


def _move(tx: Transaction, move: Move) -> str:
    # An effect before this one may have changed the row.
    present = require_task(tx, move.task.id)
    after = replace(
        present, state=move.state, reason=move.reason, question=move.question, wake_at=None
    )
    if after.over:
        after = replace(after, finishing=False)
    change_task(tx, present, after)
    return present.id


def _reword(tx: Transaction, reword: Reword) -> str:
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


def _hear(tx: Transaction, watch: Watch, hear: Hear) -> str:
    task = require_task(tx, hear.task.id)
    _record(tx, watch, task, hear.remark, hear.pull)
    after = replace(task, exits_without_progress=0, repair_rounds=0)
    if task.state in _LISTENING:
        reason = f"{hear.remark.row.author} said something."
        # Our own question about the text was not the agent's.
        asked = "" if task.question == VOID_QUESTION else task.question
        after = replace(after, state=TaskState.QUEUED, reason=reason, question=asked, wake_at=None)
    change_task(tx, task, after)
    pull = find_pull(tx, watch.repo, task.pr_number or 0)
    if pull is not None:
        change_pull(tx, pull, replace(pull, turns_without_person=0))
    return task.id


def _record(tx: Transaction, watch: Watch, task: Task, said: Remark, pull: int) -> None:
    row = said.row
    supersede(tx, watch.repo, row.kind, row.object_id, row.event_key)
    event = FeedbackEvent(row.event_key, pull, task.number, row.kind, row.object_id, row.updated_at)
    record_feedback_event(tx, watch.repo, event)
    if pull == 0:
        heard = Floors(pre_pr_last_consumed_comment_id=row.object_id)
        raise_floors(tx, watch.repo, task.number, heard)


def _redirect(tx: Transaction, watch: Watch, redirect: Redirect) -> None:
    row, task = redirect.remark.row, redirect.task
    enqueue(
        tx,
        watch.repo,
        Comment(task.number, REDIRECT.format(who=row.author, pull=redirect.pull)),
        token=redirect_token(redirect.remark),
        lane=Lane.FEEDBACK,
        source="redirect",
    )
    sent = Floors(post_pr_last_redirected_comment_id=row.object_id)
    raise_floors(tx, watch.repo, task.number, sent)
