"""The gates of a home, in order, and the inputs of some: dependencies, disks, restarts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from pathlib import Path

from hostler.governor.gate_info import GateInfo, GateScope
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

# A task can be admitted from these states; from the last two when its time has come.
WAITING_STATES = (TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED)
# A timestamp further in the future was written before the clock was set back.
_MAX_CLOCK_SKEW = timedelta(minutes=1)


class PriorityClass(IntEnum):
    """Priority of a waiting task; lower values start first."""

    CONTINUATION = 0
    FEEDBACK = 1
    CHILD = 2
    NEW = 3


class HomeGate(StrEnum):
    """Names of the gates of a home, in the order of evaluation. Gates of the pool follow."""

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


# Gates that are evaluated before the one for free workers.
BEFORE_WORKERS = frozenset(list(HomeGate)[: list(HomeGate).index(HomeGate.WORKERS)])


@dataclass(frozen=True, slots=True)
class Placement:
    """The agent, pool and limits that the settings give a task."""

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
    """Why a task does not start now, and what a user can do.

    `until` is when the gate opens by itself, if that is known. `excess` is by how much the count
    of a gate exceeds its limit.
    """

    gate: str
    why: str
    remedy: str = ""
    since: datetime | None = None
    until: datetime | None = None
    excess: int = 0


@dataclass(frozen=True, slots=True)
class AdmissionSnapshot:
    """Everything that the gates of a home read, at one time. A limit of 0 or less is no limit.

    `waiting`: tasks that could start next. By task: `placements`, `dependency_denials`,
    `budget_denials`. `busy_tasks` have a run that has not ended; `busy_parents` have a child with
    such a run. `waiting_roots` counts, by task, root tasks that released their slot and wait for
    it. `last_turns`: when each project had its last turn. `drain_reason`: why nothing starts,
    except the tasks in `drain_exempt`, which a running agent waits for.
    """

    now: datetime
    placements: Mapping[str, Placement]
    waiting: tuple[Task, ...] = ()
    dependency_denials: Mapping[str, GateDenial] = field(default_factory=dict)
    budget_denials: Mapping[str, GateDenial] = field(default_factory=dict)
    disk_denial: GateDenial | None = None
    busy_tasks: frozenset[str] = frozenset()
    busy_parents: frozenset[str] = frozenset()
    waiting_roots: Mapping[str, int] = field(default_factory=dict)
    active_runs: int = 0
    running_roots: int = 0
    max_runs: int = 0
    max_root_tasks: int = 0
    last_turns: Mapping[str, int] = field(default_factory=dict)
    drain_reason: str = ""
    drain_exempt: frozenset[str] = frozenset()
    promotion_wait: timedelta = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class AdmissionChoice:
    """The task to start, if any, and the denials of the tasks before it."""

    task: Task | None
    denials: Mapping[str, GateDenial]


# Evaluates the gates of the pool for a task that has passed all gates of the home.
GovernorCheck = Callable[[Task], GateDenial | None]


def allow_all(_task: Task) -> GateDenial | None:
    """Deny nothing."""
    return None


def choose_next(
    tasks: Iterable[Task], snapshot: AdmissionSnapshot, check_governor: GovernorCheck = allow_all
) -> AdmissionChoice:
    """Return the first task in priority order that no gate denies."""
    denials: dict[str, GateDenial] = {}
    for task in order_tasks(tasks, snapshot):
        denial = find_denial(task, snapshot) or (None if task.finishing else check_governor(task))
        if denial is None:
            return AdmissionChoice(task, denials)
        denials[task.id] = denial
    return AdmissionChoice(None, denials)


def order_tasks(tasks: Iterable[Task], snapshot: AdmissionSnapshot) -> list[Task]:
    """Return tasks in the order in which admission considers them."""
    return sorted(tasks, key=lambda task: _sort_key(task, snapshot))


def find_denial(task: Task, snapshot: AdmissionSnapshot) -> GateDenial | None:
    """Return the denial of the first closed gate of the home, or None."""
    denials = (gate.check(task, snapshot) for gate in HOME_GATES if gate.check is not None)
    return next((denial for denial in denials if denial is not None), None)


def priority_class(task: Task, snapshot: AdmissionSnapshot) -> PriorityClass:
    """Return the class of a task; a task that has waited long is in the first class."""
    has_begun = task.state is not TaskState.QUEUED
    if has_begun or waiting_time(task, snapshot.now) >= snapshot.promotion_wait:
        return PriorityClass.CONTINUATION
    if task.pr_number is not None or task.question:
        return PriorityClass.FEEDBACK
    return PriorityClass.NEW if is_root(task) else PriorityClass.CHILD


def waiting_time(task: Task, now: datetime) -> timedelta:
    """Return how long a task has waited; a timestamp in the future counts as now."""
    since = parse_timestamp(task.state_since)
    return max(now - since, timedelta())


def _sort_key(task: Task, snapshot: AdmissionSnapshot) -> tuple[int, int, int, str]:
    priority = priority_class(task, snapshot)
    # Root tasks under a limit start first come, first served; otherwise projects take turns.
    is_fifo = priority is PriorityClass.NEW and snapshot.max_root_tasks > 0
    turn = 0 if is_fifo else snapshot.last_turns.get(task.project, 0)
    return (priority, turn, task.order, task.id)


def _check_time(task: Task, snapshot: AdmissionSnapshot) -> GateDenial | None:
    if task.state is TaskState.QUEUED or task.wake_at is None or is_waiting_for_children(task):
        return None
    until = parse_timestamp(task.wake_at)
    # The clock has been set back since this wait began, so its end means nothing.
    is_from_future = parse_timestamp(task.state_since) > snapshot.now + _MAX_CLOCK_SKEW
    if until <= snapshot.now or is_from_future:
        return None
    return GateDenial(HomeGate.TIME, task.reason, until=until)


def _check_open_run(task: Task, snapshot: AdmissionSnapshot) -> GateDenial | None:
    if task.id not in snapshot.busy_tasks:
        return None
    return GateDenial(HomeGate.OPEN_RUN, "Its last run has not ended.", "Wait a moment.")


def _check_children(task: Task, snapshot: AdmissionSnapshot) -> GateDenial | None:
    if not is_waiting_for_children(task) or task.id not in snapshot.busy_parents:
        return None
    until = parse_timestamp(task.wake_at) if task.wake_at else snapshot.now
    if until <= snapshot.now:
        return None
    return GateDenial(HomeGate.CHILDREN, task.reason, "Wait, or stop its children.", until=until)


def _check_watched(task: Task, snapshot: AdmissionSnapshot) -> GateDenial | None:
    if task.id in snapshot.placements:
        return None
    why = f"The project {task.project} is not in the settings, or has no agent there."
    remedy = "Add it again (`hostler repo add`), or name its agent in the settings."
    return GateDenial(HomeGate.WATCHED, why, remedy)


def _check_ready(task: Task, snapshot: AdmissionSnapshot) -> GateDenial | None:
    if snapshot.placements[task.id].ready:
        return None
    why = f"{task.repo_full_name} was not reached since the start of the service."
    return GateDenial(HomeGate.READY, why, "Run `hostler doctor`, and see the log.")


def _check_paused(task: Task, snapshot: AdmissionSnapshot) -> GateDenial | None:
    paused = snapshot.placements[task.id].paused
    return GateDenial(HomeGate.PAUSED, paused, "Run `hostler unpause`.") if paused else None


def _check_drain(task: Task, snapshot: AdmissionSnapshot) -> GateDenial | None:
    if not snapshot.drain_reason or task.id in snapshot.drain_exempt:
        return None
    return GateDenial(HomeGate.DRAIN, snapshot.drain_reason, "Wait: it ends by itself.")


def _check_disk(task: Task, snapshot: AdmissionSnapshot) -> GateDenial | None:
    return None if task.finishing else snapshot.disk_denial


def _check_budget(task: Task, snapshot: AdmissionSnapshot) -> GateDenial | None:
    # Finishing a task starts no agent and costs nothing.
    return None if task.finishing else snapshot.budget_denials.get(task.id)


def _check_dependencies(task: Task, snapshot: AdmissionSnapshot) -> GateDenial | None:
    # A dependency that is added later does not stop work that has begun.
    if task.attempt > 0 or task.finishing:
        return None
    return snapshot.dependency_denials.get(task.id)


def _check_root_tasks(task: Task, snapshot: AdmissionSnapshot) -> GateDenial | None:
    # A root task that waits for this one does not take its slot.
    busy = snapshot.running_roots - snapshot.waiting_roots.get(task.id, 0)
    if has_free_slot(task, busy, snapshot.max_root_tasks):
        return None
    why = f"{snapshot.running_roots} of {snapshot.max_root_tasks} root tasks are running."
    remedy = "Wait until one ends, or raise `[tasks] max_concurrent_root_tasks`."
    excess = busy - snapshot.max_root_tasks
    return GateDenial(HomeGate.ROOT_TASKS, why, remedy, excess=excess)


def _check_runs(task: Task, snapshot: AdmissionSnapshot) -> GateDenial | None:
    if task.finishing or _has_capacity(snapshot.max_runs, snapshot.active_runs):
        return None
    why = f"{snapshot.active_runs} of {snapshot.max_runs} agents are running in this home."
    remedy = "Wait until one ends, or raise `[tasks] max_concurrent_runs`."
    excess = snapshot.active_runs - snapshot.max_runs
    return GateDenial(HomeGate.RUNS, why, remedy, excess=excess)


def _has_capacity(limit: int, used: int) -> bool:
    return limit <= 0 or used < limit


def workers_denial(busy: int, capacity: int) -> GateDenial | None:
    """Return the denial of the gate for free workers, or None if one is free."""
    if busy < capacity:
        return None
    why = f"{busy} of {capacity} workers are busy."
    remedy = "Wait until one is free, or raise `[runtime] worker_count`."
    return GateDenial(HomeGate.WORKERS, why, remedy, excess=busy - capacity)


def _home_gate(
    gate: HomeGate,
    label: str,
    meaning: str,
    remedy: str,
    check: Callable[[Task, AdmissionSnapshot], GateDenial | None] | None,
    *,
    is_polled: bool = False,
) -> GateInfo:
    return GateInfo(gate.value, GateScope.HOME, label, meaning, remedy, check, is_polled)


# One row per gate, in the order of evaluation. A new gate is a function and a row.
HOME_GATES: tuple[GateInfo, ...] = (
    _home_gate(
        HomeGate.TIME,
        "Waiting for its time",
        "The task is retried or continued at a later time.",
        "Wait.",
        _check_time,
    ),
    _home_gate(
        HomeGate.OPEN_RUN,
        "Last run not ended",
        "The last run of the task has not ended.",
        "Wait a moment.",
        _check_open_run,
    ),
    _home_gate(
        HomeGate.CHILDREN,
        "Waiting for child tasks",
        "The agent is done, and tasks that it submitted are still running.",
        "Wait, or stop its children.",
        _check_children,
        is_polled=True,
    ),
    _home_gate(
        HomeGate.WATCHED,
        "Not in the settings",
        "The settings name no repository or no agent for the project.",
        "Add the repository again, or name its agent in the settings.",
        _check_watched,
    ),
    _home_gate(
        HomeGate.READY,
        "Repository not reached",
        "The service has not reached the repository since it started.",
        "Run `hostler doctor`, and see the log.",
        _check_ready,
    ),
    _home_gate(
        HomeGate.PAUSED,
        "Paused",
        "An operator or the settings paused everything, or this project.",
        "Run `hostler unpause`.",
        _check_paused,
    ),
    _home_gate(
        HomeGate.DRAIN,
        "Draining",
        "The service is about to restart, or was started for one poll.",
        "Wait: it ends by itself.",
        _check_drain,
    ),
    _home_gate(
        HomeGate.DISK,
        "Disk full",
        "A disk of the home has less free space than `[runtime] disk_floor_mb`.",
        "Free some space.",
        _check_disk,
        is_polled=True,
    ),
    _home_gate(
        HomeGate.BUDGET,
        "Budget used up",
        "A budget of `[budget]` is used up.",
        "Wait for the next day, or raise the budget.",
        _check_budget,
    ),
    _home_gate(
        HomeGate.DEPENDENCIES,
        "Waiting for dependencies",
        "The task depends on tasks or issues that are not done.",
        "See `hostler task show` for what it waits for.",
        _check_dependencies,
        is_polled=True,
    ),
    _home_gate(
        HomeGate.ROOT_TASKS,
        "Too many root tasks",
        "`[tasks] max_concurrent_root_tasks` root tasks are running.",
        "Wait, or raise the limit.",
        _check_root_tasks,
    ),
    _home_gate(
        HomeGate.WORKERS,
        "No free worker",
        "`[runtime] worker_count` workers are busy.",
        "Wait, or raise the limit.",
        None,
    ),
    _home_gate(
        HomeGate.RUNS,
        "Too many agents",
        "`[tasks] max_concurrent_runs` agents are running in this home.",
        "Wait, or raise the limit.",
        _check_runs,
    ),
)


_BLOCKER_SCOPES = ("admission", "tasks")


@dataclass(frozen=True, slots=True)
class TaskBlockerChange:
    """A change of what a task waits for, and its description."""

    task: Task
    change: BlockerChange
    text: str


def store_blocker_changes(store: Store) -> list[TaskBlockerChange]:
    """Store and return the changed blockers of tasks that have not begun."""
    with store.read() as tx:
        concerned = [task for task in _tasks_not_begun(tx) if task.depends_on or task.blockers]
        if not concerned:
            return []
        blockers = read_blockers(tx, concerned)
        changed = [
            task
            for task in concerned
            if blocker_change(task, blockers.get(task.id, ())) is not BlockerChange.NONE
        ]
    changes = []
    for task in changed:
        with store.write(*_BLOCKER_SCOPES) as tx:
            present = find_task(tx, task.id)
            if present is None or present.state is not TaskState.QUEUED:
                continue
            after, change = store_blockers(tx, present, blockers.get(task.id, ()))
        if change is not BlockerChange.NONE:
            text = describe_blockers(blockers.get(task.id, ()))
            changes.append(TaskBlockerChange(after, change, text))
    return changes


def find_dependency_denials(tx: Transaction, tasks: Iterable[Task]) -> dict[str, GateDenial]:
    """Return, by task, the denial for tasks whose dependencies are not done."""
    return {name: dependency_denial(found) for name, found in read_blockers(tx, tasks).items()}


def dependency_denial(blockers: tuple[Blocker, ...]) -> GateDenial:
    """Return the denial for blockers; those that need a user are named first."""
    first = sorted(blockers, key=lambda blocker: not blocker.hopeless)
    remedy = next((blocker.remedy for blocker in first if blocker.remedy), "Wait.")
    return GateDenial(HomeGate.DEPENDENCIES, describe_blockers(first), remedy)


def _tasks_not_begun(tx: Transaction) -> list[Task]:
    return [task for task in tasks_in(tx, (TaskState.QUEUED,)) if task.attempt == 0]


# Folders of a home that agents and Hostler write to; each may be on its own disk.
_DISK_FOLDERS = ("", "checkouts", "mirrors", "projects", "logs")
# On a small disk, this share of it is kept free instead of the configured amount.
_MAX_RESERVED_SHARE = 0.05
_MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """Free and total space of one disk."""

    where: str
    free_mb: float
    total_mb: float


def read_disk_space(home: Path) -> tuple[DiskSpace, ...]:
    """Return the disks of a home, each once; disks that cannot be read are left out."""
    found: dict[int, DiskSpace] = {}
    for name in _DISK_FOLDERS:
        folder = home / name
        try:
            device, disk = folder.stat().st_dev, os.statvfs(folder)
        except OSError:
            continue
        free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        found.setdefault(device, DiskSpace(str(folder), free / _MB, total / _MB))
    return tuple(found.values())


def required_mb(disk: DiskSpace, floor_mb: int) -> float:
    """Return how much of a disk must be free."""
    return min(float(floor_mb), disk.total_mb * _MAX_RESERVED_SHARE)


def find_full_disk(disks: Iterable[DiskSpace], floor_mb: int) -> DiskSpace | None:
    """Return the fullest disk with too little free space, or None."""
    full = [disk for disk in disks if disk.free_mb < required_mb(disk, floor_mb)]
    return min(full, key=lambda disk: (disk.free_mb, disk.where), default=None)


def disk_full_text(disk: DiskSpace, floor_mb: int) -> str:
    """Describe why a full disk prevents starts."""
    needed = required_mb(disk, floor_mb)
    return (
        f"The disk of {disk.where} has {disk.free_mb:.1f} MB free, and {needed:.1f} MB are needed "
        "(`[runtime] disk_floor_mb`). Running agents continue; nothing new starts."
    )


DISK_FULL_REMEDY = "Free some space (`hostler gc` finds old data); work then continues by itself."


_RESTART_TEXT = "The service restarts as soon as running work has finished; nothing starts before."
ONE_POLL_TEXT = "The service was started for one poll, which is done: it only finishes its work."


def restart_denial(tx: Transaction) -> str:
    """Return why nothing starts while a restart is pending; empty otherwise."""
    return _RESTART_TEXT if current_restart(tx) is not None else ""
