"""Rules of admission: who is next, and what holds everybody else. Touches nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum

from hostler.model import parse_stamp
from hostler.store.tasks import Task, TaskState

# From these a task can be admitted; the last two when their time has come.
WAITING = (TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED)


class Class(IntEnum):
    """Who comes before whom."""

    CONTINUATION = 0
    FEEDBACK = 1
    NEW = 2


class Gate(StrEnum):
    """What can hold a task."""

    TIME = "time"
    OPEN_RUN = "open_run"
    WATCHED = "watched"
    READY = "ready"
    PAUSED = "paused"
    SLOTS = "slots"
    POOL = "pool"
    ROOT_TASKS = "root_tasks"
    RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Place:
    """What the settings say about where a task runs. Caps of 0 or less are none."""

    project: str
    pool: str
    slots: int
    pool_cap: int
    paused: str = ""
    ready: bool = True


@dataclass(frozen=True, slots=True)
class Yard:
    """Everything that admission counts, at one moment."""

    now: datetime
    places: Mapping[str, Place]
    busy: frozenset[str] = frozenset()
    per_project: Mapping[str, int] = field(default_factory=dict)
    per_pool: Mapping[str, int] = field(default_factory=dict)
    runs: int = 0
    running: int = 0
    max_runs: int = 0
    max_root_tasks: int = 0
    served: Mapping[str, int] = field(default_factory=dict)
    joins_first: timedelta = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Held:
    """Why a task does not start now; `until`, where a time opens the gate."""

    gate: Gate
    why: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """Who starts, if anybody does, and what holds the others that were looked at."""

    task: Task | None
    held: Mapping[str, Held]


def choose(tasks: Iterable[Task], yard: Yard) -> Choice:
    """The first in order whom no gate holds."""
    held: dict[str, Held] = {}
    for task in sorted(tasks, key=lambda task: _rank(task, yard)):
        found = gate_of(task, yard)
        if found is None:
            return Choice(task, held)
        held[task.id] = found
    return Choice(None, held)


def gate_of(task: Task, yard: Yard) -> Held | None:
    """The first gate that holds a task, in the order of the table."""
    found = (gate(task, yard) for gate in _GATES)
    return next((held for held in found if held is not None), None)


def class_of(task: Task, yard: Yard) -> Class:
    """The class of a task; long waiting brings everybody into the first."""
    if task.state is not TaskState.QUEUED or waited(task, yard.now) >= yard.joins_first:
        return Class.CONTINUATION
    told = task.pr_number is not None or task.question
    return Class.FEEDBACK if told else Class.NEW


def waited(task: Task, now: datetime) -> timedelta:
    """How long it has been waiting; a stamp from the future counts as now."""
    since = parse_stamp(task.state_since)
    return max(now - since, timedelta())


def opening(tasks: Iterable[Task], now: datetime) -> datetime | None:
    """When the next one that waits for a time can be looked at again."""
    times = [parse_stamp(task.wake_at) for task in tasks if task.wake_at]
    return min((at for at in times if at > now), default=None)


def _rank(task: Task, yard: Yard) -> tuple[int, int, int, str]:
    served = yard.served.get(task.project, 0)
    return (class_of(task, yard), served, task.order, task.id)


def _time(task: Task, yard: Yard) -> Held | None:
    if task.state is TaskState.QUEUED or task.wake_at is None:
        return None
    until = parse_stamp(task.wake_at)
    return None if until <= yard.now else Held(Gate.TIME, task.reason, until)


def _open_run(task: Task, yard: Yard) -> Held | None:
    if task.id not in yard.busy:
        return None
    return Held(Gate.OPEN_RUN, "Its last run has not ended.")


def _watched(task: Task, yard: Yard) -> Held | None:
    if task.project in yard.places:
        return None
    why = f"{task.project} is not in the settings, or has no agent there."
    return Held(Gate.WATCHED, why)


def _ready(task: Task, yard: Yard) -> Held | None:
    if yard.places[task.project].ready:
        return None
    return Held(Gate.READY, f"{task.project} was not reached on GitHub since the start.")


def _paused(task: Task, yard: Yard) -> Held | None:
    paused = yard.places[task.project].paused
    return Held(Gate.PAUSED, paused) if paused else None


def _slots(task: Task, yard: Yard) -> Held | None:
    cap, used = yard.places[task.project].slots, yard.per_project.get(task.project, 0)
    if _free(cap, used) or task.finishing:
        return None
    return Held(Gate.SLOTS, f"{task.project} has {used} of {cap} agents at work.")


def _pool(task: Task, yard: Yard) -> Held | None:
    place = yard.places[task.project]
    used = yard.per_pool.get(place.pool, 0)
    if _free(place.pool_cap, used) or task.finishing:
        return None
    return Held(Gate.POOL, f"The pool {place.pool} has {used} of {place.pool_cap} agents at work.")


def _root_tasks(_task: Task, yard: Yard) -> Held | None:
    if _free(yard.max_root_tasks, yard.running):
        return None
    return Held(Gate.ROOT_TASKS, f"{yard.running} of {yard.max_root_tasks} tasks are under way.")


def _runs(task: Task, yard: Yard) -> Held | None:
    if _free(yard.max_runs, yard.runs) or task.finishing:
        return None
    return Held(Gate.RUNS, f"{yard.runs} of {yard.max_runs} agents are at work in this home.")


def _free(cap: int, used: int) -> bool:
    return cap <= 0 or used < cap


_GATES: tuple[Callable[[Task, Yard], Held | None], ...] = (
    _time,
    _open_run,
    _watched,
    _ready,
    _paused,
    _slots,
    _pool,
    _root_tasks,
    _runs,
)
