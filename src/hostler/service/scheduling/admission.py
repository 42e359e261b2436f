"""Admit tasks: evaluate all gates, then begin task, run and lease in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hostler.config.settings import Budget, Settings
from hostler.governor.gates import Gate as GovernorGate
from hostler.governor.gates import LeaseDenied, LeaseRequest
from hostler.governor.holders import HostView
from hostler.governor.leases import acquire, preview, reacquire
from hostler.governor.parking import closed_pools
from hostler.governor.policy import Policy
from hostler.planner.queue import is_root
from hostler.runs import NewRun, admit_run
from hostler.service.running.budgets import budgets_of_task, find_used_up, read_spending
from hostler.service.scheduling.gates import (
    BEFORE_WORKERS,
    DISK_FULL_REMEDY,
    WAITING_STATES,
    AdmissionChoice,
    AdmissionSnapshot,
    DiskSpace,
    GateDenial,
    GovernorCheck,
    HomeGate,
    Placement,
    choose_next,
    disk_full_text,
    find_denial,
    find_dependency_denials,
    find_full_disk,
)
from hostler.service.scheduling.placement import find_placement
from hostler.service.scheduling.task_waits import count_waiting_roots, find_awaited
from hostler.store import Store, Transaction
from hostler.store.governor import last_turns, take_turn
from hostler.store.operator import all_pauses
from hostler.store.runs import LIVE, Run, open_runs, return_run_slot
from hostler.store.tasks import Task, TaskState, note_gate, require_task, tasks_in
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import QUEUED_RUNS
from hostler.workflows.commands import is_in_tree
from hostler.workflows.turns import begin_turn, load_turn_input, resume_finishing, turn_kind

# Told how many more (or fewer) wait than before.
WaitingRunHook = Callable[[int], None]


class QueuedRuns:
    """Tasks that only a run slot holds back."""

    def __init__(self) -> None:
        self._waiting = 0
        self._hook: WaitingRunHook | None = None

    def set_waiting_run_hook(self, hook: WaitingRunHook | None) -> None:
        """Have each change told; None: to nobody."""
        self._hook = hook

    def count(self, waiting: int) -> None:
        """So many wait now."""
        self._set(waiting)

    def clear(self) -> None:
        """Nobody waits here any more: the service leaves."""
        self._set(0)

    def _set(self, waiting: int) -> None:
        change, self._waiting = waiting - self._waiting, waiting
        metrics.set(QUEUED_RUNS, waiting)
        if change and self._hook is not None:
            self._hook(change)


# Gates that stand behind all of ours.
GOVERNOR_GATES = frozenset(gate.value for gate in GovernorGate)
# Those that open without anybody's word, or a commit.
UNANNOUNCED_GATES = GOVERNOR_GATES | {HomeGate.DISK.value}
# The gates, the task's rows and the writes that tell people.
ADMISSION_SCOPES = ("admission", "outbox", "tasks")


@dataclass(frozen=True, slots=True)
class AdmittedTask:
    """A task that has begun. Without a run, only our own part is left to do.

    `back`: the run is not new, it has its lent place again. `cleared`: what it waited for became
    ready just now.
    """

    task: Task
    run: Run | None
    back: bool = False
    cleared: bool = False


def allow_starts(_tx: Transaction) -> str:
    """Work may begin."""
    return ""


@dataclass(frozen=True, slots=True)
class AdmissionDeps:
    """What admission stands on.

    `ready`: projects that were reached; `look`: this machine now; `closed`: why nothing begins;
    `rooms`: the disks that are written to.
    """

    store: Store
    settings: Settings
    policy: Callable[[], Policy]
    ready: Callable[[], Collection[str]]
    look: Callable[[], HostView]
    closed: Callable[[Transaction], str] = allow_starts
    rooms: Callable[[], tuple[DiskSpace, ...]] = tuple


@dataclass(frozen=True, slots=True)
class AdmissionEvaluation:
    """What one look at the rows showed. `back`: somebody wants a lent place again."""

    yard: AdmissionSnapshot
    choice: AdmissionChoice
    back: bool = False


@dataclass(frozen=True, slots=True)
class NextWakeup:
    """When the first gate opens by itself; `governed`: one may open without anybody's word.

    Other processes end, memory becomes free, and an operator changes a file: none of it commits.
    """

    opens: datetime | None = None
    governed: bool = False


class Admission:
    """Admits tasks one by one. `only`: just these, and what comes from them."""

    def __init__(
        self,
        office: AdmissionDeps,
        only: Collection[str] | None = None,
        queued: QueuedRuns | None = None,
    ) -> None:
        self.office = office
        self._only = only
        self.queued = queued or QueuedRuns()

    def survey(self) -> AdmissionEvaluation:
        """Who would start now, what holds the others, and what is wanted: one look at the rows."""
        here, policy = self.office.look(), self.office.policy()
        with self.office.store.read() as tx:
            runs = open_runs(tx)
            yard = self.yard(tx, runs)
            choice = self.choose(tx, yard, policy, here)
            back = any(run.slot_requested_at for run in runs)
        return AdmissionEvaluation(yard, choice, back)

    def next(self, seen: AdmissionEvaluation | None = None) -> AdmittedTask | None:
        """Admit whoever is next; None if nobody can start now."""
        seen = seen or self.survey()
        # Most turns find nothing: they should not take the write lock.
        if seen.choice.task is None and not seen.back:
            return None
        here, policy = self.office.look(), self.office.policy()
        with self.office.store.write(*ADMISSION_SCOPES) as tx:
            runs = open_runs(tx)
            yard = self.yard(tx, runs)
            granted = self._back(tx, yard, runs, policy, here) or self._new(tx, yard, policy, here)
            if granted is not None:
                take_turn(tx, granted.task.project, self._weight(granted.task.project))
        return granted

    def note_gates(self, seen: AdmissionEvaluation, full: GateDenial | None) -> NextWakeup:
        """Store which gate holds whom, where that has changed; what is to be expected.

        `full`: no worker is free.
        """
        found = denying_gates(seen, full)
        self.queued.count(count_queued_runs(seen.yard))
        waiting = {task.id: task for task in seen.yard.waiting}
        changed = {name: gate for name, gate in found.items() if waiting[name].gate != gate}
        if changed:
            with self.office.store.write("tasks") as tx:
                for name, gate in changed.items():
                    note_gate(tx, name, gate)
        held = seen.choice.held.values()
        opens = min((one.until for one in held if one.until), default=None)
        return NextWakeup(opens, seen.back or any(one.gate in UNANNOUNCED_GATES for one in held))

    def yard(self, tx: Transaction, runs: Sequence[Run] | None = None) -> AdmissionSnapshot:
        """Everything that is counted, at this moment; `runs`: those that have not ended."""
        office = self.office
        found = open_runs(tx) if runs is None else runs
        # A stopped task keeps its place as long as its agent is there.
        busy = {run.task_id: run for run in found}
        running = {task.id: task for task in tasks_in(tx, (TaskState.RUNNING,))}
        for name in busy.keys() - running.keys():
            running[name] = require_task(tx, name)
        limits = office.settings.tasks
        waiting = self._waiting(tx)
        closed = office.closed(tx)
        return AdmissionSnapshot(
            now=tx.now(),
            waiting=tuple(waiting),
            places=self._places(tx, [*waiting, *running.values()]),
            needs=find_dependency_denials(tx, waiting),
            full=disk_denial(office.rooms(), office.settings.runtime.disk_floor_mb),
            empty=budget_denials(tx, office.settings.budget, waiting),
            busy=frozenset(busy),
            parents=frozenset(
                task.parent_task
                for task in running.values()
                if task.parent_task and task.id in busy
            ),
            awaited=count_waiting_roots(tx, found, running),
            runs=sum(run.state in LIVE and run.slot_released_at is None for run in found),
            running=sum(is_root(task) for task in running.values()),
            max_runs=limits.max_concurrent_runs,
            max_root_tasks=limits.max_concurrent_root_tasks,
            served=last_turns(tx),
            closed=closed,
            spared=find_awaited(tx, found, waiting) if closed else frozenset(),
            joins_first=timedelta(seconds=limits.waiting_joins_first_class_seconds),
        )

    def choose(
        self, tx: Transaction, yard: AdmissionSnapshot, policy: Policy, here: HostView
    ) -> AdmissionChoice:
        """Who would start now, and what holds the others."""
        return choose_next(yard.waiting, yard, governor_check(tx, yard, policy, here))

    def _new(
        self, tx: Transaction, yard: AdmissionSnapshot, policy: Policy, here: HostView
    ) -> AdmittedTask | None:
        task = self.choose(tx, yard, policy, here).task
        if task is None:
            return None
        if task.finishing and task.state is TaskState.PARKED:
            return AdmittedTask(resume_finishing(tx, task), None)
        place = yard.places[task.id]
        # Whose it is is noted after the run: one that never starts binds nobody.
        begun = begin_turn(tx, replace(task, blockers=""))
        run = admit_run(
            tx,
            NewRun(
                task_id=task.id,
                project=task.project,
                kind=turn_kind(begun, load_turn_input(tx, begun)).value,
                agent=place.agent,
                agent_kind=place.agent_kind,
                pool=place.pool,
            ),
        )
        answer = acquire(tx, lease_request(task, place, run.run), policy, here)
        if isinstance(answer, LeaseDenied):
            raise RuntimeError(f"a lease was refused after it was promised: {answer.what}")
        return AdmittedTask(begun, run, cleared=bool(task.blockers))

    def _back(
        self,
        tx: Transaction,
        yard: AdmissionSnapshot,
        runs: Sequence[Run],
        policy: Policy,
        here: HostView,
    ) -> AdmittedTask | None:
        """Whoever lent its place and is through with waiting goes before all others."""
        run = find_returning_run(tx, yard, runs, policy, here)
        if run is None:
            return None
        answer = reacquire(tx, reacquire_request(run, yard), policy, here)
        if isinstance(answer, LeaseDenied):
            raise RuntimeError(f"a place was refused after it was promised: {answer.what}")
        return AdmittedTask(require_task(tx, run.task_id), return_run_slot(tx, run), back=True)

    def _weight(self, project: str) -> int:
        repo = self.office.settings.repo.get(project)
        return repo.weight if repo else 1

    def _waiting(self, tx: Transaction) -> list[Task]:
        found = tasks_in(tx, WAITING_STATES)
        if self._only is None:
            return found
        return [task for task in found if is_in_tree(tx, task, self._only)]

    def _places(self, tx: Transaction, tasks: Iterable[Task]) -> dict[str, Placement]:
        paused, ready, settings = all_pauses(tx), self.office.ready(), self.office.settings
        closed = closed_pools(tx, self.office.policy())
        found = {task.id: find_placement(settings, task, paused, ready, closed) for task in tasks}
        return {name: place for name, place in found.items() if place is not None}


def disk_denial(rooms: Iterable[DiskSpace], floor_mb: int) -> GateDenial | None:
    """The disk on which there is too little room."""
    room = find_full_disk(rooms, floor_mb)
    return (
        GateDenial(HomeGate.DISK, disk_full_text(room, floor_mb), DISK_FULL_REMEDY)
        if room is not None
        else None
    )


def budget_denials(
    tx: Transaction, budget: Budget, waiting: Sequence[Task]
) -> dict[str, GateDenial]:
    """By task, the budget that is used up."""
    spent = read_spending(tx, budget, [task.id for task in waiting])
    found = {
        task.id: find_used_up(budgets_of_task(task.id, task.project, budget, spent, tx.now()))
        for task in waiting
    }
    return {
        name: GateDenial(HomeGate.BUDGET, purse.sentence, purse.remedy, until=purse.until)
        for name, purse in found.items()
        if purse is not None
    }


def denying_gates(seen: AdmissionEvaluation, full: GateDenial | None) -> dict[str, str]:
    """What holds each task that waits; whoever was not looked at is held by the workers alone."""
    if full is None:
        return {name: str(one.gate) for name, one in seen.choice.held.items()}
    own = {task.id: find_denial(task, seen.yard) for task in seen.yard.waiting}
    return {
        name: str(held.gate if held is not None and held.gate in BEFORE_WORKERS else full.gate)
        for name, held in own.items()
    }


def count_queued_runs(yard: AdmissionSnapshot) -> int:
    """How many wait for one of the home's run slots, whether or not a worker is free."""
    found = (find_denial(task, yard) for task in yard.waiting)
    return sum(held is not None and held.gate == HomeGate.RUNS for held in found)


