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
from hostler.service.context import AppContext, StepObserver
from hostler.service.running.run_hooks import RunHooks
from hostler.service.scheduling.admission import Admission, AdmissionDeps, AdmittedTask, NextWakeup
from hostler.service.scheduling.gates import (
    AdmissionSnapshot,
    GateDenial,
    HomeGate,
    Placement,
    find_denial,
)
from hostler.service.scheduling.maintenance import Maintenance
from hostler.service.scheduling.workers import GlobalWorkLimiter, WorkerJob, WorkerPool
from hostler.service.service_log import ServiceLog
from hostler.store.runs import LIVE, Run, RunState, live_runs, open_runs, return_run_slot
from hostler.store.tasks import Task, TaskState, find_task, tasks_in

# Pool and project.
DemandKey = tuple[str, str]
WarnTooWide = Callable[[DemandKey, str | None], None]


def _ignore_warning(_key: DemandKey, _words: str | None) -> None:
    """Warns nobody."""


class DemandReporter:
    """Says it when it has changed or is getting old. `warn`: of projects wider than their share."""

    def __init__(self, office: AdmissionDeps, warn: WarnTooWide = _ignore_warning) -> None:
        self._office = office
        self._warn = warn
        self._said: dict[DemandKey, tuple[int, float]] = {}

    def say(self, now: float, yard: AdmissionSnapshot) -> None:
        """Tell the governor."""
        wanted = count_demand(yard)
        policy = self._office.policy()
        ttl = policy.demand_ttl_seconds
        due = {
            key: (count, place)
            for key, (count, place) in wanted.items()
            if self._said.get(key, (None, 0.0))[0] != count or now - self._said[key][1] > ttl / 3
        }
        gone = [key for key in self._said if key not in wanted]
        if due or gone:
            self._write(due, gone, policy)
        for key, (count, _) in due.items():
            self._said[key] = (count, now)
        for key in gone:
            del self._said[key]

    def drop(self) -> None:
        """We want nothing any more."""
        if self._said:
            self._write({}, list(self._said), self._office.policy())
            self._said.clear()

    def _write(
        self,
        due: Mapping[DemandKey, tuple[int, Placement]],
        gone: Iterable[DemandKey],
        policy: Policy,
    ) -> None:
        here = self._office.look()
        with self._office.store.write("admission", relaxed=True) as tx:
            for (pool, project), (count, place) in due.items():
                weight, width = place.weight, place.width
                publish_demand(tx, pool, project, here, wanted=count, weight=weight, width=width)
            for pool, project in gone:
                publish_demand(tx, pool, project, here, wanted=0)
            wide = {
                key: width_warning(tx, _width_request(*one), policy, here)
                for key, one in due.items()
            }
        for key, words in wide.items():
            self._warn(key, words)


def count_demand(yard: AdmissionSnapshot) -> dict[DemandKey, tuple[int, Placement]]:
    """Agents that could start by every gate but the governor's, by pool and project."""
    able = [task for task in yard.waiting if not task.finishing and find_denial(task, yard) is None]
    placed = [yard.places[task.id] for task in able]
    counts = Counter((place.pool, place.project) for place in placed)
    places = {(place.pool, place.project): place for place in placed}
    return {key: (count, places[key]) for key, count in counts.items()}


def _width_request(_count: int, place: Placement) -> LeaseRequest:
    return LeaseRequest("", place.project, place.pool, width=place.width, weight=place.weight)


# How often it is looked whether those who lent their run's place still live: no commit says so.
_RELEASED_SLOT_CHECK_SECONDS = 2.0
# How long a task may be said to run with no run and no worker: between two steps, for a moment.
_UNATTENDED_GRACE = timedelta(seconds=5)


class RunMonitor:
    """Looks at all live runs once a turn."""

    def __init__(
        self,
        house: AppContext,
        journal: ServiceLog,
        dispatcher: LocalDispatcher,
        limiter: GlobalWorkLimiter,
        crew: WorkerPool,
        clock: Clock,
    ) -> None:
        self._house = house
        self._journal = journal
        self._dispatcher = dispatcher
        self._limiter = limiter
        self._crew = crew
        self._clock = clock
        self._lends = False
        self._missed: dict[str, float] = {}
        self._unattended = False

    def look(self) -> None:
        """Who waits for others needs no worker; whose task was stopped is asked to end."""
        with self._house.store.read() as tx:
            live = live_runs(tx)
            asked = [(run, find_task(tx, run.task_id)) for run in live if run.stop_why is None]
        lent = [run for run in live if run.slot_released_at]
        self._lends = bool(lent)
        for run in lent:
            self._crew.lend(run.run)
            if is_waiter_dead(run):
                self._count_again(run)
        for run, task in asked:
            if task is not None and must_stop(run, task):
                self._ask_to_stop(run, task.reason or f"its task is {task.state}")

    def lost(self) -> list[Task]:
        """Tasks that are said to run, and on which nobody has worked for longer than the grace."""
        with self._house.store.read() as tx:
            running = tasks_in(tx, (TaskState.RUNNING,))
            attended = {run.task_id for run in open_runs(tx)} | self._crew.names()
            missed = find_stale(running, attended, tx.now(), _UNATTENDED_GRACE)
        # Too young to be missed, some of them: nobody commits anything when they no longer are.
        self._unattended = any(task.id not in attended for task in running)
        now = self._clock.monotonic()
        self._missed = {task.id: self._missed.get(task.id, now) for task in missed}
        grace = _UNATTENDED_GRACE.total_seconds()
        return [task for task in missed if now - self._missed[task.id] >= grace]

    def seconds_left(self) -> float | None:
        """Until it must look again by itself."""
        if self._lends:
            return _RELEASED_SLOT_CHECK_SECONDS
        return _UNATTENDED_GRACE.total_seconds() if self._missed or self._unattended else None

    def hold_place(self, run: Run) -> None:
        """A live agent never loses its lease, whatever was lost in a power cut."""
        if run.state in LIVE and run.shim:
            with self._house.store.write("admission") as tx:
                restore_lease(tx, run)

    def stop_all(self, why: str) -> None:
        """Ask every agent to stop."""
        with self._house.store.read() as tx:
            runs = live_runs(tx)
        for run in runs:
            self._ask_to_stop(run, why)

    def _count_again(self, run: Run) -> None:
        """Whoever waited for it is dead, and its agent works on: it counts, room or not."""
        with self._house.store.write("admission") as tx:
            return_run_slot(tx, run)
            force_reacquire(tx, run.run)
        self._limiter.force()
        self._crew.regain(run.run)

    def _ask_to_stop(self, run: Run, why: str) -> None:
        with self._house.store.write() as tx:
            first = request_stop(tx, run.run, why)
        if first:
            self._journal.stopping(run, why)
        with suppress(RunError):  # its worker tells it again
            self._dispatcher.cancel(run.run, self._house.settings.runtime.stop_grace_seconds)


