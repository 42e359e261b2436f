"""The service: one turn per event. Everything that takes time is on another thread."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress

from hostler.checkouts.process import halt, own_children, sweep_children
from hostler.clock import Clock
from hostler.errors import StoreError
from hostler.service.admission import Granted, Outlook
from hostler.service.candidates import Gate, Held
from hostler.service.crew import Crew, Job
from hostler.service.desks import House
from hostler.service.journal import Journal
from hostler.service.limiter import GlobalWorkLimiter
from hostler.service.minding import Minder
from hostler.service.observing import Observer, nobody
from hostler.service.orchestrator import Look
from hostler.service.parts import Duty, Ground, assemble
from hostler.service.queueing import QueuedRuns
from hostler.service.starting import left_behind
from hostler.service.work import LEAVING
from hostler.store.runs import Run, live_runs
from hostler.store.tasks import Task, TaskState, tasks_in

# How long the watcher waits before it looks whether we are leaving.
WATCH_SECONDS = 1.0
LONGEST_PAUSE = 60.0
# How long a finished look, a write or a worker may take to notice that we are leaving.
LEAVE_SECONDS = 15.0
# How often it is looked whether the governor says something else: nobody may tell us.
GOVERNED_SECONDS = 2.0
# Who waits for others keeps a thread, not a place: the limiter says how many work.
MOST_THREADS = 1024
QUEUED = (TaskState.QUEUED,)
RUNNING = (TaskState.RUNNING,)
WAITING = (TaskState.RETRYING, TaskState.PARKED)


class ServiceRunner:
    """One service on one home, whose lock the caller holds. `run` returns after `leave`."""

    def __init__(
        self,
        house: House,
        clock: Clock,
        journal: Journal,
        duty: Duty | None = None,
        *,
        observe: Observer = nobody,
    ) -> None:
        self._house = house
        self._clock = clock
        self._journal = journal
        self._duty = duty or Duty()
        self._parts = assemble(Ground(house, clock, journal, self._duty, observe))
        self._limiter = self._parts.limiter
        self._pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="worker")
        self._crew = Crew(
            self._pool,
            self._limiter,
            clock,
            ended=journal.ended,
            troubled=journal.troubled,
            freed=self.wake,
        )
        dispatcher = self._parts.dispatcher
        self._minder = Minder(house, journal, dispatcher, self._limiter, self._crew, clock)
        self._news = clock.wakeup()
        self._leaving = threading.Event()
        self._stop_agents = False
        self._failures = 0
        self._outlook = Outlook()

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Work until told to leave, or until `until` says so after a turn."""
        self._begin()
        try:
            while not self._leaving.is_set():
                # Cleared before looking: what happens meanwhile causes one more turn.
                self._news.clear()
                seconds = self._turn()
                if self._asked(until):
                    break
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
        """End `run` soon."""
        self._stop_agents = self._stop_agents or stop_agents
        self._leaving.set()
        self._news.set()

    def wake(self) -> None:
        """Have another turn."""
        self._news.set()

    @property
    def queued(self) -> QueuedRuns:
        """How many wait for a run slot."""
        return self._parts.admission.queued

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

    # -- beginning ----------------------------------------------------------------------------

    def _begin(self) -> None:
        house = self._house
        own_children(str(house.home))
        # What a killed service left of setup and test commands would work beside the next ones.
        sweep_children(str(house.home))
        left = left_behind(house.home, house.store)
        self._journal.started(house.home, len(self._parts.orchestrators), self._limiter.capacity())
        for found in left.runs:
            self._journal.adopted(found)
            self._minder.hold_place(found.run)
            self._crew.adopt(self._resuming(found.run))
        for task in left.tasks:
            self._crew.adopt(self._finishing(task))
        self._parts.outgoing.start()
        threading.Thread(target=self._watch_commits, name="watcher", daemon=True).start()
        if self._duty.polls:
            self._parts.chores.clean_leftovers()

    def _watch_commits(self) -> None:
        """Other processes' commits, and our own, are news for everybody here."""
        store = self._house.store
        mark = -1
        while not self._leaving.is_set():
            try:
                seen = store.wait_for_change(mark, WATCH_SECONDS)
            except StoreError as error:
                self._journal.broke(error)
                self._leaving.wait(WATCH_SECONDS)
                continue
            if seen != mark:
                mark = seen
                self._news.set()
                self._parts.outgoing.wake()

    # -- one turn -----------------------------------------------------------------------------

    def _turn(self) -> float | None:
        """Everything that can be done now; in how many seconds the next turn is due by itself."""
        try:
            again = self._crew.start_due()
            self._poll()
            self._parts.chores.do()
            self._minder.look()
            self._find_lost()
            self._admit()
            self._failures = 0
            return self._shortest(again)
        except Exception as error:
            # A busy or full database, or a defect: what was stored is stored, and those who are
            # at work go on. Later each time, so that weeks of it do not fill the disk.
            self._journal.broke(error)
            self._failures = min(self._failures + 1, 10)
            return min(WATCH_SECONDS * float(1 << self._failures), LONGEST_PAUSE)

    def _poll(self) -> None:
        for orchestrator in self._parts.orchestrators:
            look = orchestrator.poll_once(self._parts.io, self.wake)
            if look is not None:
                self._journal.looked(look, self._counts(look))
                self._parts.chores.after(look)

    def _find_lost(self) -> None:
        """A worker that gave up, and nobody after it: as at a start, somebody sees to the task."""
        for task in self._minder.lost():
            self._journal.lost(task)
            self._crew.adopt(self._finishing(task))

    def _admit(self) -> None:
        seen = self._parts.admission.survey()
        self._parts.demander.say(self._clock.monotonic(), seen.yard)
        while not self._leaving.is_set() and self._limiter.try_acquire():
            try:
                granted = self._parts.admission.next(seen)
            except BaseException:
                self._limiter.release()
                raise
            if granted is None:
                self._limiter.release()
                self._outlook = self._parts.admission.note_gates(seen, None)
                return
            self._start(granted)
            seen = self._parts.admission.survey()
        self._outlook = self._parts.admission.note_gates(seen, workers_busy(self._limiter))

    def _start(self, granted: Granted) -> None:
        if granted.back and granted.run is not None:
            self._crew.regain(granted.run.run)
            return
        self._journal.admitted(granted.task, granted.run)
        if granted.cleared:
            self._parts.chores.tell_clear(granted.task)
        self._parts.observe("admitted", granted.run.run if granted.run else granted.task.id)
        run = granted.run
        self._crew.start(self._supervising(run) if run else self._finishing(granted.task))
        self._journal.capacity(self._limiter)

    def _shortest(self, again: float | None) -> float | None:
        waits: list[float | None] = [one.seconds_left() for one in self._parts.orchestrators]
        waits.append(self._parts.chores.seconds_left())
        waits.append(self._minder.seconds_left())
        opens = self._outlook.opens
        if opens is not None:
            waits.append(max((opens - self._clock.now()).total_seconds(), 0.01))
        if self._outlook.governed:
            waits.append(GOVERNED_SECONDS)
        return min((one for one in (*waits, again) if one is not None), default=None)

    def _counts(self, look: Look) -> dict[str, int]:
        states = {"queued": QUEUED, "running": RUNNING, "waiting": WAITING}
        with self._house.store.read() as tx:
            found = tasks_in(tx, [state for group in states.values() for state in group])
        counted = Counter(task.state for task in found if task.project == look.project)
        return {name: sum(counted[state] for state in group) for name, group in states.items()}

    # -- jobs ---------------------------------------------------------------------------------

    def _supervising(self, run: Run) -> Job:
        boss = self._parts.supervisor
        return Job(run.run, run.project, lambda: boss.supervise(run), lambda: boss.resume(run))

    def _resuming(self, run: Run) -> Job:
        def resume() -> object:
            return self._parts.supervisor.resume(run)

        return Job(run.run, run.project, resume, resume)

    def _finishing(self, task: Task) -> Job:
        def finish() -> None:
            self._parts.work.finish_again(task)

        return Job(task.id, task.project, finish, finish)

    # -- leaving ------------------------------------------------------------------------------

    def _end(self) -> None:
        self._leaving.set()
        self._parts.chores.leave()
        if self._stop_agents:
            self._end_agents()
        self._parts.outgoing.leave(LEAVE_SECONDS)
        with suppress(StoreError):
            self._parts.demander.drop()
        self.queued.clear()
        halt()
        self._parts.dispatcher.close()
        self._parts.io.shutdown(wait=False, cancel_futures=True)
        self._pool.shutdown(wait=False, cancel_futures=True)
        wait(self._crew.futures(), LEAVE_SECONDS)
        with self._house.store.read() as tx:
            agents = len(live_runs(tx))
        self._journal.left(agents=agents)

    def _end_agents(self) -> None:
        """Ask all to stop, and see them out; each task goes back to its place."""
        self._minder.stop_all(LEAVING)
        grace = self._house.settings.runtime.stop_grace_seconds
        wait(self._crew.futures(), grace + LEAVE_SECONDS)


def workers_busy(limiter: GlobalWorkLimiter) -> Held:
    """Why nobody starts while all workers are busy."""
    busy, all_ = limiter.in_flight(), limiter.capacity()
    why = f"{busy} of {all_} workers are busy."
    return Held(Gate.WORKERS, why, "Wait until one is free, or raise `[runtime] worker_count`.")
