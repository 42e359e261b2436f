"""Rows of tasks: add, read, change, count and page them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, func, insert, or_, select, update

from hostler.errors import StoreConflict
from hostler.model import RepoName, format_timestamp
from hostler.store.schema import tasks
from hostler.store.transaction import Transaction, batches

# Whoever writes tasks names this scope.
SCOPE = "tasks"
# A transaction is stored at most this long after the time that it stamps its rows with.
MAX_COMMIT_DELAY = timedelta(minutes=1)


class Flow(StrEnum):
    """What kind of work a task is."""

    DESIGN = "design"
    BUGFIX = "bugfix"
    SMALL_JOB = "small_job"
    IMPLEMENTATION = "implementation"
    TASK = "task"


class TaskState(StrEnum):
    """Where a task is on its way."""

    QUEUED = "queued"
    RUNNING = "running"
    RETRYING = "retrying"
    PARKED = "parked"
    AWAITING_FEEDBACK = "awaiting_feedback"
    NEEDS_INPUT = "needs_input"
    BLOCKED = "blocked"
    STOPPED = "stopped"
    DONE = "done"
    FAILED = "failed"


# Columns that hold JSON lists of words.
_LISTS = ("turn_keys", "env", "depends_on")
# Nothing starts from here by itself.
OVER = frozenset({TaskState.STOPPED, TaskState.DONE, TaskState.FAILED})
# Only what waits for a place can be held by a gate.
WAITING = frozenset({TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED})


@dataclass(frozen=True, slots=True)
class Task:
    """One task. Which column means what: docs/internals/workflows.md."""

    id: str
    project: str
    repo_full_name: str | None
    issue_number: int | None
    flow: Flow
    title: str
    author: str
    state: TaskState
    state_since: str
    order: int
    approved_by: str = ""
    issue_key: str = ""
    body_digest: str = ""
    reason: str = ""
    turn: int = 0
    attempt: int = 0
    exits_without_progress: int = 0
    repair_rounds: int = 0
    requeues: int = 0
    finishing: bool = False
    progress: str = ""
    note: str = ""
    turn_keys: tuple[str, ...] = ()
    session: str = ""
    agent: str = ""
    branch: str = ""
    base_branch: str = ""
    pr_number: int | None = None
    question: str = ""
    wake_at: str | None = None
    parent_task: str | None = None
    status_token: str = ""
    status_digest: str = ""
    created_at: str = ""
    updated_at: str = ""
    prompt: str = ""
    cwd: str = ""
    env: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    blockers: str = ""
    gate: str = ""
    gate_since: str | None = None
    wall_limit_minutes: int = 0
    max_restarts: int | None = None
    outages: int = 0

    @property
    def by_hand(self) -> bool:
        """Whether a person or an agent submitted it, and not an issue."""
        return self.issue_number is None

    @property
    def repo(self) -> RepoName:
        """Whose issue it is for. Tasks by hand have none."""
        return RepoName.parse(self.repo_full_name or "")

    @property
    def number(self) -> int:
        """The issue's number; 0 for a task by hand."""
        return self.issue_number or 0

    @property
    def over(self) -> bool:
        return self.state in OVER


def task_id(now: datetime, project: str, issue: int, flow: str) -> str:
    """`20260301-235958-stable-12-bugfix`: sorts by age, and is fit for a folder and a token."""
    name = _name_of(project)
    kind = flow.replace("_", "-")
    return f"{now:%Y%m%d-%H%M%S}-{name}-{issue}-{kind}"


