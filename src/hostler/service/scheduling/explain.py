"""Explain why a task does not start, with the functions that would start it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from hostler.config.settings import Settings
from hostler.governor.gate_info import POOL_GATES, GateInfo, GateScope
from hostler.governor.holders import HostView
from hostler.governor.policy import Policy
from hostler.model import format_timestamp, parse_timestamp
from hostler.planner.dependencies import Blocker
from hostler.planner.queue import read_blockers
from hostler.service.context import Presence
from hostler.service.scheduling.admission import (
    Admission,
    AdmissionDeps,
    allow_starts,
    find_returning_run,
    governor_check,
)
from hostler.service.scheduling.gates import (
    BEFORE_WORKERS,
    HOME_GATES,
    WAITING_STATES,
    DiskSpace,
    GateDenial,
    HomeGate,
    choose_next,
    order_tasks,
    restart_denial,
    workers_denial,
)
from hostler.service.tasks.summary import NextStep, describe_next_step
from hostler.store import Store, Transaction
from hostler.store.runs import open_runs
from hostler.store.tasks import Task, TaskState, projects_held, tasks_in
from hostler.store.transaction import not_after

# After all gates: other tasks that could start go first.
TURN_GATE = "turn"
_TURN_INFO = GateInfo(
    TURN_GATE, GateScope.HOME, "Not its turn", "Another task starts before it.", "Wait a moment."
)
# Every gate, in the order of evaluation.
GATES: tuple[GateInfo, ...] = (*HOME_GATES, *POOL_GATES, _TURN_INFO)
ALL_GATES = tuple(gate.name for gate in GATES)
GATE_LABELS = {gate.name: gate.label for gate in GATES}


class GateMark(StrEnum):
    """The result of a gate for one task."""

    PASSED = "passed"
    HOLDS = "holds"
    NOT_REACHED = "not_reached"


@dataclass(frozen=True, slots=True)
class ExplainInputs:
    """What explanations read: settings, policy, this machine, and who holds the home."""

    store: Store
    settings: Settings
    policy: Policy
    host: HostView
    presence: Presence
    disks: tuple[DiskSpace, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a task does not start. `denial` is None if it would start, or does not wait."""

    task: Task
    presence: Presence
    waits: bool
    denial: GateDenial | None = None
    since: datetime | None = None
    next: NextStep | None = None
    blockers: tuple[Blocker, ...] = ()

    @property
    def would_start(self) -> bool:
        """Whether the task starts next."""
        return self.waits and self.denial is None

    @property
    def chain(self) -> list[tuple[str, GateMark]]:
        """Every gate in order, with its result."""
        return gate_marks(self.denial.gate if self.denial else None) if self.waits else []

    def as_json(self) -> dict[str, Any]:
        """Return the explanation as JSON."""
        denial = self.denial
        return {
            "task": self.task.id,
            "state": self.task.state.value,
            "service": self.presence.as_json(),
            "waits": self.waits,
            "would_start": self.would_start,
            "gate": denial.gate if denial else None,
            "why": denial.why if denial else self.next.what if self.next else None,
            "remedy": denial.remedy if denial else self.next.then if self.next else None,
            "since": _timestamp(self.since),
            "until": _timestamp(denial.until) if denial else None,
            "gates": [
                {"gate": gate, "label": GATE_LABELS[gate], "mark": mark.value}
                for gate, mark in self.chain
            ],
            "blockers": [blocker_json(one) for one in self.blockers],
        }


def explain_task(tx: Transaction, inputs: ExplainInputs, task: Task) -> Explanation:
    """Explain which gate denies a task, or what happens to a task that does not wait."""
    now = tx.now()
    if task.state not in WAITING_STATES:
        since = not_after(parse_timestamp(task.state_since), now)
        step = describe_next_step(task, open_runs(tx, task_id=task.id))
        return Explanation(task, inputs.presence, False, since=since, next=step)
    denial = find_task_denial(tx, inputs, task)
    blockers = read_blockers(tx, [task]).get(task.id, ())
    since = not_after(denied_since(task, denial), now)
    return Explanation(task, inputs.presence, True, denial, since, None, blockers)


def find_task_denial(tx: Transaction, inputs: ExplainInputs, task: Task) -> GateDenial | None:
    """Return the denial of a waiting task, or None if it would start next."""
    return GateEvaluator(tx, inputs).find_denial(task)