def governor_check(
    tx: Transaction, yard: AdmissionSnapshot, policy: Policy, here: HostView
) -> GovernorCheck:
    """What the governor would say about each task that has passed all gates here."""

    # It answers by pool and project: a thousand tasks of one project need one question.
    said: dict[tuple[str, str], GateDenial | None] = {}

    def further(task: Task) -> GateDenial | None:
        place = yard.places[task.id]
        key = (place.pool, place.project)
        if key not in said:
            denied = preview(tx, lease_request(task, place, task.id), policy, here)
            said[key] = governor_denial(denied) if denied else None
        return said[key]

    return further


def find_returning_run(
    tx: Transaction, yard: AdmissionSnapshot, runs: Iterable[Run], policy: Policy, here: HostView
) -> Run | None:
    """The run that has its lent place back now, if there is one; it goes before all tasks."""
    if yard.max_runs > 0 and yard.runs >= yard.max_runs:
        return None
    waiting = [run for run in runs if run.slot_requested_at and run.slot_released_at]
    first = sorted(waiting, key=lambda run: run.slot_requested_at or "")
    return next(
        (r for r in first if preview(tx, reacquire_request(r, yard), policy, here) is None), None
    )


def reacquire_request(run: Run, yard: AdmissionSnapshot) -> LeaseRequest:
    """What is asked of the governor for a place that was lent."""
    place = yard.places.get(run.task_id)
    width, weight = (place.width, place.weight) if place else (0, 1)
    program = place.agent if place else run.agent
    return LeaseRequest(
        run.run, run.project, run.pool, run.task_id, program, width=width, weight=weight
    )


def lease_request(task: Task, place: Placement, lease: str) -> LeaseRequest:
    """What is asked of the governor for a task."""
    return LeaseRequest(
        lease,
        task.project,
        place.pool,
        task_id=task.id,
        program=place.agent,
        width=place.width,
        weight=place.weight,
    )


def governor_denial(denied: LeaseDenied) -> GateDenial:
    """The governor's no, as any other."""
    return GateDenial(
        denied.gate.value,
        denied.what,
        denied.remedy,
        since=denied.since,
        until=denied.opens_at,
        over=max(denied.found - denied.allowed, 0),
    )
