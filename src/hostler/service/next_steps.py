"""What a task that does not wait for a place is doing, and what comes next. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hostler.flows.commands import CANCELLED
from hostler.service.waits import awaited
from hostler.store.runs import LIVE, Run
from hostler.store.tasks import Task, TaskState


@dataclass(frozen=True, slots=True)
class NextStep:
    """What is going on, and what a person can do, or what follows by itself."""

    what: str
    then: str = ""


def next_step(task: Task, open_runs: Sequence[Run] = ()) -> NextStep:
    """Where a task stands. For those that wait for a place, `why` knows more."""
    if task.over and open_runs:
        return NextStep(_said(task), "Its agent is being ended.")
    if task.state is TaskState.RUNNING:
        return _running(task, open_runs)
    return _STEPS.get(task.state, _waits)(task)


def _running(task: Task, open_runs: Sequence[Run]) -> NextStep:
    run = next(iter(open_runs), None)
    follow = f"Follow it: hostler task tail {task.id}"
    if run is None or run.state not in LIVE:
        return NextStep("Its agent is done; its work is checked and handed on.", "Wait.")
    if run.lent_at is not None and run.back_wanted_at is not None:
        return NextStep("Its agent is through with waiting, and wants its place back.", "Wait.")
    if run.lent_at is not None:
        others = ", ".join(awaited(run)) or "other tasks"
        return NextStep(f"Its agent waits for {others}, and has lent its place.", follow)
    return NextStep(f"An agent is at work: {run.agent}, attempt {task.attempt}.", follow)


def _review(task: Task) -> NextStep:
    pull = f"{task.repo_full_name}#{task.pr_number}" if task.pr_number else "Its pull request"
    then = "Review it: comments are taken up, merging it ends the task, closing it stops it."
    return NextStep(f"{pull} awaits its review.", then)


def _asks(task: Task) -> NextStep:
    where = f"{task.repo_full_name}#{task.pr_number or task.number}"
    on_github = f"Answer with a comment on {where}."
    then = f'Answer it: hostler task answer {task.id} "…"' if task.by_hand else on_github
    return NextStep(f"It asks: {' '.join(task.question.split())}", then)


def _blocked(task: Task) -> NextStep:
    return NextStep(_said(task), f"When that is mended: hostler task resume {task.id}")


def _stopped(task: Task) -> NextStep:
    again = f"begin anew: hostler task retry {task.id}"
    if task.reason.startswith(CANCELLED):
        return NextStep(_said(task), f"It stays so; {again}")
    return NextStep(_said(task), f"Go on: hostler task resume {task.id}; {again}")


def _failed(task: Task) -> NextStep:
    look = f"See what it said: hostler task logs {task.id}"
    return NextStep(_said(task), f"{look}; begin anew: hostler task retry {task.id}")


def _done(task: Task) -> NextStep:
    return NextStep(_said(task), "Nothing is left to do.")


def _waits(task: Task) -> NextStep:
    return NextStep(_said(task), f"See what holds it: hostler why {task.id}")


def _said(task: Task) -> str:
    state = task.state.value.replace("_", " ")
    reason = " ".join(task.reason.split())
    return f"It is {state}. {reason}" if reason else f"It is {state}."


_STEPS: dict[TaskState, Callable[[Task], NextStep]] = {
    TaskState.AWAITING_FEEDBACK: _review,
    TaskState.NEEDS_INPUT: _asks,
    TaskState.BLOCKED: _blocked,
    TaskState.STOPPED: _stopped,
    TaskState.FAILED: _failed,
    TaskState.DONE: _done,
}
