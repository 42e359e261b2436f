"""Explain why a task does not start, with the functions that would start it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from hostler.config.settings import Settings
from hostler.governor.gates import Gate as GovernorGate
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
    WAITING_STATES,
    DiskSpace,
    GateDenial,
    HomeGate,
    choose_next,
    order_tasks,
    restart_denial,
)
from hostler.service.tasks.summary import NextStep, describe_next_step
from hostler.store import Store, Transaction
from hostler.store.runs import open_runs
from hostler.store.tasks import Task, TaskState, projects_held, tasks_in
from hostler.store.transaction import not_after

# Behind all gates: others that could start go first.
TURN_GATE = "turn"
ALL_GATES = (*(gate.value for gate in HomeGate), *(gate.value for gate in GovernorGate), TURN_GATE)


class GateMark(StrEnum):
    """What a gate says to a task."""

    PASSED = "passed"
    HOLDS = "holds"
    NOT_REACHED = "not_reached"


@dataclass(frozen=True, slots=True)
class ExplainInputs:
    """What is asked with: the settings, the caps, this machine, and who works on the home."""

    store: Store
    settings: Settings
    policy: Policy
    here: HostView
    presence: Presence
    rooms: tuple[DiskSpace, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer. `held` is None for what would start now, and for what does not wait at all."""

    task: Task
    presence: Presence
    waits: bool
    held: GateDenial | None = None
    since: datetime | None = None
    next: NextStep | None = None
    blockers: tuple[Blocker, ...] = ()

    @property
    def would_start(self) -> bool:
        """Whether it is the next to start, as far as gates go."""
        return self.waits and self.held is None

    @property
    def chain(self) -> list[tuple[str, GateMark]]:
        """Every gate in order, up to the one that holds and beyond."""
        return gate_marks(self.held.gate if self.held else None) if self.waits else []

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        held = self.held
        return {
            "task": self.task.id,
            "state": self.task.state.value,
            "service": self.presence.as_json(),
            "waits": self.waits,
            "would_start": self.would_start,
            "gate": held.gate if held else None,
            "why": held.why if held else self.next.what if self.next else None,
            "remedy": held.remedy if held else self.next.then if self.next else None,
            "since": _timestamp(self.since),
            "until": _timestamp(held.until) if held else None,
            "gates": [{"gate": gate, "mark": mark.value} for gate, mark in self.chain],
            "blockers": [blocker_json(one) for one in self.blockers],
        }


def explain_task(tx: Transaction, inquiry: ExplainInputs, task: Task) -> Explanation:
    """What holds a task, or what it does instead of waiting."""
    now = tx.now()
    if task.state not in WAITING_STATES:
        since = not_after(parse_timestamp(task.state_since), now)
        told = describe_next_step(task, open_runs(tx, task_id=task.id))
        return Explanation(task, inquiry.presence, False, since=since, next=told)
    held = find_holding_gate(tx, inquiry, task)
    blockers = read_blockers(tx, [task]).get(task.id, ())
    since = not_after(denied_since(task, held), now)
    return Explanation(task, inquiry.presence, True, held, since, None, blockers)


def find_holding_gate(tx: Transaction, inquiry: ExplainInputs, task: Task) -> GateDenial | None:
    """The gate that holds a task; None for the one that admission would take next."""
    return GateEvaluator(tx, inquiry).holds(task)


class GateEvaluator:
    """What the gates say to every task that waits, at the one moment of a transaction."""

    def __init__(self, tx: Transaction, inquiry: ExplainInputs) -> None:
        policy, here = inquiry.policy, inquiry.here
        admission = Admission(_build_admission_deps(tx, inquiry))
        self.yard = admission.yard(tx)
        self._further = governor_check(tx, self.yard, policy, here)
        self._full = _workers_denial(tx, inquiry.settings.runtime.worker_count)
        self._back = find_returning_run(tx, self.yard, open_runs(tx), policy, here)
        self._first = admission.choose(tx, self.yard, policy, here).task

    def holds(self, task: Task) -> GateDenial | None:
        """The gate that holds a task; None for the one that admission would take next."""
        held = choose_next([task], self.yard, self._further).held.get(task.id)
        if held is not None and held.gate in BEFORE_WORKERS:
            return held
        if self._full is not None or held is not None:
            return self._full or held
        if self._back is not None:
            return _turn_denial(f"The agent of {self._back.task_id}, which lent its place,")
        first = self._first
        return None if first is None or first.id == task.id else _turn_denial(first.id)

    def queue(self) -> list[tuple[Task, GateDenial | None]]:
        """All that wait, as admission looks at them, each with what holds it."""
        return [(task, self.holds(task)) for task in order_tasks(self.yard.waiting, self.yard)]


def _build_admission_deps(tx: Transaction, inquiry: ExplainInputs) -> AdmissionDeps:
    """What a service would stand on now. Which repositories it has reached, only it knows."""
    ready = frozenset(inquiry.settings.repo) - _unreached_projects(tx, inquiry.presence)
    return AdmissionDeps(
        inquiry.store,
        inquiry.settings,
        lambda: inquiry.policy,
        lambda: ready,
        lambda: inquiry.here,
        # Only a service drains; whoever works on one task does not restart.
        restart_denial if inquiry.presence.takes_tasks else allow_starts,
        rooms=lambda: inquiry.rooms,
    )


def _workers_denial(tx: Transaction, workers: int) -> GateDenial | None:
    """The gate of workers, counted from rows: one per run, and per task whose end is ours."""
    runs = open_runs(tx)
    with_run = {run.task_id for run in runs}
    alone = [task for task in tasks_in(tx, (TaskState.RUNNING,)) if task.id not in with_run]
    busy = sum(run.slot_released_at is None for run in runs) + len(alone)
    if busy < workers:
        return None
    why = f"{busy} of {workers} workers are busy."
    remedy = "Wait until one is free, or raise `[runtime] worker_count`."
    return GateDenial(HomeGate.WORKERS, why, remedy, over=busy - workers)


def gate_marks(holding: str | None) -> list[tuple[str, GateMark]]:
    """What each gate says, if this is the one that holds."""
    place = ALL_GATES.index(holding) if holding is not None else len(ALL_GATES)
    order = {-1: GateMark.PASSED, 0: GateMark.HOLDS, 1: GateMark.NOT_REACHED}
    return [(gate, order[(at > place) - (at < place)]) for at, gate in enumerate(ALL_GATES)]


def denied_since(task: Task, held: GateDenial | None) -> datetime:
    """Since when this gate holds it, as far as anybody knows."""
    state = parse_timestamp(task.state_since)
    if held is not None and task.gate == held.gate and task.gate_since:
        # What was noted in an earlier wait says nothing about this one.
        return max(parse_timestamp(task.gate_since), state)
    return max(held.since, state) if held is not None and held.since else state


def blocker_json(one: Blocker) -> dict[str, Any]:
    """Something that a task waits for, for programs."""
    return {
        "name": one.name,
        "standing": one.state.value,
        "why": one.sentence,
        "remedy": one.remedy,
        "hopeless": one.hopeless,
    }


def _unreached_projects(tx: Transaction, who: Presence) -> frozenset[str]:
    """Projects of which the service noted, since it started, that it has not reached them."""
    if not who.takes_tasks or who.holder is None:
        return frozenset()
    return projects_held(tx, HomeGate.READY.value, who.holder.since)


def _turn_denial(who: str) -> GateDenial:
    return GateDenial(TURN_GATE, f"{who} goes first.", "Wait a moment.")


def _timestamp(moment: datetime | None) -> str | None:
    return format_timestamp(moment) if moment else None
