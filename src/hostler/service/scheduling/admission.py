"""Admit tasks: evaluate all gates, then begin task, run and lease in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hostler.config.settings import Budget, Settings
from hostler.governor.gate_info import POOL_GATES
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
    HOME_GATES,
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

# Called with the change of the number of tasks that wait for a run slot.
WaitingRunHook = Callable[[int], None]


class QueuedRuns:
    """The number of tasks that only the limit of runs holds back."""

    def __init__(self) -> None:
        self._waiting = 0
        self._hook: WaitingRunHook | None = None

    def set_waiting_run_hook(self, hook: WaitingRunHook | None) -> None:
        """Set the function that is called with each change; None removes it."""
        self._hook = hook

    def count(self, waiting: int) -> None:
        """Set the number."""
        self._set(waiting)

    def clear(self) -> None:
        """Set the number to 0, when the service shuts down."""
        self._set(0)

    def _set(self, waiting: int) -> None:
        change, self._waiting = waiting - self._waiting, waiting
        metrics.set(QUEUED_RUNS, waiting)
        if change and self._hook is not None:
            self._hook(change)


# Gates of the pool; they are evaluated after all gates of the home.
GOVERNOR_GATES = frozenset(gate.name for gate in POOL_GATES)
# The gates, the rows of the task, and the writes that report it.
ADMISSION_SCOPES = ("admission", "outbox", "tasks")
# How often gates that open without a commit are checked again: processes end, memory and disk
# space become free, operators change files.
RECHECK_SECONDS = 2.0
_POLLED_GATES = {gate.name for gate in (*HOME_GATES, *POOL_GATES) if gate.is_polled}


@dataclass(frozen=True, slots=True)
class AdmittedTask:
    """A task that has begun. Without a run, it only needs to be finished.

    `back`: the run is not new but has its released slot again. `cleared`: its dependencies became
    ready just now.
    """

    task: Task
    run: Run | None
    back: bool = False
    cleared: bool = False


def allow_starts(_tx: Transaction) -> str:
    """Return no reason against starts."""
    return ""


@dataclass(frozen=True, slots=True)
class AdmissionDeps:
    """What admission reads.

    `ready` returns the projects that were reached, `read_host` the state of this machine,
    `drain_reason` why nothing starts, `read_disks` the disks of the home.
    """

    store: Store
    settings: Settings
    policy: Callable[[], Policy]
    ready: Callable[[], Collection[str]]
    read_host: Callable[[], HostView]
    drain_reason: Callable[[Transaction], str] = allow_starts
    read_disks: Callable[[], tuple[DiskSpace, ...]] = tuple


@dataclass(frozen=True, slots=True)
class AdmissionEvaluation:
    """A snapshot and the choice from it. `back`: a run wants its released slot again."""

    snapshot: AdmissionSnapshot
    choice: AdmissionChoice
    back: bool = False


@dataclass(frozen=True, slots=True)
class NextWakeup:
    """When to evaluate again if nothing is committed.

    `opens`: when the first gate opens. `recheck_seconds`: how soon a gate may open unannounced.
    """

    opens: datetime | None = None
    recheck_seconds: float | None = None


class Admission:
    """Starts tasks whose gates are open. `only` limits it to these tasks and their children."""

    def __init__(
        self,
        deps: AdmissionDeps,
        only: Collection[str] | None = None,
        queued: QueuedRuns | None = None,
    ) -> None:
        self.deps = deps
        self._only = only
        self.queued = queued or QueuedRuns()

    def evaluate(self) -> AdmissionEvaluation:
        """Evaluate the gates of all waiting tasks in one read transaction."""
        host, policy = self.deps.read_host(), self.deps.policy()
        with self.deps.store.read() as tx:
            runs = open_runs(tx)
            snapshot = self.read_snapshot(tx, runs)
            choice = self.choose(tx, snapshot, policy, host)
        return AdmissionEvaluation(snapshot, choice, _wants_slot_back(runs))

    def admit(
        self, evaluation: AdmissionEvaluation, acquire_worker: Callable[[], bool]
    ) -> tuple[list[AdmittedTask], AdmissionEvaluation]:
        """Start tasks while gates and workers allow it, all in one transaction.

        Returns the started tasks and the evaluation after them. `acquire_worker` is called once
        per start; the caller releases the workers of starts that are not returned.
        """
        # Most passes start nothing and need no write lock.
        if (evaluation.choice.task is None and not evaluation.back) or not acquire_worker():
            return [], evaluation
        admitted: list[AdmittedTask] = []
        try:
            return admitted, self._start_tasks(acquire_worker, admitted)
        except Exception:
            if not admitted:
                raise
        # A start that fails must not undo those before it. It comes first in the next pass, and
        # raises there if it fails again.
        workers = iter([True] * (len(admitted) - 1))
        admitted = []
        return admitted, self._start_tasks(lambda: next(workers, False), admitted)

    def _start_tasks(
        self, acquire_worker: Callable[[], bool], admitted: list[AdmittedTask]
    ) -> AdmissionEvaluation:
        """Start tasks in one transaction and add them to `admitted`; return the evaluation then.

        The first start has its worker already.
        """
        host, policy = self.deps.read_host(), self.deps.policy()
        has_worker = True
        with self.deps.store.write(*ADMISSION_SCOPES) as tx:
            runs = open_runs(tx)
            # Read again: another process may have committed since the evaluation.
            snapshot = self.read_snapshot(tx, runs)
            while has_worker:
                started = self._start_next(tx, snapshot, runs, policy, host)
                if started is None:
                    break
                admitted.append(started)
                take_turn(tx, started.task.project, self._weight(started.task.project))
                if started.back:
                    runs = open_runs(tx)
                    snapshot = self.read_snapshot(tx, runs)
                else:
                    snapshot = snapshot_after_start(snapshot, started, last_turns(tx))
                has_worker = acquire_worker()
            choice = self.choose(tx, snapshot, policy, host)
        return AdmissionEvaluation(snapshot, choice, _wants_slot_back(runs))

    def admit_next(self) -> AdmittedTask | None:
        """Start one task, if one can start."""
        workers = iter((True,))
        admitted, _ = self.admit(self.evaluate(), lambda: next(workers, False))
        return admitted[0] if admitted else None

    def note_gates(
        self, evaluation: AdmissionEvaluation, workers_full: GateDenial | None
    ) -> NextWakeup:
        """Store changed gates of waiting tasks; return when to evaluate again."""
        found = denying_gates(evaluation, workers_full)
        self.queued.count(count_queued_runs(evaluation.snapshot))
        waiting = {task.id: task for task in evaluation.snapshot.waiting}
        changed = {name: gate for name, gate in found.items() if waiting[name].gate != gate}
        if changed:
            with self.deps.store.write("tasks") as tx:
                for name, gate in changed.items():
                    note_gate(tx, name, gate)
        denials = evaluation.choice.denials.values()
        opens = min((one.until for one in denials if one.until), default=None)
        return NextWakeup(opens, self._recheck_seconds(evaluation))

    def _recheck_seconds(self, evaluation: AdmissionEvaluation) -> float | None:
        """Return how soon a gate may open without a commit; None if no such gate is closed."""
        limits = self.deps.settings.tasks
        intervals: Mapping[str, float] = {
            HomeGate.CHILDREN: limits.child_poll_interval_seconds,
            HomeGate.DEPENDENCIES: limits.dependency_poll_interval_seconds,
        }
        closed = {str(one.gate) for one in evaluation.choice.denials.values()} & _POLLED_GATES
        waits = [intervals.get(gate, RECHECK_SECONDS) for gate in closed]
        if evaluation.back:
            waits.append(RECHECK_SECONDS)
        return min(waits, default=None)

    def read_snapshot(
        self, tx: Transaction, runs: Sequence[Run] | None = None
    ) -> AdmissionSnapshot:
        """Read everything that the gates need. `runs` are those that have not ended."""
        deps = self.deps
        found = open_runs(tx) if runs is None else runs
        # A stopped task keeps its slot until its agent has ended.
        busy = {run.task_id: run for run in found}
        running = {task.id: task for task in tasks_in(tx, (TaskState.RUNNING,))}
        for name in busy.keys() - running.keys():
            running[name] = require_task(tx, name)
        limits = deps.settings.tasks
        waiting = self._waiting(tx)
        drain_reason = deps.drain_reason(tx)
        return AdmissionSnapshot(
            now=tx.now(),
            waiting=tuple(waiting),
            placements=self._placements(tx, [*waiting, *running.values()]),
            dependency_denials=find_dependency_denials(tx, waiting),
            disk_denial=disk_denial(deps.read_disks(), deps.settings.runtime.disk_floor_mb),
            budget_denials=budget_denials(tx, deps.settings.budget, waiting),
            busy_tasks=frozenset(busy),
            busy_parents=frozenset(
                task.parent_task
                for task in running.values()
                if task.parent_task and task.id in busy
            ),
            waiting_roots=count_waiting_roots(tx, found, running),
            active_runs=sum(run.state in LIVE and run.slot_released_at is None for run in found),
            running_roots=sum(is_root(task) for task in running.values()),
            max_runs=limits.max_concurrent_runs,
            max_root_tasks=limits.max_concurrent_root_tasks,
            last_turns=last_turns(tx),
            drain_reason=drain_reason,
            drain_exempt=find_awaited(tx, found, waiting) if drain_reason else frozenset(),
            promotion_wait=timedelta(seconds=limits.waiting_joins_first_class_seconds),
        )

    def choose(
        self, tx: Transaction, snapshot: AdmissionSnapshot, policy: Policy, host: HostView
    ) -> AdmissionChoice:
        """Choose the task to start, by the gates of the home and of the pool."""
        return choose_next(snapshot.waiting, snapshot, governor_check(tx, snapshot, policy, host))

    def _start_next(
        self,
        tx: Transaction,
        snapshot: AdmissionSnapshot,
        runs: Sequence[Run],
        policy: Policy,
        host: HostView,
    ) -> AdmittedTask | None:
        """Give a run its released slot back, else start the next task."""
        run = find_returning_run(tx, snapshot, runs, policy, host)
        if run is not None:
            return self._return_slot(tx, snapshot, run, policy, host)
        task = self.choose(tx, snapshot, policy, host).task
        return None if task is None else self._start(tx, snapshot, task, policy, host)

    def _start(
        self,
        tx: Transaction,
        snapshot: AdmissionSnapshot,
        task: Task,
        policy: Policy,
        host: HostView,
    ) -> AdmittedTask:
        if task.finishing and task.state is TaskState.PARKED:
            return AdmittedTask(resume_finishing(tx, task), None)
        placement = snapshot.placements[task.id]
        # The task keeps its agent only after a run: one that never starts changes nothing.
        begun = begin_turn(tx, replace(task, blockers=""))
        run = admit_run(
            tx,
            NewRun(
                task_id=task.id,
                project=task.project,
                kind=turn_kind(begun, load_turn_input(tx, begun)).value,
                agent=placement.agent,
                agent_kind=placement.agent_kind,
                pool=placement.pool,
            ),
        )
        answer = acquire(tx, lease_request(task, placement, run.run), policy, host)
        if isinstance(answer, LeaseDenied):
            raise RuntimeError(f"a lease was denied after the gates had passed: {answer.what}")
        return AdmittedTask(begun, run, cleared=bool(task.blockers))

    def _return_slot(
        self,
        tx: Transaction,
        snapshot: AdmissionSnapshot,
        run: Run,
        policy: Policy,
        host: HostView,
    ) -> AdmittedTask:
        answer = reacquire(tx, reacquire_request(run, snapshot), policy, host)
        if isinstance(answer, LeaseDenied):
            raise RuntimeError(f"a lease was denied after the gates had passed: {answer.what}")
        return AdmittedTask(require_task(tx, run.task_id), return_run_slot(tx, run), back=True)

    def _weight(self, project: str) -> int:
        repo = self.deps.settings.repo.get(project)
        return repo.weight if repo else 1

    def _waiting(self, tx: Transaction) -> list[Task]:
        found = tasks_in(tx, WAITING_STATES)
        if self._only is None:
            return found
        return [task for task in found if is_in_tree(tx, task, self._only)]

    def _placements(self, tx: Transaction, tasks: Iterable[Task]) -> dict[str, Placement]:
        paused, ready, settings = all_pauses(tx), self.deps.ready(), self.deps.settings
        closed = closed_pools(tx, self.deps.policy())
        found = {task.id: find_placement(settings, task, paused, ready, closed) for task in tasks}
        return {name: placement for name, placement in found.items() if placement is not None}


def snapshot_after_start(
    snapshot: AdmissionSnapshot, started: AdmittedTask, turns: Mapping[str, int]
) -> AdmissionSnapshot:
    """Return the snapshot after a task has started. A returned slot needs a new snapshot."""
    task, parent = started.task, started.task.parent_task
    has_run = started.run is not None
    was_counted = task.id in snapshot.busy_tasks
    return replace(
        snapshot,
        waiting=tuple(one for one in snapshot.waiting if one.id != task.id),
        busy_tasks=snapshot.busy_tasks | {task.id} if has_run else snapshot.busy_tasks,
        busy_parents=snapshot.busy_parents | {parent}
        if has_run and parent
        else snapshot.busy_parents,
        active_runs=snapshot.active_runs + has_run,
        running_roots=snapshot.running_roots + (is_root(task) and not was_counted),
        last_turns=turns,
    )


def disk_denial(disks: Iterable[DiskSpace], floor_mb: int) -> GateDenial | None:
    """Return the denial for a disk with too little free space."""
    disk = find_full_disk(disks, floor_mb)
    return (
        GateDenial(HomeGate.DISK, disk_full_text(disk, floor_mb), DISK_FULL_REMEDY)
        if disk is not None
        else None
    )


def budget_denials(
    tx: Transaction, budget: Budget, waiting: Sequence[Task]
) -> dict[str, GateDenial]:
    """Return, by task, the denial for a budget that is used up."""
    spent = read_spending(tx, budget, [task.id for task in waiting])
    found = {
        task.id: find_used_up(budgets_of_task(task.id, task.project, budget, spent, tx.now()))
        for task in waiting
    }
    return {
        name: GateDenial(HomeGate.BUDGET, usage.sentence, usage.remedy, until=usage.until)
        for name, usage in found.items()
        if usage is not None
    }


def denying_gates(
    evaluation: AdmissionEvaluation, workers_full: GateDenial | None
) -> dict[str, str]:
    """Return the closed gate of each waiting task.

    With no free worker, tasks that were not evaluated wait for one.
    """
    if workers_full is None:
        return {name: str(one.gate) for name, one in evaluation.choice.denials.items()}
    snapshot = evaluation.snapshot
    denials = {task.id: find_denial(task, snapshot) for task in snapshot.waiting}
    return {
        name: str(one.gate if one is not None and one.gate in BEFORE_WORKERS else workers_full.gate)
        for name, one in denials.items()
    }


def count_queued_runs(snapshot: AdmissionSnapshot) -> int:
    """Return how many tasks wait for the limit of runs, whether or not a worker is free."""
    denials = (find_denial(task, snapshot) for task in snapshot.waiting)
    return sum(one is not None and one.gate == HomeGate.RUNS for one in denials)


def governor_check(
    tx: Transaction, snapshot: AdmissionSnapshot, policy: Policy, host: HostView
) -> GovernorCheck:
    """Return a function that evaluates the gates of the pool for a task."""
    # The answer depends on pool and project: a thousand tasks of one project need one preview.
    known: dict[tuple[str, str], GateDenial | None] = {}

    def check(task: Task) -> GateDenial | None:
        placement = snapshot.placements[task.id]
        key = (placement.pool, placement.project)
        if key not in known:
            denied = preview(tx, lease_request(task, placement, task.id), policy, host)
            known[key] = governor_denial(denied) if denied else None
        return known[key]

    return check


def _wants_slot_back(runs: Iterable[Run]) -> bool:
    return any(run.slot_requested_at for run in runs)


def find_returning_run(
    tx: Transaction,
    snapshot: AdmissionSnapshot,
    runs: Iterable[Run],
    policy: Policy,
    host: HostView,
) -> Run | None:
    """Return the run that can have its released slot again. It starts before all tasks."""
    if snapshot.max_runs > 0 and snapshot.active_runs >= snapshot.max_runs:
        return None
    waiting = [run for run in runs if run.slot_requested_at and run.slot_released_at]
    oldest_first = sorted(waiting, key=lambda run: run.slot_requested_at or "")
    for run in oldest_first:
        if preview(tx, reacquire_request(run, snapshot), policy, host) is None:
            return run
    return None


def reacquire_request(run: Run, snapshot: AdmissionSnapshot) -> LeaseRequest:
    """Return the lease request of a run that wants its released slot again."""
    placement = snapshot.placements.get(run.task_id)
    width, weight = (placement.width, placement.weight) if placement else (0, 1)
    program = placement.agent if placement else run.agent
    return LeaseRequest(
        run.run, run.project, run.pool, run.task_id, program, width=width, weight=weight
    )


def lease_request(task: Task, placement: Placement, lease: str) -> LeaseRequest:
    """Return the lease request of a task."""
    return LeaseRequest(
        lease,
        task.project,
        placement.pool,
        task_id=task.id,
        program=placement.agent,
        width=placement.width,
        weight=placement.weight,
    )


def governor_denial(denied: LeaseDenied) -> GateDenial:
    """Convert a denial of the governor."""
    return GateDenial(
        denied.gate.value,
        denied.what,
        denied.remedy,
        since=denied.since,
        until=denied.opens_at,
        excess=max(denied.found - denied.allowed, 0),
    )