def hand_task_id(tx: Transaction, project: str, title: str) -> str:
    """`20260301-235958-stable-tidy-up`, with a number where that name is taken."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:30].strip("-") or "task"
    first = f"{tx.now():%Y%m%d-%H%M%S}-{_name_of(project)}-{words}"
    names = (first, *(f"{first}-{number}" for number in range(2, 10_000)))
    return next(name for name in names if find_task(tx, name) is None)


def _name_of(project: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", project.lower()).strip("-")[:40].strip("-") or "project"


def next_order(tx: Transaction) -> int:
    """The place behind everybody."""
    return int(tx.execute(select(func.coalesce(func.max(tasks.c.order), 0))).scalar_one()) + 1


def add_task(tx: Transaction, task: Task) -> None:
    """A new task. One that this issue and flow have already is a conflict."""
    moments = {"created_at": tx.stamp(), "updated_at": tx.stamp()}
    tx.execute(insert(tasks), {**_values(task), **moments})


def find_task(tx: Transaction, task: str) -> Task | None:
    """A task by its id."""
    return _one(tx, tasks.c.id == task)


def require_task(tx: Transaction, task: str) -> Task:
    """A task that must be there."""
    found = find_task(tx, task)
    if found is None:
        raise StoreConflict(f"There is no task {task}.")
    return found


def tasks_named(tx: Transaction, names: Collection[str]) -> list[Task]:
    """Those with these names, as far as they exist, in their order."""
    return _many(tx, tasks.c.id.in_(names)) if names else []


def tasks_of_issue(tx: Transaction, repo: RepoName, issue: int) -> list[Task]:
    """The tasks of one issue, oldest first: a design, then its implementation."""
    chosen = and_(tasks.c.repo_full_name == str(repo), tasks.c.issue_number == issue)
    return _many(tx, chosen)


def children_of(tx: Transaction, task: str) -> list[Task]:
    """The tasks that a task's agents submitted, in their order."""
    return _many(tx, tasks.c.parent_task == task)


def tasks_in(
    tx: Transaction, states: Collection[TaskState], repo: RepoName | None = None
) -> list[Task]:
    """Tasks in any of these states, in their order; of one repository, if named."""
    chosen: list[ColumnElement[bool]] = [tasks.c.state.in_([state.value for state in states])]
    if repo is not None:
        chosen.append(tasks.c.repo_full_name == str(repo))
    return _many(tx, and_(*chosen))


def change_task(tx: Transaction, before: Task, after: Task) -> Task:
    """Store what became of a task; refused if somebody else has moved it meanwhile."""
    values = {**_values(after), "updated_at": tx.stamp()}
    if after.state is not before.state:
        values["state_since"] = tx.stamp()
    if after.state not in WAITING:
        values |= {"gate": "", "gate_since": None}
    same = and_(
        tasks.c.id == before.id,
        # Renamed meanwhile, it has to be read again.
        tasks.c.repo_full_name.is_not_distinct_from(before.repo_full_name),
        tasks.c.state == before.state.value,
        tasks.c.attempt == before.attempt,
        tasks.c.turn == before.turn,
    )
    if tx.execute(update(tasks).where(same).values(values)).rowcount != 1:
        raise StoreConflict(f"The task {before.id} is no longer {before.state}, or was renamed.")
    return require_task(tx, before.id)


def note_gate(tx: Transaction, task: str, gate: str) -> None:
    """Which gate holds a task since now; one that has begun meanwhile has none."""
    values = {"gate": gate, "gate_since": tx.stamp()}
    waits = tasks.c.state.in_([state.value for state in WAITING])
    tx.execute(update(tasks).where(tasks.c.id == task, waits).values(values))


def read_tasks(tx: Transaction, statement: Select[Any]) -> list[Task]:
    """The tasks that a selection of whole rows names."""
    return [_task(dict(row)) for row in tx.execute(statement).mappings()]


def _many(tx: Transaction, chosen: ColumnElement[bool]) -> list[Task]:
    return read_tasks(tx, select(tasks).where(chosen).order_by(tasks.c.order, tasks.c.id))


def _one(tx: Transaction, chosen: ColumnElement[bool]) -> Task | None:
    found = tx.execute(select(tasks).where(chosen)).mappings().one_or_none()
    return _task(dict(found)) if found else None


def _values(task: Task) -> dict[str, Any]:
    lists = {name: json.dumps(getattr(task, name)) for name in _LISTS}
    values = asdict(task) | lists | {"finishing": int(task.finishing)}
    for name in ("created_at", "updated_at"):
        del values[name]
    return values


