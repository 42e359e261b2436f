"""A task by hand: what is asked for becomes a row, whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass

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

LARGEST_PROMPT = 1_000_000
LONGEST_TITLE = 120


class NotSubmitted(HostlerError):
    """What was asked for cannot become a task."""

    exit_code = 2

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, safe="Nothing was queued.", remedy=remedy)


@dataclass(frozen=True, slots=True)
class Order:
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


def submit(tx: Transaction, order: Order) -> Task:
    """The new task, at the end of the queue."""
    require_sensible(order)
    if order.parent_task is not None:
        _require_parent(tx, order.parent_task)
    title = order.title.strip() or title_of(order.prompt)
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


def require_sensible(order: Order) -> None:
    """Refuse what no agent could work on."""
    if not order.prompt.strip():
        raise NotSubmitted("The prompt is empty.", "Say what is to be done.")
    if len(order.prompt) > LARGEST_PROMPT:
        raise NotSubmitted(
            f"The prompt has {len(order.prompt)} characters; {LARGEST_PROMPT} are the most.",
            "Put the material into a file, and name it in the prompt.",
        )
    if "\0" in order.prompt:
        raise NotSubmitted("The prompt holds a NUL character: that is no text.")
    if len(order.title) > LONGEST_TITLE:
        raise NotSubmitted(
            f"The title has {len(order.title)} characters; {LONGEST_TITLE} are the most.",
            "Put the rest into the prompt.",
        )
    if bool(order.cwd) == bool(order.repo_full_name):
        raise NotSubmitted(
            "A task works in a folder or on a repository: name one of them.",
            "Use --cwd or --repo.",
        )
    if not order.project.strip():
        raise NotSubmitted("The project has no name.", "Use --project.")


def title_of(prompt: str) -> str:
    """The first line that says something, for lists."""
    lines = (line.strip("#*- \t") for line in prompt.splitlines())
    first = next((line for line in lines if line), "task")
    return first[:LONGEST_TITLE]
