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
from hostler.service.context import AppContext, StepObserver, ignore_step
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
    """Whether something will be sent soon: a thread that fails is left to the next service."""
    found = list(writes)
    troubled = {_write_thread(row) for row in found if row.last_error}
    return any(_write_thread(row) not in troubled and row.dependency not in OPEN for row in found)


def _write_thread(row: OutboxRow) -> tuple[str, int]:
    return row.repo_full_name, row.scope_number


@dataclass(frozen=True, slots=True)
class UnfinishedWork:
    """Runs that are not ended, and tasks of which only our own part is left."""

    runs: tuple[RecoveredRun, ...]
    tasks: tuple[Task, ...]


def find_unfinished_work(home: Path, store: Store) -> UnfinishedWork:
    """Everything under way. A running task without an open run waits for our part of it."""
    runs = recover(home, store)
    busy = {found.run.task_id for found in runs}
    with store.read() as tx:
        running = tasks_in(tx, (TaskState.RUNNING,))
    return UnfinishedWork(tuple(runs), tuple(task for task in running if task.id not in busy))


# How long the watcher waits before it looks whether we are leaving.
WATCH_SECONDS = 1.0
MAX_ERROR_PAUSE_SECONDS = 60.0
# How long a finished look, a write or a worker may take to notice that we are leaving.
SHUTDOWN_SECONDS = 15.0
# How often it is looked whether the governor says something else: nobody may tell us.
GOVERNOR_CHECK_SECONDS = 2.0
# How often what is to be seen later is written down.
RECORD_SECONDS = 60.0


