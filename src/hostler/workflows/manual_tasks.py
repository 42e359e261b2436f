"""Manual tasks: validate and store a submission, and decide what follows a run of one."""

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
    """The submission cannot become a task."""

    exit_code = 2

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, safe="Nothing was queued.", remedy=remedy)


@dataclass(frozen=True, slots=True)
class TaskSubmission:
    """What a user submits. Empty fields mean: as the settings say, or none."""

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


def submit_task(tx: Transaction, submission: TaskSubmission) -> Task:
    """Add the task at the end of the queue."""
    validate_submission(submission)
    if submission.parent_task is not None:
        _require_parent(tx, submission.parent_task)
    title = submission.title.strip() or title_from_prompt(submission.prompt)
    task = Task(
        id=hand_task_id(tx, submission.project, title),
        project=submission.project,
        repo_full_name=submission.repo_full_name,
        issue_number=None,
        flow=Flow.TASK,
        title=title,
        author=submission.author,
        approved_by=submission.author,
        state=TaskState.QUEUED,
        state_since=tx.stamp(),
        order=next_order(tx),
        agent=submission.agent,
        base_branch=submission.base_branch,
        parent_task=submission.parent_task,
        prompt=submission.prompt,
        cwd=submission.cwd,
        env=submission.env,
        depends_on=submission.depends_on,
        wall_limit_minutes=submission.wall_limit_minutes,
        max_restarts=submission.max_restarts,
    )
    add_task(tx, task)
    return require_task(tx, task.id)


def _require_parent(tx: Transaction, name: str) -> None:
    """Raise unless the parent is unfinished: stopping a task must reach all of its children."""
    parent = find_task(tx, name)
    if parent is None:
        raise NotSubmitted(f"The parent task {name} does not exist.")
    if parent.over:
        raise NotSubmitted(
            f"The parent task {name} is {parent.state} and cannot get new child tasks.",
            "If you are not inside its run, unset HOSTLER_TASK.",
        )


def validate_submission(submission: TaskSubmission) -> None:
    """Raise `NotSubmitted` if no agent could work on it."""
    if not submission.prompt.strip():
        raise NotSubmitted("The prompt is empty.", "Describe the task.")
    if len(submission.prompt) > MAX_PROMPT_LENGTH:
        raise NotSubmitted(
            f"The prompt has {len(submission.prompt)} characters; at most {MAX_PROMPT_LENGTH} fit.",
            "Put the material into a file and name the file in the prompt.",
        )
    if "\0" in submission.prompt:
        raise NotSubmitted("The prompt contains a NUL character.")
    if len(submission.title) > MAX_TITLE_LENGTH:
        raise NotSubmitted(
            f"The title has {len(submission.title)} characters; at most {MAX_TITLE_LENGTH} fit.",
            "Put the details into the prompt.",
        )
    if bool(submission.cwd) == bool(submission.repo_full_name):
        raise NotSubmitted(
            "A task needs either a folder or a repository.",
            "Use --cwd or --repo.",
        )
    if not submission.project.strip():
        raise NotSubmitted("The project name is empty.", "Use --project.")


def title_from_prompt(prompt: str) -> str:
    """Return the first non-empty line, shortened."""
    lines = (line.strip("#*- \t") for line in prompt.splitlines())
    first = next((line for line in lines if line), "task")
    return first[:MAX_TITLE_LENGTH]


NOT_DONE_REASON = "The agent exited without reporting that the task is done."
# No agent is running, and one may start without a command.
WAITING_STATES = frozenset({TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED})
# Waiting for a user. Stopped is not one of these: a stop overrides the DONE file.
STUCK_STATES = frozenset({TaskState.NEEDS_INPUT, TaskState.BLOCKED, TaskState.FAILED})
# The value of `blockers` while a task waits only for its children.
CHILDREN_BLOCKER = "children"


def decide_after_folder_run(
    task: Task, verdict: RunVerdict, facts: RunEndFacts, limits: Tasks
) -> TaskTransition:
    """Return what follows for a task in a folder after one of its runs."""
    if is_ready_to_finish(task, verdict):
        return TaskTransition(_to_done(task, verdict, facts))
    return decide_after_unfinished_run(task, verdict, facts, limits)


def decide_after_unfinished_run(
    task: Task, verdict: RunVerdict, facts: RunEndFacts, limits: Tasks
) -> TaskTransition:
    """Return what follows for a manual task after a run that did not declare it done."""
    if task.state is not TaskState.RUNNING:
        return TaskTransition(task)
    if verdict.decided_by is DecidedBy.DONE and verdict.outcome is Outcome.BAD_RESULT:
        remedy = f"Remove the file, then run: hostler task retry {task.id}"
        return to_failed(task, f"{verdict.why} {remedy}")
    if verdict.outcome is Outcome.SUCCESS:
        # The agent did not say that it is done, so only its progress counts.
        verdict = replace(verdict, outcome=Outcome.CRASH, why=NOT_DONE_REASON)
    return decide_after_run(task, verdict, facts, limits)


@dataclass(frozen=True, slots=True)
class DoneFileContext:
    """What counts beside a DONE file. `has_work`: there is a checkout. `children`: running ones."""

    has_work: bool = False
    children: int = 0


def decide_after_done_file(
    task: Task, verdict: RunVerdict, context: DoneFileContext, facts: RunEndFacts, limits: Tasks
) -> TaskTransition:
    """Return what follows when a DONE file was written while no run was ending.

    It is treated as if an attempt had found the file: no agent starts. Work in a checkout is pushed
    by the next attempt, which only no longer waits for its time.
    """
    good = verdict.outcome is Outcome.SUCCESS
    if task.turn or task.finishing:
        return TaskTransition(task)
    if task.state is TaskState.RUNNING:
        # Its agent has not exited yet; tasks that depend on it need not wait for that.
        return TaskTransition(replace(task, finishing=good and task.repo_full_name is None))
    if task.state not in WAITING_STATES and not (good and task.state in STUCK_STATES):
        return TaskTransition(task)
    if good and context.has_work:
        return TaskTransition(replace(task, wake_at=None) if task.state in WAITING_STATES else task)
    running = replace(task, state=TaskState.RUNNING)
    if good and context.children:
        return TaskTransition(
            park_until_children_finish(running, facts.now, context.children, limits)
        )
    return decide_after_folder_run(running, verdict, facts, limits)


def _to_done(task: Task, verdict: RunVerdict, facts: RunEndFacts) -> Task:
    """Return the task as done."""
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


def park_until_children_finish(task: Task, now: datetime, count: int, limits: Tasks) -> Task:
    """Park a task that is done until its children have finished, or until the time limit."""
    if task.state is not TaskState.RUNNING:
        return task
    until = now + timedelta(seconds=limits.child_wait_timeout_seconds)
    waiting = replace(task, finishing=True, blockers=CHILDREN_BLOCKER)
    reason = f"Done; waiting for {children_text(count)}."
    return schedule_wake(waiting, TaskState.PARKED, reason, until)


def children_text(count: int) -> str:
    """Return a number of child tasks as words."""
    return f"{count} child task{'s' if count != 1 else ''}"


def is_waiting_for_children(task: Task) -> bool:
    """Return whether a task is done but for its children."""
    return task.state is TaskState.PARKED and task.finishing and task.blockers == CHILDREN_BLOCKER