class GateEvaluator:
    """Evaluates all gates for waiting tasks, from one snapshot."""

    def __init__(self, tx: Transaction, inputs: ExplainInputs) -> None:
        policy, host = inputs.policy, inputs.host
        admission = Admission(_build_admission_deps(tx, inputs))
        self.snapshot = admission.read_snapshot(tx)
        self._check_governor = governor_check(tx, self.snapshot, policy, host)
        self._workers_full = _count_workers_denial(tx, inputs.settings.runtime.worker_count)
        self._returning = find_returning_run(tx, self.snapshot, open_runs(tx), policy, host)
        self._first = admission.choose(tx, self.snapshot, policy, host).task

    def find_denial(self, task: Task) -> GateDenial | None:
        """Return the denial of a waiting task, or None if it would start next."""
        choice = choose_next([task], self.snapshot, self._check_governor)
        denial = choice.denials.get(task.id)
        if denial is not None and denial.gate in BEFORE_WORKERS:
            return denial
        if self._workers_full is not None or denial is not None:
            return self._workers_full or denial
        if self._returning is not None:
            return _turn_denial(
                f"The agent of {self._returning.task_id}, which had released its slot,"
            )
        first = self._first
        return None if first is None or first.id == task.id else _turn_denial(first.id)

    def queue(self) -> list[tuple[Task, GateDenial | None]]:
        """All that wait, as admission looks at them, each with what holds it."""
        return [
            (task, self.find_denial(task))
            for task in order_tasks(self.snapshot.waiting, self.snapshot)
        ]


def _build_admission_deps(tx: Transaction, inputs: ExplainInputs) -> AdmissionDeps:
    """Build what a service would evaluate with, as far as other processes know it."""
    ready = frozenset(inputs.settings.repo) - _unreached_projects(tx, inputs.presence)
    return AdmissionDeps(
        inputs.store,
        inputs.settings,
        lambda: inputs.policy,
        lambda: ready,
        lambda: inputs.host,
        # Only a service drains: a process that runs one task does not restart.
        restart_denial if inputs.presence.takes_tasks else allow_starts,
        read_disks=lambda: inputs.disks,
    )


def _count_workers_denial(tx: Transaction, capacity: int) -> GateDenial | None:
    """Return the denial for free workers, counted from rows: another process cannot ask them."""
    runs = open_runs(tx)
    with_run = {run.task_id for run in runs}
    finishing = [task for task in tasks_in(tx, (TaskState.RUNNING,)) if task.id not in with_run]
    return workers_denial(
        sum(run.slot_released_at is None for run in runs) + len(finishing), capacity
    )


def gate_marks(closed: str | None) -> list[tuple[str, GateMark]]:
    """Return the result of each gate, given the closed one."""
    position = ALL_GATES.index(closed) if closed is not None else len(ALL_GATES)
    order = {-1: GateMark.PASSED, 0: GateMark.HOLDS, 1: GateMark.NOT_REACHED}
    return [(gate, order[(at > position) - (at < position)]) for at, gate in enumerate(ALL_GATES)]


def denied_since(task: Task, denial: GateDenial | None) -> datetime:
    """Return since when a task is denied, as far as this is known."""
    state = parse_timestamp(task.state_since)
    if denial is not None and task.gate == denial.gate and task.gate_since:
        # A gate that was noted during an earlier wait does not count.
        return max(parse_timestamp(task.gate_since), state)
    return max(denial.since, state) if denial is not None and denial.since else state


def blocker_json(one: Blocker) -> dict[str, Any]:
    """Return a blocker as JSON."""
    return {
        "name": one.name,
        "standing": one.state.value,
        "why": one.sentence,
        "remedy": one.remedy,
        "hopeless": one.hopeless,
    }


def _unreached_projects(tx: Transaction, presence: Presence) -> frozenset[str]:
    """Return projects that the service has not reached since it started."""
    if not presence.takes_tasks or presence.holder is None:
        return frozenset()
    return projects_held(tx, HomeGate.READY.value, presence.holder.since)


def _turn_denial(first: str) -> GateDenial:
    return GateDenial(TURN_GATE, f"{first} starts first.", _TURN_INFO.remedy)


def _timestamp(moment: datetime | None) -> str | None:
    return format_timestamp(moment) if moment else None