def must_stop(run: Run, task: Task) -> bool:
    """Whether a live run must end. A failing launch moves its task before its run has ended."""
    if run.state is RunState.ADMITTED:
        return task.over
    return task.state is not TaskState.RUNNING


def is_waiter_dead(run: Run) -> bool:
    """Whether nobody is left who would ask for a lent place."""
    holder = holder_of(json.loads(run.slot_released_by or "{}"))
    return holder is None or is_alive(holder) is False


class JobFactory:
    """What workers do: a new run, one that is under way, or our own part of a task."""

    def __init__(self, supervisor: Supervisor, work: RunHooks) -> None:
        self._supervisor = supervisor
        self._work = work

    def supervising(self, run: Run) -> WorkerJob:
        boss = self._supervisor
        return WorkerJob(
            run.run, run.project, lambda: boss.supervise(run), lambda: boss.resume(run)
        )

    def resuming(self, run: Run) -> WorkerJob:
        def resume() -> object:
            return self._supervisor.resume(run)

        return WorkerJob(run.run, run.project, resume, resume)

    def finishing(self, task: Task) -> WorkerJob:
        def finish() -> None:
            self._work.finish_again(task)

        return WorkerJob(task.id, task.project, finish, finish)


class TaskDispatcher:
    """Asks for a token before each start; whoever is through gives it back by itself."""

    def __init__(
        self,
        admission: Admission,
        demander: DemandReporter,
        jobs: JobFactory,
        crew: WorkerPool,
        limiter: GlobalWorkLimiter,
        chores: Maintenance,
        journal: ServiceLog,
        observe: StepObserver,
        clock: Clock,
        leaving: Callable[[], bool],
    ) -> None:
        self._admission = admission
        self._demander = demander
        self._jobs = jobs
        self._crew = crew
        self._limiter = limiter
        self._chores = chores
        self._journal = journal
        self._observe = observe
        self._clock = clock
        self._leaving = leaving
        self._stale = True
        self.outlook = NextWakeup()

    def news(self) -> None:
        """Rows may have changed: the next pass looks at them again."""
        self._stale = True

    @property
    def is_stale(self) -> bool:
        """Whether the next call of `enqueue` makes a pass."""
        return self._stale

    def enqueue(self) -> None:
        """Start everything that has a place now; nothing if nothing is new since the last pass."""
        if not self._stale:
            return
        self._stale = False
        try:
            self.outlook = self._pass()
        except BaseException:
            self._stale = True
            raise

    def _pass(self) -> NextWakeup:
        admission, limiter = self._admission, self._limiter
        seen = admission.survey()
        self._demander.say(self._clock.monotonic(), seen.yard)
        self._journal.full(seen.yard.full.why if seen.yard.full else "")
        while not self._leaving() and limiter.try_acquire():
            try:
                granted = admission.next(seen)
            except BaseException:
                limiter.release()
                raise
            if granted is None:
                limiter.release()
                return admission.note_gates(seen, None)
            self._start(granted)
            seen = admission.survey()
        return admission.note_gates(seen, _workers_denial(limiter))

    def _start(self, granted: AdmittedTask) -> None:
        run = granted.run
        if granted.back and run is not None:
            self._crew.regain(run.run)
            return
        self._journal.admitted(granted.task, run)
        if granted.cleared:
            self._chores.tell_clear(granted.task)
        self._observe("admitted", run.run if run else granted.task.id)
        jobs = self._jobs
        self._crew.start(jobs.supervising(run) if run else jobs.finishing(granted.task))


def _workers_denial(limiter: GlobalWorkLimiter) -> GateDenial:
    """Why nobody starts while all workers are busy."""
    busy, all_ = limiter.in_flight(), limiter.capacity()
    why = f"{busy} of {all_} workers are busy."
    return GateDenial(
        HomeGate.WORKERS, why, "Wait until one is free, or raise `[runtime] worker_count`."
    )
