"""Rules of tasks by hand: when one is done, and when its agent is started again. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import DecidedBy, Verdict
from hostler.config.settings import Tasks
from hostler.flows.outcomes import Facts, after_run, fail, later, wants_finishing
from hostler.flows.steps import Step
from hostler.store.tasks import Task, TaskState

NOT_DONE = "It ended without saying that its task is done."
# In `blockers` of a task that is done but for its children.
CHILDREN = "children"


def after_hand_run(task: Task, verdict: Verdict, facts: Facts, limits: Tasks) -> Step:
    """A task in a folder, after one of its runs."""
    if task.state is not TaskState.RUNNING:
        return Step(task)
    if verdict.decided_by is DecidedBy.DONE and verdict.outcome is Outcome.BAD_RESULT:
        return fail(task, verdict.why)
    if wants_finishing(task, verdict):
        return Step(done(task, verdict, facts))
    if verdict.outcome is Outcome.SUCCESS:
        # Nobody knows whether it is done: as any exit, it counts by its progress.
        verdict = replace(verdict, outcome=Outcome.CRASH, why=NOT_DONE)
    return after_run(task, verdict, facts, limits)


def done(task: Task, verdict: Verdict, facts: Facts) -> Task:
    """A task whose agent said that nothing is left to do."""
    summary = verdict.result.summary.strip() if verdict.result else ""
    return replace(
        task,
        state=TaskState.DONE,
        reason=summary[:2000] or verdict.why,
        session=facts.session or task.session,
        progress=facts.progress or task.progress,
        wake_at=None,
        finishing=False,
        blockers="",
        note="",
        question="",
    )


def await_children(task: Task, now: datetime, count: int, limits: Tasks) -> Task:
    """Done but for its children: it holds nothing, and is finished when they are, or in time."""
    if task.state is not TaskState.RUNNING:
        return task
    until = now + timedelta(seconds=limits.child_wait_timeout_seconds)
    many = f"{count} child task{'s' if count != 1 else ''}"
    waiting = replace(task, finishing=True, blockers=CHILDREN)
    return later(waiting, TaskState.PARKED, f"It is done; {many} of it still at work.", until)


def awaits_children(task: Task) -> bool:
    """Whether a task is done but for its children."""
    return task.state is TaskState.PARKED and task.finishing and task.blockers == CHILDREN
