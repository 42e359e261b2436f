"""Rules of tasks by hand: when one is done, and when its agent is started again. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import DecidedBy, Verdict
from hostler.config.settings import Tasks
from hostler.flows.outcomes import Facts, after_run, fail, later, wants_finishing
from hostler.flows.steps import Step
from hostler.store.tasks import Task, TaskState

NOT_DONE = "It ended without saying that its task is done."
# Nothing of it is at work, and something may start by itself.
WAITING = frozenset({TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED})
# It came to nothing so far. A stop is none of these: it comes before the mark.
AT_A_LOSS = frozenset({TaskState.NEEDS_INPUT, TaskState.BLOCKED, TaskState.FAILED})
# In `blockers` of a task that is done but for its children.
CHILDREN = "children"


def after_hand_run(task: Task, verdict: Verdict, facts: Facts, limits: Tasks) -> Step:
    """A task in a folder, after one of its runs."""
    if wants_finishing(task, verdict):
        return Step(done(task, verdict, facts))
    return after_unfinished(task, verdict, facts, limits)


def after_unfinished(task: Task, verdict: Verdict, facts: Facts, limits: Tasks) -> Step:
    """A task by hand, after a run in which nobody said in earnest that it is done."""
    if task.state is not TaskState.RUNNING:
        return Step(task)
    if verdict.decided_by is DecidedBy.DONE and verdict.outcome is Outcome.BAD_RESULT:
        return fail(task, f"{verdict.why} Remove it, then: hostler task retry {task.id}")
    if verdict.outcome is Outcome.SUCCESS:
        # Nobody knows whether it is done: as any exit, it counts by its progress.
        verdict = replace(verdict, outcome=Outcome.CRASH, why=NOT_DONE)
    return after_run(task, verdict, facts, limits)


@dataclass(frozen=True, slots=True)
class Around:
    """What counts beside a mark. `made`: there is a checkout with work; `children`: at work."""

    made: bool = False
    children: int = 0


def when_marked(task: Task, mark: Verdict, around: Around, facts: Facts, limits: Tasks) -> Step:
    """A task by hand that somebody marked, with no agent of it about to end.

    It goes as if an attempt had found the mark: no agent starts. What was made in a checkout is
    brought in by that attempt itself, and only need not wait for its time any more.
    """
    good = mark.outcome is Outcome.SUCCESS
    if task.turn or task.finishing:
        return Step(task)
    if task.state is TaskState.RUNNING:
        # Its agent has not left yet; whoever depends on its work need not wait for that.
        return Step(replace(task, finishing=good and task.repo_full_name is None))
    if task.state not in WAITING and not (good and task.state in AT_A_LOSS):
        return Step(task)
    if good and around.made:
        return Step(replace(task, wake_at=None) if task.state in WAITING else task)
    at_work = replace(task, state=TaskState.RUNNING)
    if good and around.children:
        return Step(await_children(at_work, facts.now, around.children, limits))
    return after_hand_run(at_work, mark, facts, limits)


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
    waiting = replace(task, finishing=True, blockers=CHILDREN)
    reason = f"It is done; {so_many(count)} of it still at work."
    return later(waiting, TaskState.PARKED, reason, until)


def so_many(count: int) -> str:
    """A number of children, in words."""
    return f"{count} child task{'s' if count != 1 else ''}"


def awaits_children(task: Task) -> bool:
    """Whether a task is done but for its children."""
    return task.state is TaskState.PARKED and task.finishing and task.blockers == CHILDREN
