"""What each state of a task is called, what it means, and what happens next.

Every user interface takes its texts from here: the command line, the web pages, the terminal UI,
comments on GitHub, and the docs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hostler.store.tasks import Task, TaskState


@dataclass(frozen=True, slots=True)
class TaskStateInfo:
    """Texts about one state.

    `next_step` is for users on the machine, with `{task}` for the id of the task; `github_step` is
    for readers of its issue, with `{pull}`, `{issue}` and `{at}`.
    """

    label: str
    meaning: str
    next_step: str
    github_step: str

    @property
    def text(self) -> str:
        """The label inside a sentence."""
        return self.label.lower()


_START_AGAIN = (
    "An operator can comment `/hostler retry`, or run `hostler run {issue}`, to start again."
)
TASK_STATES: Mapping[TaskState, TaskStateInfo] = {
    TaskState.QUEUED: TaskStateInfo(
        "Queued",
        "The task waits for a free slot.",
        "See why it waits: hostler why {task}",
        "An agent starts as soon as a slot is free.",
    ),
    TaskState.RUNNING: TaskStateInfo(
        "Running",
        "An agent is running.",
        "Follow it: hostler task tail {task}",
        "An agent is working on this and will open a pull request.",
    ),
    TaskState.RETRYING: TaskStateInfo(
        "Retrying",
        "The last attempt failed; the next one follows.",
        "See why it waits: hostler why {task}",
        "Retrying{at}.",
    ),
    TaskState.PARKED: TaskStateInfo(
        "Parked",
        "The task continues at a later time, for example when a rate limit ends.",
        "See why it waits: hostler why {task}",
        "Waiting; retrying{at}.",
    ),
    TaskState.AWAITING_FEEDBACK: TaskStateInfo(
        "In review",
        "The pull request is open.",
        "Review it. Comments will be addressed. Merge it to finish, or close it to cancel.",
        "Review {pull}. Comments will be addressed. Merge it to finish, or close it to cancel.",
    ),
    TaskState.NEEDS_INPUT: TaskStateInfo(
        "Needs answer",
        "The agent asked a question.",
        'Answer it: hostler task answer {task} "…"',
        "Reply to the question with a comment to continue.",
    ),
    TaskState.BLOCKED: TaskStateInfo(
        "Blocked",
        "Something must be fixed before work can continue.",
        "Once fixed, run: hostler task resume {task}",
        "Fix the cause. Then an operator can comment `/hostler unblock`, or run `hostler run "
        "{issue}`, to continue.",
    ),
    TaskState.STOPPED: TaskStateInfo(
        "Stopped",
        "A user stopped the task, or its pull request was closed.",
        "Continue: hostler task resume {task}; start over: hostler task retry {task}",
        _START_AGAIN,
    ),
    TaskState.DONE: TaskStateInfo(
        "Done", "The work is finished.", "Nothing more to do.", "Nothing more to do."
    ),
    TaskState.FAILED: TaskStateInfo(
        "Failed",
        "All allowed attempts failed.",
        "See its output: hostler task logs {task}; start over: hostler task retry {task}",
        _START_AGAIN,
    ),
}


def state_text(task: Task) -> str:
    """Return the state of a task, as it is written inside a sentence."""
    return TASK_STATES[task.state].text


def next_step(task: Task) -> str:
    """Return what a user on the machine can do about a task, or what follows by itself."""
    return TASK_STATES[task.state].next_step.format(task=task.id)


def github_step(task: Task) -> str:
    """Return what happens next, for readers of the task's issue."""
    at = f" at {task.wake_at[:16].replace('T', ' ')} UTC" if task.wake_at else " now"
    pull = f"#{task.pr_number}" if task.pr_number else "the pull request"
    issue = f"{task.repo_full_name}#{task.number}"
    return TASK_STATES[task.state].github_step.format(at=at, pull=pull, issue=issue)