def _task(row: dict[str, Any]) -> Task:
    changed = {
        "flow": Flow(row["flow"]),
        "state": TaskState(row["state"]),
        "finishing": bool(row["finishing"]),
        **{name: tuple(json.loads(row[name])) for name in _LISTS},
    }
    return Task(**row | changed)


def count_states(tx: Transaction) -> dict[TaskState, int]:
    """Counts by state, in the order of states; those without any task are left out."""
    counted = select(tasks.c.state, func.count().label("number")).group_by(tasks.c.state)
    found = {row["state"]: int(row["number"]) for row in tx.execute(counted).mappings()}
    return {state: found[state] for state in TaskState if state in found}


def newest_change(tx: Transaction) -> str:
    """When a task was last changed; empty without tasks."""
    return str(tx.execute(select(func.max(tasks.c.updated_at))).scalar() or "")


def projects_held(tx: Transaction, gate: str, since: str) -> frozenset[str]:
    """Projects with tasks of which it was noted, since a moment, that this gate holds them."""
    held = (
        tasks.c.state.in_([state.value for state in WAITING]),
        tasks.c.gate == gate,
        tasks.c.gate_since >= since,
    )
    return frozenset(tx.execute(select(tasks.c.project).where(*held).distinct()).scalars())


UNFINISHED = tuple(state.value for state in TaskState if state not in OVER)


@dataclass(frozen=True, slots=True)
class Marks:
    """Versions of tasks by id, read at one time.

    Each version begins with the task's state and differs after every change. `order` is that of
    the newest task.
    """

    tasks: dict[str, tuple[str, ...]]
    order: int
    read_at: datetime


def marks_of(tx: Transaction, behind: int, since: datetime) -> Marks:
    """Read unfinished tasks, and finished ones that are newer or have changed since then."""
    table, now = tasks.c, tx.now()
    columns = (table.id, table.order, table.state, table.updated_at, table.gate, table.gate_since)
    over = [state.value for state in OVER]
    # On PostgreSQL a transaction that began earlier may be stored later, and clocks are set back.
    changed = table.updated_at >= format_timestamp(min(since, now) - MAX_COMMIT_DELAY)
    new = or_(table.order > behind, changed)
    chosen = or_(table.state.in_(UNFINISHED), and_(table.state.in_(over), new))
    rows: list[Any] = list(tx.execute(select(*columns).where(chosen)).all())
    marks = {row[0]: tuple(str(part) for part in row[2:]) for row in rows}
    return Marks(marks, max((behind, *(int(row[1]) for row in rows))), now)


def newest_order(tx: Transaction) -> int:
    """The place of the newest task; 0 where there is none."""
    return int(tx.execute(select(func.coalesce(func.max(tasks.c.order), 0))).scalar_one())


def tasks_by_id(tx: Transaction, ids: Collection[str]) -> dict[str, Task]:
    """These tasks, as far as they exist."""
    found: list[Task] = []
    for batch in batches(sorted(set(ids))):
        found += read_tasks(tx, select(tasks).where(tasks.c.id.in_(batch)))
    return {task.id: task for task in found}


Outline = tuple[Any, ...]

_TOLD = (tasks.c.state, tasks.c.reason, tasks.c.question, tasks.c.pr_number)
_WHOSE = (tasks.c.repo_full_name, tasks.c.issue_number, tasks.c.flow)


def outlines_in(tx: Transaction, states: Collection[TaskState]) -> dict[str, Outline]:
    """By name, what is told of the tasks in any of these states."""
    return _outlines(tx, tasks.c.state.in_([state.value for state in states]))


def outlines_of(tx: Transaction, names: Collection[str]) -> dict[str, Outline]:
    """The same of those that are named, as far as they exist."""
    return _outlines(tx, tasks.c.id.in_(names)) if names else {}


