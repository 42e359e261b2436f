"""Report demand to the governor, hand admitted work to workers, and monitor live runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta

from hostler.clock import Clock
from hostler.governor.gates import LeaseRequest
from hostler.governor.holders import holder_of, is_alive
from hostler.governor.leases import force_reacquire, publish_demand, restore_lease, width_warning
from hostler.governor.policy import Policy
from hostler.planner.queue import find_stale
from hostler.runs import LocalDispatcher, Supervisor, request_stop
from hostler.runs.states import RunError
from hostler.service.context import AppContext, StepHook
from hostler.service.running.run_hooks import RunHooks
from hostler.service.scheduling.admission import Admission, AdmissionDeps, AdmittedTask, NextWakeup
from hostler.service.scheduling.gates import (
    AdmissionSnapshot,
    Placement,
    find_denial,
    workers_denial,
)
from hostler.service.scheduling.maintenance import Maintenance
from hostler.service.scheduling.workers import GlobalWorkLimiter, WorkerJob, WorkerPool
from hostler.service.service_log import ServiceLog
from hostler.store.runs import LIVE, Run, RunState, live_runs, open_runs, return_run_slot
from hostler.store.tasks import Task, TaskState, find_task, tasks_in

# Pool and project.
DemandKey = tuple[str, str]
# Called with a warning about a project that is wider than its share; None: it no longer is.
WarnTooWide = Callable[[DemandKey, str | None], None]


def _ignore_warning(_key: DemandKey, _text: str | None) -> None:
    """Ignore a warning."""


class DemandReporter:
    """Publishes how many agents each project could start, when this changes or gets old."""

    def __init__(self, deps: AdmissionDeps, warn: WarnTooWide = _ignore_warning) -> None:
        self._deps = deps
        self._warn = warn
        self._published: dict[DemandKey, tuple[int, float]] = {}

    def publish(self, now: float, snapshot: AdmissionSnapshot) -> None:
        """Report the demand of a snapshot to the governor."""
        wanted = count_demand(snapshot)
        policy = self._deps.policy()
        max_age = policy.demand_ttl_seconds / 3
        due = {
            key: (count, placement)
            for key, (count, placement) in wanted.items()
            if self._published.get(key, (None, 0.0))[0] != count
            or now - self._published[key][1] > max_age
        }
        ended = [key for key in self._published if key not in wanted]
        if due or ended:
            self._write(due, ended, policy)
        for key, (count, _) in due.items():
            self._published[key] = (count, now)
        for key in ended:
            del self._published[key]

    def withdraw(self) -> None:
        """Report that there is no demand any more."""
        if self._published:
            self._write({}, list(self._published), self._deps.policy())
            self._published.clear()

    def _write(
        self,
        due: Mapping[DemandKey, tuple[int, Placement]],
        ended: Iterable[DemandKey],
        policy: Policy,
    ) -> None:
        host = self._deps.read_host()
        with self._deps.store.write("admission", relaxed=True) as tx:
            for (pool, project), (count, placement) in due.items():
                weight, width = placement.weight, placement.width
                publish_demand(tx, pool, project, host, wanted=count, weight=weight, width=width)
            for pool, project in ended:
                publish_demand(tx, pool, project, host, wanted=0)
            warnings = {
                key: width_warning(tx, _width_request(placement), policy, host)
                for key, (_, placement) in due.items()
            }
        for key, text in warnings.items():
            self._warn(key, text)


def count_demand(snapshot: AdmissionSnapshot) -> dict[DemandKey, tuple[int, Placement]]:
    """Count, by pool and project, the agents that only gates of the pool hold back."""
    able = [
        task
        for task in snapshot.waiting
        if not task.finishing and find_denial(task, snapshot) is None
    ]
    placed = [snapshot.placements[task.id] for task in able]
    counts = Counter((placement.pool, placement.project) for placement in placed)
    placements = {(placement.pool, placement.project): placement for placement in placed}
    return {key: (count, placements[key]) for key, count in counts.items()}


def _width_request(placement: Placement) -> LeaseRequest:
    return LeaseRequest(
        "", placement.project, placement.pool, width=placement.width, weight=placement.weight
    )


# How often to check that the processes that released a slot are alive: their end commits nothing.
_RELEASED_SLOT_CHECK_SECONDS = 2.0
_MIN_CHECK_SECONDS = 0.1


class RunMonitor:
    """Watches all live runs and running tasks."""

    def __init__(
        self,
        app: AppContext,
        service_log: ServiceLog,
        dispatcher: LocalDispatcher,
        limiter: GlobalWorkLimiter,
        workers: WorkerPool,
        clock: Clock,
    ) -> None:
        self._app = app
        self._service_log = service_log
        self._dispatcher = dispatcher
        self._limiter = limiter
        self._workers = workers
        self._clock = clock
        # How long a task may be running with no run and no worker: between two steps it has none.
        self._grace = timedelta(seconds=app.settings.tasks.planner_grace_seconds)
        self._has_released_slots = False
        self._missed: dict[str, float] = {}
        self._has_unattended = False

    def check_runs(self) -> None:
        """Free the workers of waiting runs, and stop runs whose task was stopped."""
        with self._app.store.read() as tx:
            live = live_runs(tx)
            to_check = [(run, find_task(tx, run.task_id)) for run in live if run.stop_why is None]
        released = [run for run in live if run.slot_released_at]
        self._has_released_slots = bool(released)
        for run in released:
            self._workers.release_token(run.run)
            if is_waiter_dead(run):
                self._count_again(run)
        for run, task in to_check:
            if task is not None and must_stop(run, task):
                self._request_stop(run, task.reason or f"its task is {task.state}")

    def find_lost_tasks(self) -> list[Task]:
        """Return running tasks that had no run and no worker for `planner_grace_seconds`."""
        with self._app.store.read() as tx:
            running = tasks_in(tx, (TaskState.RUNNING,))
            attended = {run.task_id for run in open_runs(tx)} | self._workers.names()
            missed = find_stale(running, attended, tx.now(), self._grace)
        # Some may still be within the grace; its end commits nothing, so check again then.
        self._has_unattended = any(task.id not in attended for task in running)
        now = self._clock.monotonic()
        self._missed = {task.id: self._missed.get(task.id, now) for task in missed}
        grace = self._grace.total_seconds()
        return [task for task in missed if now - self._missed[task.id] >= grace]

    def seconds_left(self) -> float | None:
        """Return in how many seconds to check again; None: after the next commit."""
        if self._has_released_slots:
            return _RELEASED_SLOT_CHECK_SECONDS
        if not self._missed and not self._has_unattended:
            return None
        return max(self._grace.total_seconds(), _MIN_CHECK_SECONDS)

    def restore_lease(self, run: Run) -> None:
        """Give a live agent its lease again if a power cut lost it."""
        if run.state in LIVE and run.shim:
            with self._app.store.write("admission") as tx:
                restore_lease(tx, run)

    def stop_all(self, why: str) -> None:
        """Request that every agent stop."""
        with self._app.store.read() as tx:
            runs = live_runs(tx)
        for run in runs:
            self._request_stop(run, why)

    def _count_again(self, run: Run) -> None:
        """Count a run whose waiting process has died, whether or not a slot is free."""
        with self._app.store.write("admission") as tx:
            return_run_slot(tx, run)
            force_reacquire(tx, run.run)
        self._limiter.force()
        self._workers.retake_token(run.run)

    def _request_stop(self, run: Run, why: str) -> None:
        with self._app.store.write() as tx:
            is_first = request_stop(tx, run.run, why)
        if is_first:
            self._service_log.stopping(run, why)
        with suppress(RunError):  # its worker sends the request again
            self._dispatcher.cancel(run.run, self._app.settings.runtime.stop_grace_seconds)


def must_stop(run: Run, task: Task) -> bool:
    """Return True if a live run must stop because of the state of its task."""
    # A launch that fails changes its task before its run has ended.
    if run.state is RunState.ADMITTED:
        return task.over
    return task.state is not TaskState.RUNNING


def is_waiter_dead(run: Run) -> bool:
    """Return True if the process that released a run's slot no longer exists."""
    holder = holder_of(json.loads(run.slot_released_by or "{}"))
    return holder is None or is_alive(holder) is False


