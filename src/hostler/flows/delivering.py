"""What follows from work that passed its checks: a pull request, or answers on it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import Verdict
from hostler.config.settings import Tasks
from hostler.flows.ci import Failure, suspected
from hostler.flows.finishing import Work
from hostler.flows.outcomes import Facts, after_run
from hostler.flows.steps import Answered, Effect, PullStands, Step
from hostler.flows.texts import open_pull, replies
from hostler.flows.trouble import nothing_done
from hostler.intake import Remark
from hostler.store.pull_requests import PullStatus
from hostler.store.tasks import Task, TaskState

SILENT = "It ended without a word and without a change."


@dataclass(frozen=True, slots=True)
class Delivery:
    """What is known when the work is on the remote.

    `more`: further words came while the agent was at work; `last_head` is the pull request's
    head before.
    """

    work: Work
    verdict: Verdict
    remarks: tuple[Remark, ...] = ()
    more: bool = False
    last_head: str = ""
    failures: tuple[Failure, ...] = ()


def after_work(task: Task, delivery: Delivery, facts: Facts, limits: Tasks) -> Step:
    """The task after its work has passed every check."""
    if task.state is not TaskState.RUNNING:
        return Step(task)
    answered = task.pr_number is not None and _says_something(delivery)
    if not answered and (delivery.failures or not delivery.work.any):
        return _nothing(task, delivery, facts, limits)
    effects: list[Effect] = []
    if task.pr_number is None:
        effects.append(open_pull(task, delivery.verdict.result, delivery.work.base_branch))
    else:
        alone = bool(delivery.failures) and not delivery.remarks
        head = delivery.work.head
        effects.append(PullStands(PullStatus.AWAITING_FEEDBACK, head, without_person=alone))
        effects += _unmended(delivery)
    effects += replies(task, delivery.remarks, delivery.verdict.result, _changed(delivery))
    effects.append(Answered(task.turn_keys))
    return Step(_delivered(task, delivery, facts), tuple(effects))


def _unmended(delivery: Delivery) -> list[Effect]:
    """CI that the agent has looked at and left as it is may be a flake."""
    if _changed(delivery):
        return []
    result = delivery.verdict.result
    return suspected(delivery.failures, result.summary if result else "")


def _delivered(task: Task, delivery: Delivery, facts: Facts) -> Task:
    state = TaskState.QUEUED if delivery.more else TaskState.AWAITING_FEEDBACK
    reason = "More was said meanwhile." if delivery.more else "The work waits for a review."
    return replace(
        task,
        state=state,
        reason=reason,
        session=facts.session or task.session,
        progress=facts.progress or task.progress,
        turn=task.turn + 1,
        turn_keys=(),
        note="",
        question="",
        wake_at=None,
        finishing=False,
        exits_without_progress=0,
        repair_rounds=0,
        requeues=0,
        outages=0,
    )


def _nothing(task: Task, delivery: Delivery, facts: Facts, limits: Tasks) -> Step:
    verdict = delivery.verdict
    if not verdict.declared:
        return after_run(task, replace(verdict, outcome=Outcome.CRASH, why=SILENT), facts, limits)
    step = nothing_done(task, verdict.result.summary if verdict.result else "")
    # The words were read; what they led to is the question.
    heard = replace(step.task, turn_keys=(), session=facts.session or task.session)
    return Step(heard, (*step.effects, Answered(task.turn_keys)))


def _says_something(delivery: Delivery) -> bool:
    """On a pull request, words alone may be an answer; silence is not."""
    return delivery.verdict.declared or bool(delivery.work.pushed)


def _changed(delivery: Delivery) -> str | None:
    """The head to point at, if this turn has moved it."""
    head = delivery.work.head
    return head if delivery.work.pushed or head != delivery.last_head else None
