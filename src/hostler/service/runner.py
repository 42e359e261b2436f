"""The service: one turn per event. Everything that takes time is on another thread."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from hostler.checkouts.process import halt, own_children, sweep_children
from hostler.clock import Clock
from hostler.config.settings import Runtime
from hostler.errors import StoreError
from hostler.flows import settled
from hostler.forge import Pace, Sender, Window
from hostler.governor import attach, count_again, hold, look_around
from hostler.governor.holders import holder_of, is_alive
from hostler.intake import watch
from hostler.runs import LocalDispatcher, Supervisor, request_stop
from hostler.runs.errors import RunError
from hostler.service.admission import Admission, Granted, Office
from hostler.service.bulletin import Bulletin
from hostler.service.candidates import Gate, Held
from hostler.service.chores import Chores
from hostler.service.crew import Crew, Job
from hostler.service.desks import Desks, House
from hostler.service.journal import Journal
from hostler.service.limiter import GlobalWorkLimiter
from hostler.service.observing import Observer, nobody
from hostler.service.orchestrator import Look, RepoOrchestrator
from hostler.service.outgoing import Outgoing
from hostler.service.policies import Policies
from hostler.service.starting import left_behind
from hostler.service.work import LEAVING, Work
from hostler.store.runs import LIVE, Run, RunState, live_runs, regain_place
from hostler.store.tasks import SCOPE as TASKS
from hostler.store.tasks import Task, TaskState, find_task, tasks_in

IO_WORKERS = 4
# How long the watcher waits before it looks whether we are leaving.
WATCH_SECONDS = 1.0
LONGEST_PAUSE = 60.0
# How long a finished look, a write or a worker may take to notice that we are leaving.
LEAVE_SECONDS = 15.0
# How often it is looked whether those who lent their run's place still live: no commit says so.
LENT_SECONDS = 2.0
# Who waits for others keeps a thread, not a place: the limiter says how many work.
MOST_THREADS = 1024
QUEUED = (TaskState.QUEUED,)
RUNNING = (TaskState.RUNNING,)
WAITING = (TaskState.RETRYING, TaskState.PARKED)


@dataclass(frozen=True, slots=True)
class Duty:
    """What a service does: `polls` repositories; `only` these tasks, if named."""

    polls: bool = True
    only: Collection[str] | None = None


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
        settings = house.settings
        self._house = house
        self._clock = clock
        self._journal = journal
        self._duty = duty or Duty()
        self._news = clock.wakeup()
        self._leaving = threading.Event()
        self._stop_agents = False
        self._desks = Desks(house)
        self._limiter = GlobalWorkLimiter(settings.runtime.worker_count)
        self._io = ThreadPoolExecutor(IO_WORKERS, thread_name_prefix="io")
        self._policies = Policies(house.home, settings, journal.broke)
        self._bulletin = Bulletin(house, clock, journal.broke)
        self._observe = both(observe, self._bulletin.heard)
        self._chores = Chores(
            house,
            self._desks,
            self._bulletin,
            journal,
            self._io,
            clock,
            self._policies.current,
        )
        self._dispatcher = LocalDispatcher(
            house.home,
            house.store,
            clock,
            attached=attach,
            environment=house.environment,
            observer=self._observe,
        )
        self._work = Work(house, self._desks, observe=observe, broke=journal.broke)
        self._supervisor = Supervisor(
            house.home,
            house.store,
            self._dispatcher,
            self._work.hooks(),
            grace_seconds=settings.runtime.stop_grace_seconds,
            observer=self._observe,
        )
        # Whoever asks for one task has just spoken with GitHub about it.
        everything = frozenset(settings.repo)
        ready = self._desks.ready if self._duty.polls else lambda: everything
        office = Office(house.store, settings, self._policies.current, ready, look_around)
        self._admission = Admission(office, self._duty.only)
        pace = Pace(between_writes=timedelta(seconds=settings.github.seconds_between_writes))
        sender = Sender(
            house.store,
            house.hub.repo,
            clock,
            pace,
            settled=settled,
            observe=observe,
            scopes=(TASKS,),
        )
        self._outgoing = Outgoing(sender, clock, journal.broke)
        reach = window(settings.runtime)
        self._orchestrators = [
            RepoOrchestrator(house, self._desks, watch(project, repo), clock, reach, observe)
            for project, repo in settings.repo.items()
            if self._duty.polls
        ]
        self._failures = 0
        self._opens: datetime | None = None
        self._lends = False
        self._pool: ThreadPoolExecutor | None = None
        self._crew: Crew | None = None

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

    def look_now(self) -> None:
        """Look at all repositories at once, without waiting for their time."""
        for orchestrator in self._orchestrators:
            orchestrator.hasten()
        self.wake()

    # -- beginning ----------------------------------------------------------------------------

    def _begin(self) -> None:
        house = self._house
        own_children(str(house.home))
        # What a killed service left of setup and test commands would work beside the next ones.
        sweep_children(str(house.home))
        left = left_behind(house.home, house.store)
        self._pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="worker")
        self._crew = Crew(
            self._pool,
            self._limiter,
            self._clock,
            ended=self._journal.ended,
            troubled=self._journal.troubled,
            freed=self.wake,
        )
        self._journal.started(house.home, len(self._orchestrators), self._limiter.capacity())
        for found in left.runs:
            self._journal.adopted(found)
            self._hold_place(found.run)
            self._crew.adopt(self._resuming(found.run))
        for task in left.tasks:
            self._crew.adopt(self._finishing(task))
        self._outgoing.start()
        threading.Thread(target=self._watch_commits, name="watcher", daemon=True).start()
        if self._duty.polls:
            self._chores.clean_leftovers()

    def _hold_place(self, run: Run) -> None:
        """A live agent never loses its lease, whatever was lost in a power cut."""
        if run.state in LIVE and run.shim:
            with self._house.store.write("admission") as tx:
                hold(tx, run)

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
                self._outgoing.wake()

    # -- one turn -----------------------------------------------------------------------------

    def _turn(self) -> float | None:
        """Everything that can be done now; in how many seconds the next turn is due by itself."""
        assert self._crew is not None
        try:
            again = self._crew.start_due()
            self._poll()
            self._chores.do()
            self._look_at_runs()
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
        for orchestrator in self._orchestrators:
            look = orchestrator.poll_once(self._io, self.wake)
            if look is not None:
                self._journal.looked(look, self._counts(look))
                self._chores.after(look)

    def _admit(self) -> None:
        seen = self._admission.survey()
        self._admission.say_demand(self._clock.monotonic(), seen)
        while not self._leaving.is_set() and self._limiter.try_acquire():
            try:
                granted = self._admission.next(seen)
            except BaseException:
                self._limiter.release()
                raise
            if granted is None:
                self._limiter.release()
                self._opens = self._admission.note_gates(seen, None)
                return
            self._start(granted)
            seen = self._admission.survey()
        self._opens = self._admission.note_gates(seen, workers_busy(self._limiter))

    def _start(self, granted: Granted) -> None:
        assert self._crew is not None
        if granted.back and granted.run is not None:
            self._crew.regain(granted.run.run)
            return
        self._journal.admitted(granted.task, granted.run)
        if granted.cleared:
            self._chores.tell_clear(granted.task)
        self._observe("admitted", granted.run.run if granted.run else granted.task.id)
        run = granted.run
        self._crew.start(self._supervising(run) if run else self._finishing(granted.task))
        self._journal.capacity(self._limiter)

    def _look_at_runs(self) -> None:
        """Who waits for others needs no worker; whose task was stopped is asked to end."""
        assert self._crew is not None
        with self._house.store.read() as tx:
            lent = [run for run in live_runs(tx) if run.lent_at]
            strays = [
                (run, task)
                for run in live_runs(tx)
                if run.stop_why is None
                and (task := find_task(tx, run.task_id)) is not None
                and is_stray(run, task)
            ]
        self._lends = bool(lent)
        for run in lent:
            self._crew.lend(run.run)
            if deserted(run):
                self._count_again(run)
        for run, task in strays:
            self._ask_to_stop(run, task.reason or f"its task is {task.state}")

    def _count_again(self, run: Run) -> None:
        """Whoever waited for it is dead, and its agent works on: it counts, room or not."""
        assert self._crew is not None
        with self._house.store.write("admission") as tx:
            regain_place(tx, run)
            count_again(tx, run.run)
        self._limiter.force()
        self._crew.regain(run.run)

    def _ask_to_stop(self, run: Run, why: str) -> None:
        with self._house.store.write() as tx:
            first = request_stop(tx, run.run, why)
        if first:
            self._journal.stopping(run, why)
        with suppress(RunError):  # its worker tells it again
            self._dispatcher.cancel(run.run, self._house.settings.runtime.stop_grace_seconds)

    def _shortest(self, again: float | None) -> float | None:
        waits = [one.seconds_left() for one in self._orchestrators]
        waits.append(self._chores.seconds_left())
        if self._lends:
            waits.append(LENT_SECONDS)
        if self._opens is not None:
            waits.append(max((self._opens - self._clock.now()).total_seconds(), 0.01))
        return min((one for one in (*waits, again) if one is not None), default=None)

    def _counts(self, look: Look) -> dict[str, int]:
        states = {"queued": QUEUED, "running": RUNNING, "waiting": WAITING}
        with self._house.store.read() as tx:
            found = tasks_in(tx, [state for group in states.values() for state in group])
        counted = Counter(task.state for task in found if task.project == look.project)
        return {name: sum(counted[state] for state in group) for name, group in states.items()}

    # -- jobs ---------------------------------------------------------------------------------

    def _supervising(self, run: Run) -> Job:
        boss = self._supervisor
        return Job(run.run, run.project, lambda: boss.supervise(run), lambda: boss.resume(run))

    def _resuming(self, run: Run) -> Job:
        def resume() -> object:
            return self._supervisor.resume(run)

        return Job(run.run, run.project, resume, resume)

    def _finishing(self, task: Task) -> Job:
        def finish() -> None:
            self._work.finish_again(task)

        return Job(task.id, task.project, finish, finish)

    # -- leaving ------------------------------------------------------------------------------

    def _end(self) -> None:
        assert self._crew is not None and self._pool is not None
        self._leaving.set()
        self._chores.leave()
        if self._stop_agents:
            self._end_agents()
        self._outgoing.leave(LEAVE_SECONDS)
        with suppress(StoreError):
            self._admission.drop_demand()
        halt()
        self._dispatcher.close()
        self._io.shutdown(wait=False, cancel_futures=True)
        self._pool.shutdown(wait=False, cancel_futures=True)
        wait(self._crew.futures(), LEAVE_SECONDS)
        with self._house.store.read() as tx:
            agents = len(live_runs(tx))
        self._journal.left(agents=agents)

    def _end_agents(self) -> None:
        """Ask all to stop, and see them out; each task goes back to its place."""
        assert self._crew is not None
        with self._house.store.read() as tx:
            runs = live_runs(tx)
        for run in runs:
            self._ask_to_stop(run, LEAVING)
        grace = self._house.settings.runtime.stop_grace_seconds
        wait(self._crew.futures(), grace + LEAVE_SECONDS)


def both(first: Observer, second: Observer) -> Observer:
    """Two observers as one."""

    def observe(step: str, run: str) -> None:
        first(step, run)
        second(step, run)

    return observe


def is_stray(run: Run, task: Task) -> bool:
    """Whether a live run must end. A failing launch moves its task before its run has ended."""
    if run.state is RunState.ADMITTED:
        return task.over
    return task.state is not TaskState.RUNNING


def workers_busy(limiter: GlobalWorkLimiter) -> Held:
    """Why nobody starts while all workers are busy."""
    busy, all_ = limiter.in_flight(), limiter.capacity()
    why = f"{busy} of {all_} workers are busy."
    return Held(Gate.WORKERS, why, "Wait until one is free, or raise `[runtime] worker_count`.")


def deserted(run: Run) -> bool:
    """Whether nobody is left who would ask for a lent place."""
    holder = holder_of(json.loads(run.lent_by or "{}"))
    return holder is None or is_alive(holder) is False


def window(runtime: Runtime) -> Window:
    """How far each look reaches back."""
    return Window(
        overlap=timedelta(seconds=runtime.comment_fetch_overlap_seconds),
        late_visibility=timedelta(seconds=runtime.comment_fetch_late_visibility_seconds),
        safe_backfill=timedelta(seconds=runtime.comment_fetch_safe_backfill_seconds),
    )