class ServiceRunner:
    """One service on one home, whose lock the caller holds. `run` returns after `leave`.

    `restarting`: it has left because a restart was asked for and all work is over.
    """

    def __init__(
        self,
        house: AppContext,
        clock: Clock,
        journal: ServiceLog,
        duty: ServiceMode | None = None,
        *,
        observe: StepObserver = ignore_step,
        settings_file: SettingsFile | None = None,
    ) -> None:
        self._clock = clock
        self._journal = journal
        self._duty = duty or ServiceMode()
        self._settings_file = settings_file
        self._news = clock.wakeup()
        self._leaving = threading.Event()
        self._ground = ServiceDeps(
            house,
            clock,
            journal,
            self._duty,
            observe,
            wake=self.wake,
            enqueue=self._enqueue,
            freed=self._worker_freed,
            closed=self._closed,
            leaving=self._leaving.is_set,
        )
        self._lasting = build_static(self._ground)
        self._parts = build_for_settings(self._ground, self._lasting)
        self._drain = RestartDrain(house.store, journal, clock)
        self._rota = RoundRobinSchedule(clock)
        self._rows = ChangeDetector(house.store, clock, lambda: self._parts.desks.ready())
        self._counts = TaskCounts(house.store)
        self._polls = PollCounter(clock)
        self._record_at = clock.monotonic()
        self._changes: list[SettingsChange] = []
        self._stop_agents = False
        self._looked_once = False
        self._failures = 0
        self.restarting = False

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Work until told to leave, or until `until` says so after a turn."""
        try:
            # Inside: should it fail half-way, whoever has begun to work is asked to leave too.
            self._begin()
            while not self._leaving.is_set():
                # Cleared before looking: what happens meanwhile causes one more turn.
                self._news.clear()
                seconds = self._turn()
                if self._asked(until):
                    break
                if not self._leaving.is_set():
                    self._news.wait(seconds)
        finally:
            self._end()

    def _asked(self, until: Callable[[], bool]) -> bool:
        """What is asked after each turn. An answer that fails is no reason to leave."""
        try:
            return until()
        except Exception as error:
            self._journal.broke(error)
            return False

    def leave(self, *, stop_agents: bool = False) -> None:
        """End `run` soon; after it, end the update that a restart has begun."""
        self._stop_agents = self._stop_agents or stop_agents
        if self.restarting:
            halt_children()
        self._leaving.set()
        self._news.set()

    def wake(self) -> None:
        """Have another turn."""
        self._news.set()

    def reload(self) -> None:
        """Read the settings again soon."""
        if self._settings_file is not None:
            self._settings_file.ask()

    @property
    def house(self) -> AppContext:
        """What it stands on now."""
        return self._parts.house

    @property
    def queued(self) -> QueuedRuns:
        """How many wait for a run slot."""
        return self._lasting.queued

    def look_at(self, repo: str) -> None:
        """Look at one repository at once, by its name in lower case; another one is no news."""
        for orchestrator in self._parts.orchestrators:
            if str(orchestrator.watch.repo).lower() == repo:
                orchestrator.hasten()
                self.wake()

    def look_now(self) -> None:
        """Look at all repositories at once, without waiting for their time."""
        for orchestrator in self._parts.orchestrators:
            orchestrator.hasten()
        self.wake()

    def unreached(self) -> list[str]:
        """Repositories of which the last look did not see everything."""
        return [str(one.watch.repo) for one in self._parts.orchestrators if one.unread]

    # -- beginning ----------------------------------------------------------------------------

    def _begin(self) -> None:
        house, lasting = self.house, self._lasting
        set_child_owner(str(house.home))
        # What a killed service left of setup and test commands would work beside the next ones.
        kill_orphaned_children(str(house.home))
        left = find_unfinished_work(house.home, house.store)
        repos, workers = len(self._parts.orchestrators), lasting.limiter.capacity()
        self._journal.started(house.home, repos, workers)
        for found in left.runs:
            self._journal.adopted(found)
            self._parts.minder.hold_place(found.run)
            lasting.crew.adopt(self._parts.jobs.resuming(found.run))
        for task in left.tasks:
            lasting.crew.adopt(self._parts.jobs.finishing(task))
        lasting.outgoing.start()
        threading.Thread(target=self._watch, name="watcher", daemon=True).start()
        if self._duty.polls:
            self._drain.came_back()
            self._parts.chores.clean_leftovers()
        if self._duty.once:
            self.look_now()

    def _watch(self) -> None:
        """Other processes' commits, our own, and changed settings are news for everybody here."""
        store = self.house.store
        mark = -1
        while not self._leaving.is_set():
            try:
                seen = store.wait_for_change(mark, WATCH_SECONDS)
                if seen != mark:
                    mark = seen
                    self._news.set()
                    self._lasting.outgoing.wake()
                self._watch_settings()
            except Exception as error:
                # Without this thread the service would be deaf, and nobody would know.
                self._journal.broke(error)
                self._leaving.wait(WATCH_SECONDS)

    def _watch_settings(self) -> None:
        if self._settings_file is None:
            return
        try:
            found = self._settings_file.look()
        except HostlerError as error:
            self._journal.settings_refused(error)
            return
        if found is not None:
            self._changes.append(found)
            self._news.set()

    # -- one turn -----------------------------------------------------------------------------

    def _turn(self) -> float | None:
        """Everything that can be done now; in how many seconds the next turn is due by itself."""
        try:
            self._take_up_settings()
            crew = self._lasting.crew
            again = crew.start_due()
            # A finished worker has freed its place, whether or not it stored anything.
            news = self._rows.look() or self._parts.enqueuer.is_stale
            if news:
                self._parts.enqueuer.news()
            polled = self._poll()
            crew.reap()
            if news:
                if polled:
                    # The pass of an earlier repository may not have seen these rows.
                    self._parts.enqueuer.news()
                self._look_at_rows()
            self._record()
            self._failures = 0
            return self._shortest(again)
        except Exception as error:
            # A busy or full database, or a defect: what was stored is stored, and those who are
            # at work go on. Later each time, so that weeks of it do not fill the disk.
            self._journal.broke(error)
            self._rows.forget()
            self._failures += 1
            return backoff(self._failures, WATCH_SECONDS, MAX_ERROR_PAUSE_SECONDS)

    def _look_at_rows(self) -> None:
        """What follows from rows and from the time: a look that brought nothing changes neither."""
        parts = self._parts
        parts.chores.do()
        parts.minder.look()
        self._find_lost()
        # In a drain it gives lent places back, and starts what those who wait need.
        self._enqueue()
        self._journal.capacity(self._lasting.limiter)
        self._come_to_an_end()
        self._rows.due_in(self._rows_left())

    def _take_up_settings(self) -> None:
        """Swap everything that the settings say, in one step; nobody at work is interrupted."""
        while self._changes:
            change = self._changes[0]
            ground = replace(self._ground, house=replace(self.house, settings=change.settings))
            try:
                parts = build_for_settings(ground, self._lasting, self._parts)
            except HostlerError as error:
                # The caps cannot be read, for one: tried again, and meanwhile work goes on.
                self._journal.broke(error)
                return
            # What is wanted is said anew, by the next pass. Should it fail, the change stays.
            self._parts.demander.drop()
            del self._changes[0]
            self._ground, self._parts = ground, parts
            self._rows.forget()
            self._lasting.limiter.resize(change.settings.runtime.worker_count)
            self._journal.settings_changed(change)

    def _poll(self) -> bool:
        """Call all repositories. Return True if a poll of one of them has ended."""
        ended = False
        parts, crew = self._parts, self._lasting.crew
        self._rota.call(parts.orchestrators)
        allowed = not self._draining()
        for orchestrator in parts.orchestrators:
            look = orchestrator.poll_once(crew, allow_enqueue=allowed)
            if look is not None:
                ended = True
                self._journal.looked(look, self._counts.of(look.project))
                self._polls.note(look, orchestrator.rhythm.interval)
                parts.chores.after(look)
        return ended

    def _record(self) -> None:
        """Once a minute, in a turn that is had anyway: nobody wakes for it."""
        now = self._clock.monotonic()
        if self._duty.polls and now >= self._record_at:
            self._record_at = now + RECORD_SECONDS
            self._parts.chores.record(self._polls.take(self._parts.orchestrators))

    def _worker_freed(self) -> None:
        """Have another pass: a worker is free."""
        self._parts.enqueuer.news()
        self.wake()

    def _enqueue(self) -> None:
        self._parts.enqueuer.enqueue()

    def _draining(self) -> bool:
        """Whether nothing may begin."""
        return self._looked_once or (self._restarts and self._drain.wanted())

    @property
    def _restarts(self) -> bool:
        return self._duty.polls and not self._duty.once

    def _closed(self, tx: Transaction) -> str:
        if self._looked_once:
            return ONE_POLL_TEXT
        return restart_denial(tx) if self._restarts else ""

    def _find_lost(self) -> None:
        """A worker that gave up, and nobody after it: as at a start, somebody sees to the task."""
        for task in self._parts.minder.lost():
            self._journal.lost(task)
            self._lasting.crew.adopt(self._parts.jobs.finishing(task))

    def _come_to_an_end(self) -> None:
        """Whether all work is over, if that is what we wait for."""
        pending = self._lasting.crew.pending()
        if self._duty.once:
            if self._looked_once and not pending and not self._unsent():
                self.leave()
            # After this turn, in which work of the last look has begun.
            self._looked_once = all(one.looks_over for one in self._parts.orchestrators)
            return
        timeout = float(self.house.settings.runtime.restart_drain_timeout_seconds)
        if self._restarts and self._drain.look(pending, timeout):
            self.leave()
            self.restarting = True

    def _unsent(self) -> bool:
        with self.house.store.read() as tx:
            return _has_unsent_writes(open_writes(tx))

    def _shortest(self, again: float | None) -> float | None:
        orchestrators = self._parts.orchestrators
        waits = [one.seconds_left() for one in orchestrators]
        waits += [again, self._rota.seconds_left(orchestrators), self._rows.seconds_left()]
        return min((one for one in waits if one is not None), default=None)

    def _rows_left(self) -> float | None:
        """Until rows are to be looked at again though nobody commits anything."""
        parts = self._parts
        waits = [parts.chores.seconds_left(), parts.minder.seconds_left()]
        waits.append(self._drain.seconds_left())
        outlook = parts.enqueuer.outlook
        if outlook.opens is not None:
            waits.append(max((outlook.opens - self._clock.now()).total_seconds(), 0.01))
        if outlook.governed:
            waits.append(GOVERNOR_CHECK_SECONDS)
        if self._duty.once:
            waits.append(WATCH_SECONDS)
        return min((one for one in waits if one is not None), default=None)

    # -- leaving ------------------------------------------------------------------------------

    def _end(self) -> None:
        lasting = self._lasting
        self._leaving.set()
        self._parts.chores.leave()
        if self._stop_agents:
            self._end_agents()
        lasting.outgoing.leave(SHUTDOWN_SECONDS)
        with suppress(StoreError):
            self._parts.demander.drop()
        self.queued.clear()
        halt_children()
        lasting.dispatcher.close()
        lasting.lanes.close()
        lasting.pool.shutdown(wait=False, cancel_futures=True)
        wait(lasting.crew.futures(), SHUTDOWN_SECONDS)
        with suppress(StoreError), self.house.store.read() as tx:
            self._journal.left(agents=len(live_runs(tx)))

    def _end_agents(self) -> None:
        """Ask all to stop, and see them out; each task goes back to its place."""
        self._parts.minder.stop_all(SHUTDOWN_REASON)
        grace = self.house.settings.runtime.stop_grace_seconds
        wait(self._lasting.crew.futures(), grace + SHUTDOWN_SECONDS)