class JobFactory:
    """Makes the jobs of workers: supervise a run, resume one, or finish a task."""

    def __init__(self, supervisor: Supervisor, run_hooks: RunHooks) -> None:
        self._supervisor = supervisor
        self._run_hooks = run_hooks

    def supervising(self, run: Run) -> WorkerJob:
        """Return the job that launches a run and waits for its end."""
        supervisor = self._supervisor
        return WorkerJob(
            run.run, run.project, lambda: supervisor.supervise(run), lambda: supervisor.resume(run)
        )

    def resuming(self, run: Run) -> WorkerJob:
        """Return the job that waits for the end of a run that was launched before."""

        def resume() -> object:
            return self._supervisor.resume(run)

        return WorkerJob(run.run, run.project, resume, resume)

    def finishing(self, task: Task) -> WorkerJob:
        """Return the job that finishes a task whose agent is done."""

        def finish() -> None:
            self._run_hooks.finish_again(task)

        return WorkerJob(task.id, task.project, finish, finish)


class TaskDispatcher:
    """Starts waiting tasks on free workers."""

    def __init__(
        self,
        admission: Admission,
        demand_reporter: DemandReporter,
        jobs: JobFactory,
        workers: WorkerPool,
        limiter: GlobalWorkLimiter,
        maintenance: Maintenance,
        service_log: ServiceLog,
        observe: StepHook,
        clock: Clock,
        is_shutting_down: Callable[[], bool],
    ) -> None:
        self._admission = admission
        self._demand_reporter = demand_reporter
        self._jobs = jobs
        self._workers = workers
        self._limiter = limiter
        self._maintenance = maintenance
        self._service_log = service_log
        self._observe = observe
        self._clock = clock
        self._is_shutting_down = is_shutting_down
        self._stale = True
        self.next_wakeup = NextWakeup()

    def mark_stale(self) -> None:
        """Have the next call of `enqueue` evaluate the rows again."""
        self._stale = True

    @property
    def is_stale(self) -> bool:
        """Whether the next call of `enqueue` evaluates the rows again."""
        return self._stale

    def enqueue(self) -> None:
        """Start every task that can start; do nothing if nothing has changed."""
        if not self._stale:
            return
        self._stale = False
        try:
            self.next_wakeup = self._schedule()
        except BaseException:
            self._stale = True
            raise

    def _schedule(self) -> NextWakeup:
        """Evaluate the gates once, start what can start, and store which gates are closed."""
        limiter = self._limiter
        evaluation = self._admission.evaluate()
        self._demand_reporter.publish(self._clock.monotonic(), evaluation.snapshot)
        full = evaluation.snapshot.disk_denial
        self._service_log.full(full.why if full else "")
        taken = 0

        def acquire_worker() -> bool:
            nonlocal taken
            if self._is_shutting_down() or not limiter.try_acquire():
                return False
            taken += 1
            return True

        admitted: list[AdmittedTask] = []
        try:
            admitted, evaluation = self._admission.admit(evaluation, acquire_worker)
        finally:
            for _ in range(taken - len(admitted)):
                limiter.release()
        for task in admitted:
            self._start(task)
        workers_full = workers_denial(limiter.in_flight(), limiter.capacity())
        return self._admission.note_gates(evaluation, workers_full)

    def _start(self, admitted: AdmittedTask) -> None:
        run = admitted.run
        if admitted.back and run is not None:
            self._workers.retake_token(run.run)
            return
        self._service_log.admitted(admitted.task, run)
        if admitted.cleared:
            self._maintenance.report_unblocked(admitted.task)
        self._observe("admitted", run.run if run else admitted.task.id)
        jobs = self._jobs
        self._workers.start(jobs.supervising(run) if run else jobs.finishing(admitted.task))
