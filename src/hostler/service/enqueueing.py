"""Work that has a place is handed to the workers: one pass over all repositories."""

from __future__ import annotations

from collections.abc import Callable

from hostler.clock import Clock
from hostler.runs import Supervisor
from hostler.service.admission import Admission, Granted, Outlook
from hostler.service.candidates import Gate, Held
from hostler.service.chores import Chores
from hostler.service.crew import Crew, Job
from hostler.service.demanding import Demander
from hostler.service.journal import Journal
from hostler.service.limiter import GlobalWorkLimiter
from hostler.service.observing import Observer
from hostler.service.work import Work
from hostler.store.runs import Run
from hostler.store.tasks import Task


class Jobs:
    """What workers do: a new run, one that is under way, or our own part of a task."""

    def __init__(self, supervisor: Supervisor, work: Work) -> None:
        self._supervisor = supervisor
        self._work = work

    def supervising(self, run: Run) -> Job:
        boss = self._supervisor
        return Job(run.run, run.project, lambda: boss.supervise(run), lambda: boss.resume(run))

    def resuming(self, run: Run) -> Job:
        def resume() -> object:
            return self._supervisor.resume(run)

        return Job(run.run, run.project, resume, resume)

    def finishing(self, task: Task) -> Job:
        def finish() -> None:
            self._work.finish_again(task)

        return Job(task.id, task.project, finish, finish)


class Enqueuer:
    """Asks for a token before each start; whoever is through gives it back by itself."""

    def __init__(
        self,
        admission: Admission,
        demander: Demander,
        jobs: Jobs,
        crew: Crew,
        limiter: GlobalWorkLimiter,
        chores: Chores,
        journal: Journal,
        observe: Observer,
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
        self.outlook = Outlook()

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

    def _pass(self) -> Outlook:
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
        return admission.note_gates(seen, workers_busy(limiter))

    def _start(self, granted: Granted) -> None:
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


def workers_busy(limiter: GlobalWorkLimiter) -> Held:
    """Why nobody starts while all workers are busy."""
    busy, all_ = limiter.in_flight(), limiter.capacity()
    why = f"{busy} of {all_} workers are busy."
    return Held(Gate.WORKERS, why, "Wait until one is free, or raise `[runtime] worker_count`.")
