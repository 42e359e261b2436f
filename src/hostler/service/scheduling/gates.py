"""The gates of a home, in order, and the inputs of some: dependencies, disks, restarts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from pathlib import Path

from hostler.model import parse_timestamp
from hostler.planner.dependencies import Blocker, describe_blockers
from hostler.planner.queue import (
    BlockerChange,
    blocker_change,
    has_free_slot,
    is_root,
    read_blockers,
    store_blockers,
)
from hostler.store import Store, Transaction
from hostler.store.tasks import Task, TaskState, find_task, tasks_in
from hostler.workflows.commands import current_restart
from hostler.workflows.manual_tasks import is_waiting_for_children

# From these a task can be admitted; the last two when their time has come.
WAITING_STATES = (TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED)
# Stamps may lie so far ahead without anybody having moved a clock.
_MAX_CLOCK_SKEW = timedelta(minutes=1)


class PriorityClass(IntEnum):
    """Who comes before whom."""

    CONTINUATION = 0
    FEEDBACK = 1
    CHILD = 2
    NEW = 3


class HomeGate(StrEnum):
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
BEFORE_WORKERS = frozenset(list(HomeGate)[: list(HomeGate).index(HomeGate.WORKERS)])


@dataclass(frozen=True, slots=True)
class Placement:
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
class GateDenial:
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
class AdmissionSnapshot:
    """Everything that admission counts, at one moment. Limits of 0 or less are none.

    `waiting` are the tasks that could be next. `places`, `needs` and `empty` are by task: where it
    runs, what it still depends on, and which budget is used up; `full`: a disk is. `parents` are
    tasks whose children are at work; `awaited` counts, by task, the root tasks under way that wait
    for it with their places lent; `served` says where the last turn of each project ended;
    `closed` why nothing begins, if so, but for those `spared`, whom somebody at work waits for.
    """

    now: datetime
    places: Mapping[str, Placement]
    waiting: tuple[Task, ...] = ()
    needs: Mapping[str, GateDenial] = field(default_factory=dict)
    empty: Mapping[str, GateDenial] = field(default_factory=dict)
    full: GateDenial | None = None
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
class AdmissionChoice:
    """Who starts, if anybody does, and what holds the others that were looked at."""

    task: Task | None
    held: Mapping[str, GateDenial]


# What the governor says about a task that has passed all gates here.
GovernorCheck = Callable[[Task], GateDenial | None]


def allow_all(_task: Task) -> GateDenial | None:
    """Holds nobody."""
    return None


def choose_next(
    tasks: Iterable[Task], yard: AdmissionSnapshot, further: GovernorCheck = allow_all
) -> AdmissionChoice:
    """The first in order whom no gate holds."""
    held: dict[str, GateDenial] = {}
    for task in order_tasks(tasks, yard):
        found = find_denial(task, yard) or (None if task.finishing else further(task))
        if found is None:
            return AdmissionChoice(task, held)
        held[task.id] = found
    return AdmissionChoice(None, held)


def order_tasks(tasks: Iterable[Task], yard: AdmissionSnapshot) -> list[Task]:
    """Tasks as admission looks at them, one after another."""
    return sorted(tasks, key=lambda task: _sort_key(task, yard))


def find_denial(task: Task, yard: AdmissionSnapshot) -> GateDenial | None:
    """The first gate that holds a task, in the order of the table."""
    found = (gate(task, yard) for gate in _GATE_CHECKS)
    return next((held for held in found if held is not None), None)


def priority_class(task: Task, yard: AdmissionSnapshot) -> PriorityClass:
    """The class of a task; long waiting brings everybody into the first."""
    if task.state is not TaskState.QUEUED or waiting_time(task, yard.now) >= yard.joins_first:
        return PriorityClass.CONTINUATION
    if task.pr_number is not None or task.question:
        return PriorityClass.FEEDBACK
    return PriorityClass.NEW if is_root(task) else PriorityClass.CHILD


def waiting_time(task: Task, now: datetime) -> timedelta:
    """How long it has been waiting; a stamp from the future counts as now."""
    since = parse_timestamp(task.state_since)
    return max(now - since, timedelta())


def _sort_key(task: Task, yard: AdmissionSnapshot) -> tuple[int, int, int, str]:
    of = priority_class(task, yard)
    # Where root tasks are counted, they start as they came; otherwise projects take turns.
    in_line = of is PriorityClass.NEW and yard.max_root_tasks > 0
    served = 0 if in_line else yard.served.get(task.project, 0)
    return (of, served, task.order, task.id)


def _check_time(task: Task, yard: AdmissionSnapshot) -> GateDenial | None:
    if task.state is TaskState.QUEUED or task.wake_at is None or is_waiting_for_children(task):
        return None
    until = parse_timestamp(task.wake_at)
    # Whoever began to wait in the future was sent there by a clock that has been set back since.
    if until <= yard.now or parse_timestamp(task.state_since) > yard.now + _MAX_CLOCK_SKEW:
        return None
    return GateDenial(HomeGate.TIME, task.reason, until=until)


def _check_open_run(task: Task, yard: AdmissionSnapshot) -> GateDenial | None:
    if task.id not in yard.busy:
        return None
    return GateDenial(HomeGate.OPEN_RUN, "Its last run has not ended.", "Wait a moment.")


def _check_children(task: Task, yard: AdmissionSnapshot) -> GateDenial | None:
    if not is_waiting_for_children(task) or task.id not in yard.parents:
        return None
    until = parse_timestamp(task.wake_at) if task.wake_at else yard.now
    if until <= yard.now:
        return None
    return GateDenial(HomeGate.CHILDREN, task.reason, "Wait, or stop its children.", until=until)


def _check_watched(task: Task, yard: AdmissionSnapshot) -> GateDenial | None:
    if task.id in yard.places:
        return None
    why = f"The project {task.project} is not in the settings, or has no agent there."
    remedy = "Add it again (`hostler repo add`), or name its agent in the settings."
    return GateDenial(HomeGate.WATCHED, why, remedy)


def _check_ready(task: Task, yard: AdmissionSnapshot) -> GateDenial | None:
    if yard.places[task.id].ready:
        return None
    why = f"{task.repo_full_name} was not reached since the start of the service."
    return GateDenial(HomeGate.READY, why, "See `hostler doctor`, and the log.")


def _check_paused(task: Task, yard: AdmissionSnapshot) -> GateDenial | None:
    paused = yard.places[task.id].paused
    return GateDenial(HomeGate.PAUSED, paused, "See `hostler unpause`.") if paused else None


def _check_drain(task: Task, yard: AdmissionSnapshot) -> GateDenial | None:
    if not yard.closed or task.id in yard.spared:
        return None
    return GateDenial(HomeGate.DRAIN, yard.closed, "Wait: it is over by itself.")


def _check_disk(task: Task, yard: AdmissionSnapshot) -> GateDenial | None:
    return None if task.finishing else yard.full


def _check_budget(task: Task, yard: AdmissionSnapshot) -> GateDenial | None:
    # What is left of a finished run is ours, and costs nothing.
    return None if task.finishing else yard.empty.get(task.id)


def _check_dependencies(task: Task, yard: AdmissionSnapshot) -> GateDenial | None:
    # Work that has begun is not taken back because somebody adds a dependency later.
    return None if task.attempt > 0 or task.finishing else yard.needs.get(task.id)


def _check_root_tasks(task: Task, yard: AdmissionSnapshot) -> GateDenial | None:
    # Who waits for a task does not stand in its way.
    busy = yard.running - yard.awaited.get(task.id, 0)
    if has_free_slot(task, busy, yard.max_root_tasks):
        return None
    why = f"{yard.running} of {yard.max_root_tasks} root tasks are under way."
    remedy = "Wait until one is at rest, or raise `[tasks] max_concurrent_root_tasks`."
    return GateDenial(HomeGate.ROOT_TASKS, why, remedy, over=busy - yard.max_root_tasks)


def _check_runs(task: Task, yard: AdmissionSnapshot) -> GateDenial | None:
    if task.finishing or _has_capacity(yard.max_runs, yard.runs):
        return None
    why = f"{yard.runs} of {yard.max_runs} agents are at work in this home."
    remedy = "Wait until one ends, or raise `[tasks] max_concurrent_runs`."
    return GateDenial(HomeGate.RUNS, why, remedy, over=yard.runs - yard.max_runs)


def _has_capacity(cap: int, used: int) -> bool:
    return cap <= 0 or used < cap


_GATE_CHECKS: tuple[Callable[[Task, AdmissionSnapshot], GateDenial | None], ...] = (
    _check_time,
    _check_open_run,
    _check_children,
    _check_watched,
    _check_ready,
    _check_paused,
    _check_drain,
    _check_disk,
    _check_budget,
    _check_dependencies,
    _check_root_tasks,
    _check_runs,
)


_BLOCKER_SCOPES = ("admission", "tasks")


@dataclass(frozen=True, slots=True)
class TaskBlockerChange:
    """A task, and what there is to say about what it waits for."""

    task: Task
    news: BlockerChange
    text: str


def store_blocker_changes(store: Store) -> list[TaskBlockerChange]:
    """Store what has changed about blockers of tasks that have not begun."""
    with store.read() as tx:
        concerned = [task for task in _tasks_not_begun(tx) if task.depends_on or task.blockers]
        if not concerned:
            return []
        held = read_blockers(tx, concerned)
        changed = [
            t for t in concerned if blocker_change(t, held.get(t.id, ())) is not BlockerChange.NONE
        ]
    told = []
    for task in changed:
        with store.write(*_BLOCKER_SCOPES) as tx:
            present = find_task(tx, task.id)
            if present is None or present.state is not TaskState.QUEUED:
                continue
            after, news = store_blockers(tx, present, held.get(task.id, ()))
        if news is not BlockerChange.NONE:
            told.append(TaskBlockerChange(after, news, describe_blockers(held.get(task.id, ()))))
    return told


def find_dependency_denials(tx: Transaction, tasks: Iterable[Task]) -> dict[str, GateDenial]:
    """What each of these tasks waits for, as a gate that holds it."""
    return {name: dependency_denial(held) for name, held in read_blockers(tx, tasks).items()}


def dependency_denial(blockers: tuple[Blocker, ...]) -> GateDenial:
    """Blockers as any other gate; what cannot open by itself is said first."""
    first = sorted(blockers, key=lambda one: not one.hopeless)
    remedy = next((one.remedy for one in first if one.remedy), "Wait.")
    return GateDenial(HomeGate.DEPENDENCIES, describe_blockers(first), remedy)


def _tasks_not_begun(tx: Transaction) -> list[Task]:
    return [task for task in tasks_in(tx, (TaskState.QUEUED,)) if task.attempt == 0]


# Where what agents and we write goes; each may be a disk of its own.
_DISK_FOLDERS = ("", "checkouts", "mirrors", "projects", "logs")
# Of a small disk, this share is enough.
_MAX_RESERVED_SHARE = 0.05
_MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """One disk that we write to."""

    where: str
    free_mb: float
    total_mb: float


def read_disk_space(home: Path) -> tuple[DiskSpace, ...]:
    """The disks of a home, each once; what cannot be asked is left out."""
    found: dict[int, DiskSpace] = {}
    for name in _DISK_FOLDERS:
        place = home / name
        try:
            device, disk = place.stat().st_dev, os.statvfs(place)
        except OSError:
            continue
        free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        found.setdefault(device, DiskSpace(str(place), free / _MB, total / _MB))
    return tuple(found.values())


def required_mb(room: DiskSpace, floor_mb: int) -> float:
    """What must be free there."""
    return min(float(floor_mb), room.total_mb * _MAX_RESERVED_SHARE)


def find_full_disk(rooms: Iterable[DiskSpace], floor_mb: int) -> DiskSpace | None:
    """The disk with the least room, if it is too little. Pure."""
    short = [room for room in rooms if room.free_mb < required_mb(room, floor_mb)]
    return min(short, key=lambda room: (room.free_mb, room.where), default=None)


def disk_full_text(room: DiskSpace, floor_mb: int) -> str:
    """Why nothing begins."""
    needed = required_mb(room, floor_mb)
    return (
        f"The disk of {room.where} has {room.free_mb:.1f} MB free, and {needed:.1f} MB are needed "
        "(`[runtime] disk_floor_mb`). What runs goes on; nothing new starts."
    )


DISK_FULL_REMEDY = "Free some space (`hostler gc` finds what is old), and it goes on by itself."


_RESTART_TEXT = "The service restarts as soon as all work is over; nothing begins until then."
ONE_POLL_TEXT = "The service was asked for one look, which is over: it only ends what it has begun."


def restart_denial(tx: Transaction) -> str:
    """Why nothing begins, while a restart is under way; empty otherwise."""
    return _RESTART_TEXT if current_restart(tx) is not None else ""
