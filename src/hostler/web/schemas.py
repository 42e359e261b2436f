"""Request and response bodies of the API, and validated parameter types."""

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
_POOL_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:@+-]*$"
_MAX_LIMIT = 200


def _check_name(name: str) -> str:
    if not is_valid_name(name):
        raise ValueError("a name contains only letters, digits, '.', '_' and '-', and no '..'")
    return name


# Safe as the name of a folder.
Name = Annotated[str, Path(pattern=NAME_PATTERN, max_length=100), AfterValidator(_check_name)]
PoolName = Annotated[str, Path(pattern=_POOL_PATTERN, max_length=200)]
Filter = Annotated[str, Query(max_length=100)]
Limit = Annotated[int, Query(ge=1, le=_MAX_LIMIT)]
States = Annotated[list[TaskState], Query(max_length=len(TaskState))]
Object = dict[str, Any]


class RequestBody(BaseModel):
    """A request body. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid")


class ReasonBody(RequestBody):
    """The reason of a change, shown in status and history."""

    why: str = Field("", max_length=1000)


class AnswerBody(RequestBody):
    """The answer to a task's question."""

    text: str = Field(min_length=1, max_length=MAX_ANSWER_LENGTH)


class TaskBatchBody(ReasonBody):
    """Tasks by id, unique prefix of an id, or `owner/repo#12`."""

    tasks: list[Annotated[str, Field(max_length=300)]] = Field(min_length=1, max_length=200)


class NamedAnswerBody(AnswerBody):
    """The answer to the question of a named task."""

    task: str = Field(max_length=300)


class TaskSubmissionBody(RequestBody):
    """A manual task: what to do, and in which repository or folder."""

    prompt: str = Field(min_length=1, max_length=MAX_PROMPT_LENGTH)
    repo: str = Field("", max_length=200, description="A watched repository: its id or owner/name.")
    cwd: str = Field(
        "", max_length=4096, description="Or the absolute path of a folder on this machine."
    )
    title: str = Field("", max_length=MAX_TITLE_LENGTH)
    project: str = Field("", max_length=100)
    agent: str = Field("", max_length=100)
    depends_on: list[Annotated[str, Field(max_length=300)]] = Field([], max_length=100)
    env: list[Annotated[str, Field(max_length=200)]] = Field([], max_length=100)
    wall_limit_minutes: int = Field(0, ge=0, le=10_080)
    max_restarts: int | None = Field(None, ge=0, le=100_000)


class BusMessageBody(RequestBody):
    """A message for a bus."""

    text: str = Field(min_length=1, max_length=60_000)
    type: Literal[
        "USER", "FACT", "PROGRESS", "DECISION", "QUESTION", "ERROR", "WARNING", "INFO", "REVIEW"
    ] = "USER"
    thread: str = Field("", max_length=40)


class AddressedBusMessageBody(BusMessageBody):
    """A message for the bus of a task, or of the project if no task is named."""

    project: str = Field(pattern=NAME_PATTERN, max_length=100)
    task: str = Field("", pattern=f"^$|{NAME_PATTERN}", max_length=100)
    create: bool = Field(False, description="Create the bus if it does not exist.")


class PoolCapsBody(RequestBody):
    """An operator's settings of a pool, as in governor.json."""

    max_global_agents: int = Field(ge=0, le=1024, description="0: the value in `[runtime]`.")
    adaptive: bool = False
    policy: Literal["aimd", "served"] = "aimd"
    hard_max: int = Field(0, ge=0, le=4096, description="0: twice `max_global_agents`.")
    settle_seconds: int = Field(120, ge=1, le=86_400)
    break_seconds: int = Field(300, ge=1, le=86_400)
    min_dispatch_interval_seconds: float = Field(3.0, ge=0, le=86_400)


class PoolCapsPatchBody(PoolCapsBody):
    """Some settings of a pool; the others stay unchanged."""

    max_global_agents: int = Field(0, ge=0, le=1024, description="0: the value in `[runtime]`.")


class ParkPoolBody(RequestBody):
    """For how long a pool is parked, and why."""

    minutes: float = Field(0, ge=0, le=31 * 24 * 60, description="0: until it is resumed.")
    until: str = Field("", max_length=40, description="Or until this time: 2026-05-01T12:00Z.")
    why: str = Field("", max_length=1000)


class TaskListItem(BaseModel):
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
    """Tasks, newest first. Pass `next` as `before` to get the next page."""

    tasks: list[TaskListItem]
    next: str | None


class TaskAfterChange(BaseModel):
    """A task after a command."""

    id: str
    project: str
    state: TaskState
    reason: str


class ChangedTasks(BaseModel):
    """All tasks that a command changed."""

    changed: list[TaskAfterChange]


class BusMessages(BaseModel):
    """Messages of a bus, oldest first; `skipped` counts lines that are not valid messages."""

    messages: list[Object]
    skipped: int


def build_changed_tasks(tasks: Iterable[Task]) -> ChangedTasks:
    """Return the response that lists the changed tasks."""
    return ChangedTasks(
        changed=[
            TaskAfterChange(id=one.id, project=one.project, state=one.state, reason=one.reason)
            for one in tasks
        ]
    )


def get_reason(reason: ReasonBody | None) -> str:
    """Return the given reason, if any, without NUL, which databases cannot store."""
    return reason.why.replace("\0", " ") if reason else ""
