"""Manual tasks: validate and store a submission, and decide after each run of one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import DecidedBy, RunVerdict
from hostler.config.settings import Tasks
from hostler.errors import HostlerError
from hostler.store.tasks import (
    Flow,
    Task,
    TaskState,
    add_task,
    find_task,
    hand_task_id,
    next_order,
    require_task,
)
from hostler.store.transaction import Transaction
from hostler.workflows.effects import TaskTransition
from hostler.workflows.outcomes import (
    RunEndFacts,
    decide_after_run,
    is_ready_to_finish,
    schedule_wake,
    to_failed,
)

MAX_PROMPT_LENGTH = 1_000_000
MAX_TITLE_LENGTH = 120


class NotSubmitted(HostlerError):
    """What was asked for cannot become a task."""

    exit_code = 2

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, safe="Nothing was queued.", remedy=remedy)


@dataclass(frozen=True, slots=True)
class TaskSubmission:
    """What somebody asks for. Empty: as the settings say, or none."""

    project: str
    prompt: str
    author: str
    cwd: str = ""
    repo_full_name: str | None = None
    base_branch: str = ""
    agent: str = ""
    depends_on: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    wall_limit_minutes: int = 0
    max_restarts: int | None = None
    parent_task: str | None = None
    title: str = ""


def submit_task(tx: Transaction, order: TaskSubmission) -> Task:
    """The new task, at the end of the queue."""
    validate_submission(order)
    if order.parent_task is not None:
        _require_parent(tx, order.parent_task)
    title = order.title.strip() or title_from_prompt(order.prompt)
    task = Task(
        id=hand_task_id(tx, order.project, title),
        project=order.project,
        repo_full_name=order.repo_full_name,
        issue_number=None,
        flow=Flow.TASK,
        title=title,
        author=order.author,
        approved_by=order.author,
        state=TaskState.QUEUED,
        state_since=tx.stamp(),
        order=next_order(tx),
        agent=order.agent,
        base_branch=order.base_branch,
        parent_task=order.parent_task,
        prompt=order.prompt,
        cwd=order.cwd,
        env=order.env,
        depends_on=order.depends_on,
        wall_limit_minutes=order.wall_limit_minutes,
        max_restarts=order.max_restarts,
    )
    add_task(tx, task)
    return require_task(tx, task.id)


def _require_parent(tx: Transaction, name: str) -> None:
    """A stop reaches all that came from a task: what comes later must not escape it."""
    parent = find_task(tx, name)
    if parent is None:
        raise NotSubmitted(f"There is no task {name} that this could be a child of.")
    if parent.over:
        raise NotSubmitted(
            f"The task {name} is {parent.state}: nothing new comes from it.",
            "Outside of its run, unset HOSTLER_TASK.",
        )


def validate_submission(order: TaskSubmission) -> None:
    """Refuse what no agent could work on."""
    if not order.prompt.strip():
        raise NotSubmitted("The prompt is empty.", "Say what is to be done.")
    if len(order.prompt) > MAX_PROMPT_LENGTH:
        raise NotSubmitted(
            f"The prompt has {len(order.prompt)} characters; {MAX_PROMPT_LENGTH} are the most.",
            "Put the material into a file, and name it in the prompt.",
        )
    if "\0" in order.prompt:
        raise NotSubmitted("The prompt holds a NUL character: that is no text.")
    if len(order.title) > MAX_TITLE_LENGTH:
        raise NotSubmitted(
            f"The title has {len(order.title)} characters; {MAX_TITLE_LENGTH} are the most.",
            "Put the rest into the prompt.",
        )
    if bool(order.cwd) == bool(order.repo_full_name):
        raise NotSubmitted(
            "A task works in a folder or on a repository: name one of them.",
            "Use --cwd or --repo.",
        )
    if not order.project.strip():
        raise NotSubmitted("The project has no name.", "Use --project.")


def title_from_prompt(prompt: str) -> str:
    """The first line that says something, for lists."""
    lines = (line.strip("#*- \t") for line in prompt.splitlines())
    first = next((line for line in lines if line), "task")
    return first[:MAX_TITLE_LENGTH]


NOT_DONE_REASON = "It ended without saying that its task is done."
# Nothing of it is at work, and something may start by itself.
WAITING_STATES = frozenset({TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED})
# It came to nothing so far. A stop is none of these: it comes before the mark.
STUCK_STATES = frozenset({TaskState.NEEDS_INPUT, TaskState.BLOCKED, TaskState.FAILED})
# In `blockers` of a task that is done but for its children.
CHILDREN_BLOCKER = "children"


def decide_after_folder_run(
    task: Task, verdict: RunVerdict, facts: RunEndFacts, limits: Tasks
) -> TaskTransition:
    """A task in a folder, after one of its runs."""
    if is_ready_to_finish(task, verdict):
        return TaskTransition(to_done(task, verdict, facts))
    return decide_after_unfinished_run(task, verdict, facts, limits)


def decide_after_unfinished_run(
    task: Task, verdict: RunVerdict, facts: RunEndFacts, limits: Tasks
) -> TaskTransition:
    """A task by hand, after a run in which nobody said in earnest that it is done."""
    if task.state is not TaskState.RUNNING:
        return TaskTransition(task)
    if verdict.decided_by is DecidedBy.DONE and verdict.outcome is Outcome.BAD_RESULT:
        return to_failed(task, f"{verdict.why} Remove it, then: hostler task retry {task.id}")
    if verdict.outcome is Outcome.SUCCESS:
        # Nobody knows whether it is done: as any exit, it counts by its progress.
        verdict = replace(verdict, outcome=Outcome.CRASH, why=NOT_DONE_REASON)
    return decide_after_run(task, verdict, facts, limits)


@dataclass(frozen=True, slots=True)
class DoneFileContext:
    """What counts beside a mark. `made`: there is a checkout with work; `children`: at work."""

    made: bool = False
    children: int = 0


def decide_after_done_file(
    task: Task, mark: RunVerdict, around: DoneFileContext, facts: RunEndFacts, limits: Tasks
) -> TaskTransition:
    """A task by hand that somebody marked, with no agent of it about to end.

    It goes as if an attempt had found the mark: no agent starts. What was made in a checkout is
    brought in by that attempt itself, and only need not wait for its time any more.
    """
    good = mark.outcome is Outcome.SUCCESS
    if task.turn or task.finishing:
        return TaskTransition(task)
    if task.state is TaskState.RUNNING:
        # Its agent has not left yet; whoever depends on its work need not wait for that.
        return TaskTransition(replace(task, finishing=good and task.repo_full_name is None))
    if task.state not in WAITING_STATES and not (good and task.state in STUCK_STATES):
        return TaskTransition(task)
    if good and around.made:
        return TaskTransition(replace(task, wake_at=None) if task.state in WAITING_STATES else task)
    at_work = replace(task, state=TaskState.RUNNING)
    if good and around.children:
        return TaskTransition(wait_for_children(at_work, facts.now, around.children, limits))
    return decide_after_folder_run(at_work, mark, facts, limits)


def to_done(task: Task, verdict: RunVerdict, facts: RunEndFacts) -> Task:
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


def wait_for_children(task: Task, now: datetime, count: int, limits: Tasks) -> Task:
    """Done but for its children: it holds nothing, and is finished when they are, or in time."""
    if task.state is not TaskState.RUNNING:
        return task
    until = now + timedelta(seconds=limits.child_wait_timeout_seconds)
    waiting = replace(task, finishing=True, blockers=CHILDREN_BLOCKER)
    reason = f"It is done; {children_text(count)} of it still at work."
    return schedule_wake(waiting, TaskState.PARKED, reason, until)


def children_text(count: int) -> str:
    """A number of children, in words."""
    return f"{count} child task{'s' if count != 1 else ''}"


def is_waiting_for_children(task: Task) -> bool:
    """Whether a task is done but for its children."""
    return task.state is TaskState.PARKED and task.finishing and task.blockers == CHILDREN_BLOCKER
