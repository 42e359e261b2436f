"""Work under way: lent places, agents whose task was stopped, tasks that nobody works on."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta

from hostler.clock import Clock
from hostler.governor import count_again, hold
from hostler.governor.holders import holder_of, is_alive
from hostler.planner import stale
from hostler.runs import LocalDispatcher, request_stop
from hostler.runs.states import RunError
from hostler.service.crew import Crew
from hostler.service.house import House
from hostler.service.journal import Journal
from hostler.service.limiter import GlobalWorkLimiter
from hostler.store.runs import LIVE, Run, RunState, live_runs, open_runs, regain_place
from hostler.store.tasks import Task, TaskState, find_task, tasks_in

# How often it is looked whether those who lent their run's place still live: no commit says so.
LENT_SECONDS = 2.0
# How long a task may be said to run with no run and no worker: between two steps, for a moment.
GRACE = timedelta(seconds=5)


class Minder:
    """Looks at all live runs once a turn."""

    def __init__(
        self,
        house: House,
        journal: Journal,
        dispatcher: LocalDispatcher,
        limiter: GlobalWorkLimiter,
        crew: Crew,
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
        lent = [run for run in live if run.lent_at]
        self._lends = bool(lent)
        for run in lent:
            self._crew.lend(run.run)
            if deserted(run):
                self._count_again(run)
        for run, task in asked:
            if task is not None and is_stray(run, task):
                self._ask_to_stop(run, task.reason or f"its task is {task.state}")

    def lost(self) -> list[Task]:
        """Tasks that are said to run, and on which nobody has worked for longer than the grace."""
        with self._house.store.read() as tx:
            running = tasks_in(tx, (TaskState.RUNNING,))
            attended = {run.task_id for run in open_runs(tx)} | self._crew.names()
            missed = stale(running, attended, tx.now(), GRACE)
        # Too young to be missed, some of them: nobody commits anything when they no longer are.
        self._unattended = any(task.id not in attended for task in running)
        now = self._clock.monotonic()
        self._missed = {task.id: self._missed.get(task.id, now) for task in missed}
        grace = GRACE.total_seconds()
        return [task for task in missed if now - self._missed[task.id] >= grace]

    def seconds_left(self) -> float | None:
        """Until it must look again by itself."""
        if self._lends:
            return LENT_SECONDS
        return GRACE.total_seconds() if self._missed or self._unattended else None

    def hold_place(self, run: Run) -> None:
        """A live agent never loses its lease, whatever was lost in a power cut."""
        if run.state in LIVE and run.shim:
            with self._house.store.write("admission") as tx:
                hold(tx, run)

    def stop_all(self, why: str) -> None:
        """Ask every agent to stop."""
        with self._house.store.read() as tx:
            runs = live_runs(tx)
        for run in runs:
            self._ask_to_stop(run, why)

    def _count_again(self, run: Run) -> None:
        """Whoever waited for it is dead, and its agent works on: it counts, room or not."""
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


def is_stray(run: Run, task: Task) -> bool:
    """Whether a live run must end. A failing launch moves its task before its run has ended."""
    if run.state is RunState.ADMITTED:
        return task.over
    return task.state is not TaskState.RUNNING


def deserted(run: Run) -> bool:
    """Whether nobody is left who would ask for a lent place."""
    holder = holder_of(json.loads(run.lent_by or "{}"))
    return holder is None or is_alive(holder) is False
