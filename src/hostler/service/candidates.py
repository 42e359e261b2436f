"""Rules of admission: who is next, and what holds everybody else. Touches nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum

from hostler.flows.byhand import awaits_children
from hostler.model import parse_stamp
from hostler.planner.queue import admits, is_root
from hostler.store.tasks import Task, TaskState

# From these a task can be admitted; the last two when their time has come.
WAITING = (TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED)
# Stamps may lie so far ahead without anybody having moved a clock.
CLOCKS_DIFFER = timedelta(minutes=1)


class Class(IntEnum):
    """Who comes before whom."""

    CONTINUATION = 0
    FEEDBACK = 1
    CHILD = 2
    NEW = 3


class Gate(StrEnum):
    """What can hold a task, in this order. Behind these stand those of the governor."""

    TIME = "time"
    OPEN_RUN = "open_run"
    CHILDREN = "children"
    WATCHED = "watched"
    READY = "ready"
    PAUSED = "paused"
    DRAIN = "drain"
    DISK = "disk"
    BUDGET = "budget"
    DEPENDENCIES = "dependencies"
    ROOT_TASKS = "root_tasks"
    WORKERS = "workers"
    RUNS = "runs"


# What is looked at before whether a worker is free.
BEFORE_WORKERS = frozenset(list(Gate)[: list(Gate).index(Gate.WORKERS)])


@dataclass(frozen=True, slots=True)
class Place:
    """What the settings say about where a task runs, and with whom."""

    project: str
    agent: str
    agent_kind: str
    pool: str
    width: int
    weight: int = 1
    paused: str = ""
    ready: bool = True


@dataclass(frozen=True, slots=True)
class Held:
    """Why a task does not start now, and what a person can do; `until`: when the gate opens.

    `over`: how many more than it allows a gate has counted.
    """

    gate: str
    why: str
    remedy: str = ""
    since: datetime | None = None
    until: datetime | None = None
    over: int = 0


@dataclass(frozen=True, slots=True)
class Yard:
    """Everything that admission counts, at one moment. Limits of 0 or less are none.

    `waiting` are the tasks that could be next. `places`, `needs` and `empty` are by task: where it
    runs, what it still depends on, and which budget is used up; `full`: a disk is. `parents` are
    tasks whose children are at work; `awaited` counts, by task, the root tasks under way that wait
    for it with their places lent; `served` says where the last turn of each project ended;
    `closed` why nothing begins, if so, but for those `spared`, whom somebody at work waits for.
    """

    now: datetime
    places: Mapping[str, Place]
    waiting: tuple[Task, ...] = ()
    needs: Mapping[str, Held] = field(default_factory=dict)
    empty: Mapping[str, Held] = field(default_factory=dict)
    full: Held | None = None
    busy: frozenset[str] = frozenset()
    parents: frozenset[str] = frozenset()
    awaited: Mapping[str, int] = field(default_factory=dict)
    runs: int = 0
    running: int = 0
    max_runs: int = 0
    max_root_tasks: int = 0
    served: Mapping[str, int] = field(default_factory=dict)
    closed: str = ""
    spared: frozenset[str] = frozenset()
    joins_first: timedelta = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Choice:
    """Who starts, if anybody does, and what holds the others that were looked at."""

    task: Task | None
    held: Mapping[str, Held]


# What the governor says about a task that has passed all gates here.
Further = Callable[[Task], Held | None]


def open_gate(_task: Task) -> Held | None:
    """Holds nobody."""
    return None


def choose(tasks: Iterable[Task], yard: Yard, further: Further = open_gate) -> Choice:
    """The first in order whom no gate holds."""
    held: dict[str, Held] = {}
    for task in in_order(tasks, yard):
        found = gate_of(task, yard) or (None if task.finishing else further(task))
        if found is None:
            return Choice(task, held)
        held[task.id] = found
    return Choice(None, held)


def in_order(tasks: Iterable[Task], yard: Yard) -> list[Task]:
    """Tasks as admission looks at them, one after another."""
    return sorted(tasks, key=lambda task: _rank(task, yard))


def gate_of(task: Task, yard: Yard) -> Held | None:
    """The first gate that holds a task, in the order of the table."""
    found = (gate(task, yard) for gate in _GATES)
    return next((held for held in found if held is not None), None)


def class_of(task: Task, yard: Yard) -> Class:
    """The class of a task; long waiting brings everybody into the first."""
    if task.state is not TaskState.QUEUED or waited(task, yard.now) >= yard.joins_first:
        return Class.CONTINUATION
    if task.pr_number is not None or task.question:
        return Class.FEEDBACK
    return Class.NEW if is_root(task) else Class.CHILD


def waited(task: Task, now: datetime) -> timedelta:
    """How long it has been waiting; a stamp from the future counts as now."""
    since = parse_stamp(task.state_since)
    return max(now - since, timedelta())


def _rank(task: Task, yard: Yard) -> tuple[int, int, int, str]:
    of = class_of(task, yard)
    # Where root tasks are counted, they start as they came; otherwise projects take turns.
    in_line = of is Class.NEW and yard.max_root_tasks > 0
    served = 0 if in_line else yard.served.get(task.project, 0)
    return (of, served, task.order, task.id)


def _time(task: Task, yard: Yard) -> Held | None:
    if task.state is TaskState.QUEUED or task.wake_at is None or awaits_children(task):
        return None
    until = parse_stamp(task.wake_at)
    # Whoever began to wait in the future was sent there by a clock that has been set back since.
    if until <= yard.now or parse_stamp(task.state_since) > yard.now + CLOCKS_DIFFER:
        return None
    return Held(Gate.TIME, task.reason, until=until)


def _open_run(task: Task, yard: Yard) -> Held | None:
    if task.id not in yard.busy:
        return None
    return Held(Gate.OPEN_RUN, "Its last run has not ended.", "Wait a moment.")


def _children(task: Task, yard: Yard) -> Held | None:
    if not awaits_children(task) or task.id not in yard.parents:
        return None
    until = parse_stamp(task.wake_at) if task.wake_at else yard.now
    if until <= yard.now:
        return None
    return Held(Gate.CHILDREN, task.reason, "Wait, or stop its children.", until=until)


def _watched(task: Task, yard: Yard) -> Held | None:
    if task.id in yard.places:
        return None
    why = f"The project {task.project} is not in the settings, or has no agent there."
    remedy = "Add it again (`hostler repo add`), or name its agent in the settings."
    return Held(Gate.WATCHED, why, remedy)


def _ready(task: Task, yard: Yard) -> Held | None:
    if yard.places[task.id].ready:
        return None
    why = f"{task.repo_full_name} was not reached since the start of the service."
    return Held(Gate.READY, why, "See `hostler doctor`, and the log.")


def _paused(task: Task, yard: Yard) -> Held | None:
    paused = yard.places[task.id].paused
    return Held(Gate.PAUSED, paused, "See `hostler unpause`.") if paused else None


def _drain(task: Task, yard: Yard) -> Held | None:
    if not yard.closed or task.id in yard.spared:
        return None
    return Held(Gate.DRAIN, yard.closed, "Wait: it is over by itself.")


def _disk(task: Task, yard: Yard) -> Held | None:
    return None if task.finishing else yard.full


def _budget(task: Task, yard: Yard) -> Held | None:
    # What is left of a finished run is ours, and costs nothing.
    return None if task.finishing else yard.empty.get(task.id)


def _dependencies(task: Task, yard: Yard) -> Held | None:
    # Work that has begun is not taken back because somebody adds a dependency later.
    return None if task.attempt > 0 or task.finishing else yard.needs.get(task.id)


def _root_tasks(task: Task, yard: Yard) -> Held | None:
    # Who waits for a task does not stand in its way.
    busy = yard.running - yard.awaited.get(task.id, 0)
    if admits(task, busy, yard.max_root_tasks):
        return None
    why = f"{yard.running} of {yard.max_root_tasks} root tasks are under way."
    remedy = "Wait until one is at rest, or raise `[tasks] max_concurrent_root_tasks`."
    return Held(Gate.ROOT_TASKS, why, remedy, over=busy - yard.max_root_tasks)


def _runs(task: Task, yard: Yard) -> Held | None:
    if task.finishing or _free(yard.max_runs, yard.runs):
        return None
    why = f"{yard.runs} of {yard.max_runs} agents are at work in this home."
    remedy = "Wait until one ends, or raise `[tasks] max_concurrent_runs`."
    return Held(Gate.RUNS, why, remedy, over=yard.runs - yard.max_runs)


def _free(cap: int, used: int) -> bool:
    return cap <= 0 or used < cap


_GATES: tuple[Callable[[Task, Yard], Held | None], ...] = (
    _time,
    _open_run,
    _children,
    _watched,
    _ready,
    _paused,
    _drain,
    _disk,
    _budget,
    _dependencies,
    _root_tasks,
    _runs,
)