def _outlines(tx: Transaction, chosen: ColumnElement[bool]) -> dict[str, Outline]:
    rows = tx.execute(select(tasks.c.id, *_TOLD, *_WHOSE).where(chosen))
    return {row[0]: tuple(row[1:]) for row in rows}


def task_page(
    tx: Transaction,
    limit: int,
    *,
    before: str = "",
    states: Collection[TaskState] = (),
    project: str = "",
    parent: str = "",
) -> list[Task]:
    """Tasks, newest first, that come before an id in the alphabet; no filter lets all through."""
    chosen: list[ColumnElement[bool]] = []
    if before:
        chosen.append(tasks.c.id < before)
    if states:
        chosen.append(tasks.c.state.in_([state.value for state in states]))
    if project:
        chosen.append(tasks.c.project == project)
    if parent:
        chosen.append(tasks.c.parent_task == parent)
    statement = select(tasks).where(*chosen).order_by(tasks.c.id.desc()).limit(limit)
    return read_tasks(tx, statement)


def newest_in(tx: Transaction, state: TaskState, limit: int) -> list[Task]:
    """The tasks in a state that came last, oldest of them first."""
    chosen = select(tasks).where(tasks.c.state == state.value)
    return read_tasks(tx, chosen.order_by(tasks.c.order.desc()).limit(limit))[::-1]


def titles_of(tx: Transaction, ids: Collection[str]) -> dict[str, str]:
    """What these tasks are called, as far as they exist."""
    found: dict[str, str] = {}
    for batch in batches(sorted(set(ids))):
        chosen = select(tasks.c.id, tasks.c.title).where(tasks.c.id.in_(batch))
        found |= {row.id: row.title for row in tx.execute(chosen)}
    return found


@dataclass(frozen=True, slots=True)
class HandTask:
    """A task that no issue asked for."""

    id: str
    project: str
    on_repository: bool


def any_by_hand(tx: Transaction, states: Collection[TaskState]) -> bool:
    """Whether there is a task by hand in one of these states."""
    return bool(tx.execute(select(exists().where(_in(states)))).scalar_one())


def by_hand(tx: Transaction, states: Collection[TaskState]) -> list[HandTask]:
    """The tasks by hand in these states, in their order."""
    return _hand_tasks(tx, _in(states))


def by_hand_named(
    tx: Transaction, names: Collection[str], states: Collection[TaskState]
) -> list[HandTask]:
    """Those among these names that are tasks by hand in one of these states."""
    found = (
        _hand_tasks(tx, and_(tasks.c.id.in_(batch), _in(states)))
        for batch in batches(sorted(names))
    )
    return [one for group in found for one in group]


def _in(states: Collection[TaskState]) -> ColumnElement[bool]:
    return and_(
        tasks.c.state.in_([state.value for state in states]),
        tasks.c.issue_number.is_(None),
    )


def _hand_tasks(tx: Transaction, chosen: ColumnElement[bool]) -> list[HandTask]:
    columns = (tasks.c.id, tasks.c.project, tasks.c.repo_full_name)
    rows = tx.execute(select(*columns).where(chosen).order_by(tasks.c.order, tasks.c.id))
    return [HandTask(row.id, row.project, row.repo_full_name is not None) for row in rows]


_ISSUE = re.compile(r"([^/#\s]+/[^/#\s]+)#([1-9][0-9]{0,9})")


@dataclass(frozen=True, slots=True, order=True)
class IssueRef:
    """An issue. Repositories are in small letters: GitHub reads their names so."""

    repo: RepoName
    number: int

    @classmethod
    def of(cls, repo: RepoName, number: int) -> IssueRef:
        """An issue of a repository, however that is spelled."""
        return cls(RepoName(repo.owner.lower(), repo.name.lower()), number)

    @classmethod
    def parse(cls, text: str) -> IssueRef | None:
        """Read `owner/repo#12`; None for anything else, as a task's id."""
        found = _ISSUE.fullmatch(text)
        if found is None:
            return None
        try:
            return cls.of(RepoName.parse(found[1]), int(found[2]))
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"{self.repo}#{self.number}"
