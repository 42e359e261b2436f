"""Why a task does not start, by the very functions that would start it. Reads one snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from hostler.config.settings import Settings
from hostler.governor import Gate as GovernorGate
from hostler.governor import Here, Policy
from hostler.model import parse_stamp, stamp
from hostler.planner import Blocker, blockers_of
from hostler.service.admission import Admission, Office, governed, open_house, returning
from hostler.service.candidates import BEFORE_WORKERS, WAITING, Gate, Held, choose, in_order
from hostler.service.closing import closed_for_restart
from hostler.service.next_steps import NextStep, next_step
from hostler.service.presence import Presence
from hostler.service.space import Room
from hostler.store import Store, Transaction
from hostler.store.runs import open_runs
from hostler.store.tasks import Task, TaskState, projects_held, tasks_in
from hostler.store.transaction import not_after

# Behind all gates: others that could start go first.
TURN = "turn"
CHAIN = (*(gate.value for gate in Gate), *(gate.value for gate in GovernorGate), TURN)


class Mark(StrEnum):
    """What a gate says to a task."""

    PASSED = "passed"
    HOLDS = "holds"
    NOT_REACHED = "not_reached"


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What is asked with: the settings, the caps, this machine, and who works on the home."""

    store: Store
    settings: Settings
    policy: Policy
    here: Here
    presence: Presence
    rooms: tuple[Room, ...] = ()


@dataclass(frozen=True, slots=True)
class Why:
    """The answer. `held` is None for what would start now, and for what does not wait at all."""

    task: Task
    presence: Presence
    waits: bool
    held: Held | None = None
    since: datetime | None = None
    next: NextStep | None = None
    blockers: tuple[Blocker, ...] = ()

    @property
    def would_start(self) -> bool:
        """Whether it is the next to start, as far as gates go."""
        return self.waits and self.held is None

    @property
    def chain(self) -> list[tuple[str, Mark]]:
        """Every gate in order, up to the one that holds and beyond."""
        return chain(self.held.gate if self.held else None) if self.waits else []

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
            "since": _moment(self.since),
            "until": _moment(held.until) if held else None,
            "gates": [{"gate": gate, "mark": mark.value} for gate, mark in self.chain],
            "blockers": [blocker_json(one) for one in self.blockers],
        }


def why(tx: Transaction, inquiry: Inquiry, task: Task) -> Why:
    """What holds a task, or what it does instead of waiting."""
    now = tx.now()
    if task.state not in WAITING:
        since = not_after(parse_stamp(task.state_since), now)
        told = next_step(task, open_runs(tx, task_id=task.id))
        return Why(task, inquiry.presence, False, since=since, next=told)
    held = holds(tx, inquiry, task)
    blockers = blockers_of(tx, [task]).get(task.id, ())
    since = not_after(since_when(task, held), now)
    return Why(task, inquiry.presence, True, held, since, None, blockers)


def holds(tx: Transaction, inquiry: Inquiry, task: Task) -> Held | None:
    """The gate that holds a task; None for the one that admission would take next."""
    return Gatekeeper(tx, inquiry).holds(task)


class Gatekeeper:
    """What the gates say to every task that waits, at the one moment of a transaction."""

    def __init__(self, tx: Transaction, inquiry: Inquiry) -> None:
        policy, here = inquiry.policy, inquiry.here
        admission = Admission(office_of(tx, inquiry))
        self.yard = admission.yard(tx)
        self._further = governed(tx, self.yard, policy, here)
        self._full = workers_full(tx, inquiry.settings.runtime.worker_count)
        self._back = returning(tx, self.yard, open_runs(tx), policy, here)
        self._first = admission.choose(tx, self.yard, policy, here).task

    def holds(self, task: Task) -> Held | None:
        """The gate that holds a task; None for the one that admission would take next."""
        held = choose([task], self.yard, self._further).held.get(task.id)
        if held is not None and held.gate in BEFORE_WORKERS:
            return held
        if self._full is not None or held is not None:
            return self._full or held
        if self._back is not None:
            return _after(f"The agent of {self._back.task_id}, which lent its place,")
        first = self._first
        return None if first is None or first.id == task.id else _after(first.id)

    def queue(self) -> list[tuple[Task, Held | None]]:
        """All that wait, as admission looks at them, each with what holds it."""
        return [(task, self.holds(task)) for task in in_order(self.yard.waiting, self.yard)]


def office_of(tx: Transaction, inquiry: Inquiry) -> Office:
    """What a service would stand on now. Which repositories it has reached, only it knows."""
    ready = frozenset(inquiry.settings.repo) - _unreached(tx, inquiry.presence)
    return Office(
        inquiry.store,
        inquiry.settings,
        lambda: inquiry.policy,
        lambda: ready,
        lambda: inquiry.here,
        # Only a service drains; whoever works on one task does not restart.
        closed_for_restart if inquiry.presence.takes_tasks else open_house,
        rooms=lambda: inquiry.rooms,
    )


def workers_full(tx: Transaction, workers: int) -> Held | None:
    """The gate of workers, counted from rows: one per run, and per task whose end is ours."""
    runs = open_runs(tx)
    with_run = {run.task_id for run in runs}
    alone = [task for task in tasks_in(tx, (TaskState.RUNNING,)) if task.id not in with_run]
    busy = sum(run.lent_at is None for run in runs) + len(alone)
    if busy < workers:
        return None
    why = f"{busy} of {workers} workers are busy."
    remedy = "Wait until one is free, or raise `[runtime] worker_count`."
    return Held(Gate.WORKERS, why, remedy, over=busy - workers)


def chain(holding: str | None) -> list[tuple[str, Mark]]:
    """What each gate says, if this is the one that holds."""
    place = CHAIN.index(holding) if holding is not None else len(CHAIN)
    order = {-1: Mark.PASSED, 0: Mark.HOLDS, 1: Mark.NOT_REACHED}
    return [(gate, order[(at > place) - (at < place)]) for at, gate in enumerate(CHAIN)]


def since_when(task: Task, held: Held | None) -> datetime:
    """Since when this gate holds it, as far as anybody knows."""
    state = parse_stamp(task.state_since)
    if held is not None and task.gate == held.gate and task.gate_since:
        # What was noted in an earlier wait says nothing about this one.
        return max(parse_stamp(task.gate_since), state)
    return max(held.since, state) if held is not None and held.since else state


def blocker_json(one: Blocker) -> dict[str, Any]:
    """Something that a task waits for, for programs."""
    return {
        "name": one.name,
        "standing": one.standing.value,
        "why": one.sentence,
        "remedy": one.remedy,
        "hopeless": one.hopeless,
    }


def _unreached(tx: Transaction, who: Presence) -> frozenset[str]:
    """Projects of which the service noted, since it started, that it has not reached them."""
    if not who.takes_tasks or who.holder is None:
        return frozenset()
    return projects_held(tx, Gate.READY.value, who.holder.since)


def _after(who: str) -> Held:
    return Held(TURN, f"{who} goes first.", "Wait a moment.")


def _moment(moment: datetime | None) -> str | None:
    return stamp(moment) if moment else None
