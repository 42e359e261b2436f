"""Effects of failing CI become rows, inside the transaction that consumes their event."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from hostler.forge.deeds import Comment
from hostler.forge.outbox import enqueue, token_of
from hostler.intake.ci import flaky_issue, names_of, rerun
from hostler.intake.effects import AskAboutCi, CiEffect, Repeat, Stick, TellOfRuns
from hostler.intake.people import Watch
from hostler.intake.signals import RunSeen
from hostler.store.inbox import FeedbackEvent, record_feedback_event, supersede
from hostler.store.outbox import Lane
from hostler.store.pull_requests import PullStatus, change_pull
from hostler.store.tasks import Task, TaskState, change_task, require_task
from hostler.store.transaction import Transaction


def apply_ci(tx: Transaction, watch: Watch, effect: CiEffect) -> str:
    """Make one effect true; the task that it is about."""
    match effect:
        case TellOfRuns():
            return _tell(tx, watch, effect)
        case AskAboutCi():
            return _ask(tx, watch, effect)
        case Repeat():
            return _repeat(tx, watch, effect)
        case Stick():
            return _stick(tx, watch, effect)
        case _:
            assert_never(effect)


def _tell(tx: Transaction, watch: Watch, effect: TellOfRuns) -> str:
    """The next turn is about these runs too."""
    task = _noted(tx, watch, effect.task, effect.runs, effect.pull)
    if task.state is TaskState.AWAITING_FEEDBACK:
        reason = f"CI failed: {names_of(effect.runs)}."
        queued = replace(task, state=TaskState.QUEUED, reason=reason[:2000], wake_at=None)
        change_task(tx, task, queued)
    return task.id


def _ask(tx: Transaction, watch: Watch, effect: AskAboutCi) -> str:
    """The runs are kept for the turn that an answer begins."""
    task = _noted(tx, watch, effect.task, effect.runs, effect.pull)
    asked = replace(
        task,
        state=TaskState.NEEDS_INPUT,
        reason="A person's answer is needed.",
        question=effect.question,
        wake_at=None,
    )
    change_task(tx, task, asked)
    body = f"{effect.question}\n\n*Answer here with a comment, and the work goes on.*"
    keys = sorted(one.row.event_key for one in effect.runs)
    _say(tx, watch, effect.pull, body, token_of("ask", task.id, *keys))
    return task.id


def _repeat(tx: Transaction, watch: Watch, effect: Repeat) -> str:
    """Run it once more, and tell people."""
    for deed, token in (rerun(effect.run), flaky_issue(effect.run, effect.why)):
        enqueue(tx, watch.repo, deed, token=token, lane=Lane.FEEDBACK, source="ci")
    return effect.task.id


def _stick(tx: Transaction, watch: Watch, effect: Stick) -> str:
    """It waits for the operator."""
    task = require_task(tx, effect.task.id)
    change_task(
        tx,
        task,
        replace(task, state=TaskState.BLOCKED, reason=effect.why[:2000], wake_at=None),
    )
    change_pull(tx, effect.pull, replace(effect.pull, status=PullStatus.BLOCKED))
    body = f"The work cannot go on by itself:\n\n{effect.why}"
    token = token_of("blocked", task.id, task.attempt, effect.why)
    _say(tx, watch, effect.pull.pr_number, body, token)
    return task.id


def _noted(tx: Transaction, watch: Watch, task: Task, runs: Iterable[RunSeen], pull: int) -> Task:
    for one in runs:
        row = one.row
        supersede(tx, watch.repo, row.kind, row.object_id, row.event_key)
        event = FeedbackEvent(
            row.event_key, pull, task.number, row.kind, row.object_id, row.updated_at
        )
        record_feedback_event(tx, watch.repo, event)
    return require_task(tx, task.id)


def _say(tx: Transaction, watch: Watch, number: int, body: str, token: str) -> None:
    deed = Comment(number, body)
    enqueue(tx, watch.repo, deed, token=token, lane=Lane.FEEDBACK, source="ci")
