"""The main loop of the service: poll, reap, schedule, record, shut down."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from hostler.backoff import backoff
from hostler.checkouts.process import halt_children, kill_orphaned_children, set_child_owner
from hostler.clock import Clock
from hostler.config.loader import SettingsChange
from hostler.errors import HostlerError, StoreError
from hostler.runs import RecoveredRun, recover
from hostler.service.change_detection import ChangeDetector, SettingsFile, TaskCounts
from hostler.service.context import AppContext, StepHook, ignore_step
from hostler.service.polling.orchestrator import RoundRobinSchedule
from hostler.service.restart import RestartDrain
from hostler.service.running.run_hooks import SHUTDOWN_REASON
from hostler.service.scheduling.admission import QueuedRuns
from hostler.service.scheduling.gates import ONE_POLL_TEXT, restart_denial
from hostler.service.scheduling.maintenance import PollCounter
from hostler.service.service_log import ServiceLog
from hostler.service.wiring import ServiceDeps, ServiceMode, build_for_settings, build_static
from hostler.store import Store
from hostler.store.outbox import OPEN, OutboxRow, open_writes
from hostler.store.runs import live_runs
from hostler.store.tasks import Task, TaskState, tasks_in
from hostler.store.transaction import Transaction


def _has_unsent_writes(writes: Iterable[OutboxRow]) -> bool:
    """Return True if a write will be sent soon. Issues whose writes fail do not count."""
    found = list(writes)
    troubled = {_write_thread(row) for row in found if row.last_error}
    return any(_write_thread(row) not in troubled and row.dependency not in OPEN for row in found)


def _write_thread(row: OutboxRow) -> tuple[str, int]:
    return row.repo_full_name, row.scope_number


@dataclass(frozen=True, slots=True)
class UnfinishedWork:
    """Runs that have not ended, and tasks that only need to be finished."""

    runs: tuple[RecoveredRun, ...]
    tasks: tuple[Task, ...]


def find_unfinished_work(home: Path, store: Store) -> UnfinishedWork:
    """Return all unfinished work. A running task without an open run must be finished."""
    runs = recover(home, store)
    busy = {found.run.task_id for found in runs}
    with store.read() as tx:
        running = tasks_in(tx, (TaskState.RUNNING,))
    return UnfinishedWork(tuple(runs), tuple(task for task in running if task.id not in busy))


# How long the watcher waits before it checks for a shutdown.
WATCH_SECONDS = 1.0
MAX_ERROR_PAUSE_SECONDS = 60.0
# How long threads get to stop.
SHUTDOWN_SECONDS = 15.0
# How often samples for the history are stored.
RECORD_SECONDS = 60.0


class ServiceRunner:
    """The service of one home. The caller holds the lock. `run` returns after `leave`.

    `restarting` is True if it stopped for a requested restart, after all work had finished.
    """

    def __init__(
        self,
        app: AppContext,
        clock: Clock,
        service_log: ServiceLog,
        mode: ServiceMode | None = None,
        *,
        observe: StepHook = ignore_step,
        settings_file: SettingsFile | None = None,
    ) -> None:
        self._clock = clock
        self._service_log = service_log
        self._mode = mode or ServiceMode()
        self._settings_file = settings_file
        self._news = clock.wakeup()
        self._leaving = threading.Event()
        self._deps = ServiceDeps(
            app,
            clock,
            service_log,
            self._mode,
            observe,
            wake=self.wake,
            enqueue=self._enqueue,
            freed=self._worker_freed,
            closed=self._closed,
            leaving=self._leaving.is_set,
        )
        self._static_parts = build_static(self._deps)
        self._parts = build_for_settings(self._deps, self._static_parts)
        self._drain = RestartDrain(app.store, service_log, clock)
        self._round_robin = RoundRobinSchedule(clock)
        self._rows = ChangeDetector(app.store, clock, lambda: self._parts.repo_contexts.ready())
        self._counts = TaskCounts(app.store)
        self._polls = PollCounter(clock)
        self._record_at = clock.monotonic()
        self._changes: list[SettingsChange] = []
        self._stop_agents = False
        self._polled_once = False
        self._failures = 0
        self.restarting = False

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Run the main loop until `leave` is called or `until` returns True."""
        try:
            # Inside the block: if startup fails half-way, threads that were started must stop.
            self._begin()
            while not self._leaving.is_set():
                # Clear first: an event during the iteration leads to another one.
                self._news.clear()
                seconds = self._turn()
                if self._asked(until):
                    break
                if not self._leaving.is_set():
                    self._news.wait(seconds)
        finally:
            self._end()

    def _asked(self, until: Callable[[], bool]) -> bool:
        """Call `until`. An error in it does not stop the service."""
        try:
            return until()
        except Exception as error:
            self._service_log.broke(error)
            return False

    def leave(self, *, stop_agents: bool = False) -> None:
        """Make `run` return soon. During a restart, stop the running update."""
        self._stop_agents = self._stop_agents or stop_agents
        if self.restarting:
            halt_children()
        self._leaving.set()
        self._news.set()

    def wake(self) -> None:
        """Trigger another iteration of the main loop."""
        self._news.set()

    def reload(self) -> None:
        """Read the settings again soon."""
        if self._settings_file is not None:
            self._settings_file.request_reload()

    @property
    def app(self) -> AppContext:
        """The application context with the current settings."""
        return self._parts.app

    @property
    def queued(self) -> QueuedRuns:
        """The number of tasks that wait for a run slot."""
        return self._static_parts.queued

    def poll_repository_soon(self, repo: str) -> None:
        """Poll one repository at once. Unknown names (in lower case) are ignored."""
        for orchestrator in self._parts.orchestrators:
            if str(orchestrator.watch.repo).lower() == repo:
                orchestrator.poll_soon()
                self.wake()

    def poll_all_soon(self) -> None:
        """Poll all repositories at once."""
        for orchestrator in self._parts.orchestrators:
            orchestrator.poll_soon()
        self.wake()

    def unreached_repositories(self) -> list[str]:
        """Return repositories whose last poll was incomplete."""
        return [str(one.watch.repo) for one in self._parts.orchestrators if one.is_incomplete]

    # -- startup ------------------------------------------------------------------------------

    def _begin(self) -> None:
        app, static_parts = self.app, self._static_parts
        set_child_owner(str(app.home))
        # Setup and test commands of a killed service would run beside new ones.
        kill_orphaned_children(str(app.home))
        left = find_unfinished_work(app.home, app.store)
        repos, workers = len(self._parts.orchestrators), static_parts.limiter.capacity()
        self._service_log.started(app.home, repos, workers)
        for found in left.runs:
            self._service_log.adopted(found)
            self._parts.run_monitor.restore_lease(found.run)
            static_parts.workers.adopt(self._parts.jobs.resuming(found.run))
        for task in left.tasks:
            static_parts.workers.adopt(self._parts.jobs.finishing(task))
        static_parts.outgoing.start()
        threading.Thread(target=self._watch, name="watcher", daemon=True).start()
        if self._mode.polls:
            self._drain.report_finished_restart()
            self._parts.maintenance.clean_leftovers()
        if self._mode.once:
            self.poll_all_soon()

    def _watch(self) -> None:
        """Trigger iterations after commits of any process, and read changed settings."""
        store = self.app.store
        mark = -1
        while not self._leaving.is_set():
            try:
                seen = store.wait_for_change(mark, WATCH_SECONDS)
                if seen != mark:
                    mark = seen
                    self._news.set()
                    self._static_parts.outgoing.wake()
                self._watch_settings()
            except Exception as error:
                # Without this thread the service would miss every commit.
                self._service_log.broke(error)
                self._leaving.wait(WATCH_SECONDS)

    def _watch_settings(self) -> None:
        if self._settings_file is None:
            return
        try:
            found = self._settings_file.read_change()
        except HostlerError as error:
            self._service_log.settings_refused(error)
            return
        if found is not None:
            self._changes.append(found)
            self._news.set()

    # -- one iteration ------------------------------------------------------------------------

    def _turn(self) -> float | None:
        """Do everything that is due; return in how many seconds the next iteration is due."""
        try:
            self._take_up_settings()
            workers = self._static_parts.workers
            again = workers.start_due()
            # A finished worker frees its slot even if it stored nothing.
            news = self._rows.has_changed() or self._parts.task_dispatcher.is_stale
            if news:
                self._parts.task_dispatcher.mark_stale()
            polled = self._poll()
            workers.reap()
            if news:
                if polled:
                    # A scheduling pass during the polls may not have seen these rows.
                    self._parts.task_dispatcher.mark_stale()
                self._look_at_rows()
            self._record()
            self._failures = 0
            return self._shortest(again)
        except Exception as error:
            # A busy or full database, or a defect. Running agents continue. The pause doubles, so
            # that weeks of errors do not fill the disk with logs.
            self._service_log.broke(error)
            self._rows.forget()
            self._failures += 1
            return backoff(self._failures, WATCH_SECONDS, MAX_ERROR_PAUSE_SECONDS)

    def _look_at_rows(self) -> None:
        """Run what depends on rows and on the time."""
        parts = self._parts
        parts.maintenance.run_due()
        parts.run_monitor.check_runs()
        self._find_lost()
        # During a drain too: runs get their slots back, and awaited tasks start.
        self._enqueue()
        self._service_log.capacity(self._static_parts.limiter)
        self._come_to_an_end()
        self._rows.due_in(self._rows_left())

    def _take_up_settings(self) -> None:
        """Replace all parts that depend on the settings. Running work continues."""
        while self._changes:
            change = self._changes[0]
            deps = replace(self._deps, app=replace(self.app, settings=change.settings))
            try:
                parts = build_for_settings(deps, self._static_parts, self._parts)
            except HostlerError as error:
                # For example, caps cannot be read: continue with the old settings and retry.
                self._service_log.broke(error)
                return
            # The next pass publishes the demand again. If this fails, the change is retried.
            self._parts.demand_reporter.withdraw()
            del self._changes[0]
            self._deps, self._parts = deps, parts
            self._rows.forget()
            self._static_parts.limiter.resize(change.settings.runtime.worker_count)
            self._service_log.settings_changed(change)

    def _poll(self) -> bool:
        """Advance the polls of all repositories. Return True if one has ended."""
        ended = False
        parts, workers = self._parts, self._static_parts.workers
        self._round_robin.call(parts.orchestrators)
        allowed = not self._draining()
        for orchestrator in parts.orchestrators:
            look = orchestrator.poll_once(workers, allow_enqueue=allowed)
            if look is not None:
                ended = True
                self._service_log.poll_finished(look, self._counts.of(look.project))
                self._polls.note(look, orchestrator.schedule.interval)
                parts.maintenance.after_poll(look)
        return ended

    def _record(self) -> None:
        """Store samples once a minute. This does not trigger iterations by itself."""
        now = self._clock.monotonic()
        if self._mode.polls and now >= self._record_at:
            self._record_at = now + RECORD_SECONDS
            self._parts.maintenance.record(self._polls.take(self._parts.orchestrators))

    def _worker_freed(self) -> None:
        """Schedule again: a worker is free."""
        self._parts.task_dispatcher.mark_stale()
        self.wake()

    def _enqueue(self) -> None:
        self._parts.task_dispatcher.enqueue()

    def _draining(self) -> bool:
        """Return True if no work may start."""
        return self._polled_once or (self._restarts and self._drain.is_requested())

    @property
    def _restarts(self) -> bool:
        return self._mode.polls and not self._mode.once

    def _closed(self, tx: Transaction) -> str:
        if self._polled_once:
            return ONE_POLL_TEXT
        return restart_denial(tx) if self._restarts else ""

    def _find_lost(self) -> None:
        """Adopt running tasks that have no worker, as at startup."""
        for task in self._parts.run_monitor.find_lost_tasks():
            self._service_log.lost(task)
            self._static_parts.workers.adopt(self._parts.jobs.finishing(task))

    def _come_to_an_end(self) -> None:
        """Stop if this was one poll, or a drain is complete."""
        pending = self._static_parts.workers.pending()
        if self._mode.once:
            if self._polled_once and not pending and not self._unsent():
                self.leave()
            # Set after this iteration: it has started the work of the last poll.
            self._polled_once = all(one.finished_polls for one in self._parts.orchestrators)
            return
        timeout = float(self.app.settings.runtime.restart_drain_timeout_seconds)
        if self._restarts and self._drain.advance(pending, timeout):
            self.leave()
            self.restarting = True

    def _unsent(self) -> bool:
        with self.app.store.read() as tx:
            return _has_unsent_writes(open_writes(tx))

    def _shortest(self, again: float | None) -> float | None:
        orchestrators = self._parts.orchestrators
        waits = [one.seconds_left() for one in orchestrators]
        waits += [again, self._round_robin.seconds_left(orchestrators), self._rows.seconds_left()]
        return min((one for one in waits if one is not None), default=None)

    def _rows_left(self) -> float | None:
        """Return in how many seconds rows must be read without a commit."""
        parts = self._parts
        waits = [parts.maintenance.seconds_left(), parts.run_monitor.seconds_left()]
        waits.append(self._drain.seconds_left())
        next_wakeup = parts.task_dispatcher.next_wakeup
        if next_wakeup.opens is not None:
            waits.append(max((next_wakeup.opens - self._clock.now()).total_seconds(), 0.01))
        waits.append(next_wakeup.recheck_seconds)
        if self._mode.once:
            waits.append(WATCH_SECONDS)
        return min((one for one in waits if one is not None), default=None)

    # -- shutdown -----------------------------------------------------------------------------

    def _end(self) -> None:
        static_parts = self._static_parts
        self._leaving.set()
        self._parts.maintenance.leave()
        if self._stop_agents:
            self._end_agents()
        static_parts.outgoing.leave(SHUTDOWN_SECONDS)
        with suppress(StoreError):
            self._parts.demand_reporter.withdraw()
        self.queued.clear()
        halt_children()
        static_parts.dispatcher.close()
        static_parts.thread_pools.close()
        static_parts.pool.shutdown(wait=False, cancel_futures=True)
        wait(static_parts.workers.futures(), SHUTDOWN_SECONDS)
        with suppress(StoreError), self.app.store.read() as tx:
            self._service_log.left(agents=len(live_runs(tx)))

    def _end_agents(self) -> None:
        """Stop all agents and wait for them; their tasks are queued again."""
        self._parts.run_monitor.stop_all(SHUTDOWN_REASON)
        grace = self.app.settings.runtime.stop_grace_seconds
        wait(self._static_parts.workers.futures(), grace + SHUTDOWN_SECONDS)
