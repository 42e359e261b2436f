"""Request and response models of the API, and validated parameter types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hostler.bus.message import is_valid_name
from hostler.store.tasks import Task, TaskState
from hostler.workflows.commands import MAX_ANSWER_LENGTH
from hostler.workflows.manual_tasks import MAX_PROMPT_LENGTH, MAX_TITLE_LENGTH

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
POOL_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:@+-]*$"
MAX_LISTED = 200


def _check_name(name: str) -> str:
    if not is_valid_name(name):
        raise ValueError("a name has letters, digits, '.', '_' and '-', and no '..'")
    return name


# What can name a folder, and nothing else.
Name = Annotated[str, Path(pattern=NAME_PATTERN, max_length=100), AfterValidator(_check_name)]
PoolName = Annotated[str, Path(pattern=POOL_PATTERN, max_length=200)]
Filter = Annotated[str, Query(max_length=100)]
Limit = Annotated[int, Query(ge=1, le=MAX_LISTED)]
States = Annotated[list[TaskState], Query(max_length=len(TaskState))]
Object = dict[str, Any]


class Body(BaseModel):
    """What is sent to us: unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid")


class Reason(Body):
    """Why somebody wants it, for those who wonder later."""

    why: str = Field("", max_length=1000)


class Answer(Body):
    """The answer to a question."""

    text: str = Field(min_length=1, max_length=MAX_ANSWER_LENGTH)


class Several(Reason):
    """Tasks, as people name them: an id, its beginning, or `owner/repo#12`."""

    tasks: list[Annotated[str, Field(max_length=300)]] = Field(min_length=1, max_length=200)


class NamedAnswer(Answer):
    """The answer to a question of the task that is meant."""

    task: str = Field(max_length=300)


class Submission(Body):
    """A task by hand: what is to be done, and where."""

    prompt: str = Field(min_length=1, max_length=MAX_PROMPT_LENGTH)
    repo: str = Field("", max_length=200, description="A watched repository: its id or owner/name.")
    cwd: str = Field("", max_length=4096, description="Or a folder of this machine, absolute.")
    title: str = Field("", max_length=MAX_TITLE_LENGTH)
    project: str = Field("", max_length=100)
    agent: str = Field("", max_length=100)
    depends_on: list[Annotated[str, Field(max_length=300)]] = Field([], max_length=100)
    env: list[Annotated[str, Field(max_length=200)]] = Field([], max_length=100)
    wall_limit_minutes: int = Field(0, ge=0, le=10_080)
    max_restarts: int | None = Field(None, ge=0, le=100_000)


class Post(Body):
    """A message for a bus."""

    text: str = Field(min_length=1, max_length=60_000)
    type: Literal[
        "USER", "FACT", "PROGRESS", "DECISION", "QUESTION", "ERROR", "WARNING", "INFO", "REVIEW"
    ] = "USER"
    thread: str = Field("", max_length=40)


class PlacedPost(Post):
    """A message for the bus of a folder: of a task, or else of the project."""

    project: str = Field(pattern=NAME_PATTERN, max_length=100)
    task: str = Field("", pattern=f"^$|{NAME_PATTERN}", max_length=100)
    create: bool = Field(False, description="Begin a bus that does not exist yet.")


class Caps(Body):
    """What an operator says of a pool, as in governor.json."""

    max_global_agents: int = Field(ge=0, le=1024, description="0: as `[runtime]` says.")
    adaptive: bool = False
    policy: Literal["aimd", "served"] = "aimd"
    hard_max: int = Field(0, ge=0, le=4096, description="0: twice `max_global_agents`.")
    settle_seconds: int = Field(120, ge=1, le=86_400)
    break_seconds: int = Field(300, ge=1, le=86_400)
    min_dispatch_interval_seconds: float = Field(3.0, ge=0, le=86_400)


class SomeCaps(Caps):
    """Some of it; the rest stays as it is."""

    max_global_agents: int = Field(0, ge=0, le=1024, description="0: as `[runtime]` says.")


class Closing(Body):
    """For how long a pool is closed, and why."""

    minutes: float = Field(0, ge=0, le=31 * 24 * 60, description="0: until it is resumed.")
    until: str = Field("", max_length=40, description="Or until this moment: 2026-05-01T12:00Z.")
    why: str = Field("", max_length=1000)


class Brief(BaseModel):
    """A task in a list."""

    id: str
    project: str
    title: str
    state: TaskState
    state_since: str
    flow: str
    parent_task: str | None
    repo_full_name: str | None
    issue_number: int | None
    pr_number: int | None
    attempt: int
    gate: str
    wake_at: str | None
    created_at: str
    agent: str
    depends_on: list[str]


class TaskPage(BaseModel):
    """Some tasks, newest first; `next` names what comes `before` the following page."""

    tasks: list[Brief]
    next: str | None


class Changed(BaseModel):
    """A task after a command."""

    id: str
    project: str
    state: TaskState
    reason: str


class ChangedTasks(BaseModel):
    """All tasks that a command changed."""

    changed: list[Changed]


class Messages(BaseModel):
    """Messages of a bus, oldest first; `skipped`: lines among them that are none."""

    messages: list[Object]
    skipped: int


def build_changed_tasks(tasks: Iterable[Task]) -> ChangedTasks:
    """What became of each."""
    return ChangedTasks(
        changed=[
            Changed(id=one.id, project=one.project, state=one.state, reason=one.reason)
            for one in tasks
        ]
    )


def get_reason(reason: Reason | None) -> str:
    """The reason that was given, if one was; databases know no NUL."""
    return reason.why.replace("\0", " ") if reason else ""
