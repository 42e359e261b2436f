"""Supervise one run from wherever it is to its end; recover all open runs at a start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hostler.agents.classify import judge_finished_run
from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import LOST_EXIT, parse_exit
from hostler.clock import Clock, SystemClock
from hostler.errors import HostlerError, StoreError
from hostler.runs import transitions
from hostler.runs.interfaces import Dispatcher, Hooks, Observer, Step, Watch, ignore_step
from hostler.runs.outcome import Ending, Reader, agent_of, verdict_of, without_agent
from hostler.runs.run_folder import kill_orphans, make_folder, read_evidence, read_exit_file, show
from hostler.runs.states import (
    Action,
    Decision,
    FenceLost,
    NotLaunched,
    OutOfReach,
    RunStopped,
    ShimRefused,
    StopUnheard,
    decide,
)
from hostler.store import Store
from hostler.store.runs import LIVE, Run, RunState, open_runs

READ_SECONDS = 2.0
GRACE_SECONDS = 10.0
# Whoever gives places back changes what admission counts.
SCOPE = "admission"


class Supervisor:
    """Sees runs through. One for all workers: it keeps nothing between two calls."""

    def __init__(
        self,
        home: Path,
        store: Store,
        dispatcher: Dispatcher,
        hooks: Hooks,
        *,
        read_seconds: float = READ_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
        observer: Observer = ignore_step,
        clock: Clock | None = None,
    ) -> None:
        self._home = home
        self._store = store
        self._dispatcher = dispatcher
        self._hooks = hooks
        self._read_seconds = read_seconds
        self._grace_seconds = grace_seconds
        self._observe = observer
        self._clock = clock or SystemClock()

    def supervise(self, run: Run) -> Run:
        """See a run through that was just admitted."""
        instead, bug = None, None
        try:
            make_folder(self._folder(run))
            show(self._folder(run), run)
            launch = self._hooks.launch(run)
            self._dispatcher.submit(launch.spec(run.run), run.run, run.fence)
        except RunStopped:
            pass  # the row says so: it ends as interrupted
        except (StoreError, FenceLost):
            raise
        except HostlerError as error:
            instead = _without_agent(error)
        except Exception as error:
            bug = error
            instead = without_agent(Outcome.CRASH, f"It could not be launched: {error!r}")
        ended = self.resume(run, instead)
        if bug:
            raise bug
        return ended

    def resume(self, run: Run, instead: Ending | None = None) -> Run:
        """See a run through from wherever it is. After an error it may be called again.

        `instead`: how it ends if there was no agent; without it, its task is queued again.
        """
        run = self._fresh(run)
        if run.state in LIVE:
            run = self._see_out(run, instead)
        if run.state is RunState.EXITED:
            with self._store.write() as tx:
                run = transitions.finishing(tx, run)
            self._say(Step.FINISHING, run)
        if run.state is RunState.FINISHING:
            run = self._finish(run)
        return run

    def _see_out(self, run: Run, instead: Ending | None) -> Run:
        """Until nothing of it is left, and its row says how it ended."""
        folder = self._folder(run)
        reader = Reader(run, folder, self._clock)
        while True:
            with self._dispatcher.attach(run.run) as watch:
                run = self._accompany(run, watch, reader)
            decision = decide(
                run.state, read_evidence(folder, run), stopped=run.stop_why is not None
            )
            if decision.action is not Action.ADOPT:
                break
        self._observe(Step.OVER, run.run)
        if decision.action is not Action.NEVER_STARTED:
            return self._exited(run, self._ending(run, decision.action, reader, watch))
        if instead is None:
            try:
                return self._never_started(run)
            except RunStopped as stop:
                instead = without_agent(Outcome.INTERRUPTED, stop.what)
        return self._exited(run, instead)

    def _accompany(self, run: Run, watch: Watch, reader: Reader) -> Run:
        """Until its shim has left: read what it says, and hand on a stop."""
        told = False
        while True:
            run = self._fresh(run)
            if run.stop_why is not None and not told:
                told = self._tell_to_stop(run)
            if watch.wait(self._read_seconds):
                return self._fresh(run)
            if run.state is RunState.RUNNING and reader.read():
                run = self._store_progress(run, reader)
                self._say(Step.READ, run)

    def _store_progress(self, run: Run, reader: Reader) -> Run:
        """The offset and what was heard up to it, in one: nothing is counted twice."""
        heard = reader.heard
        listens = self._hooks.listens(run, heard)
        with self._store.write(*([SCOPE] if listens else [])) as tx:
            run = transitions.progress(tx, run, reader.tally, reader.offsets, heard.limits)
            if listens:
                self._hooks.heard(tx, run, heard)
        reader.stored()
        return run

    def _tell_to_stop(self, run: Run) -> bool:
        try:
            self._dispatcher.cancel(run.run, self._grace_seconds)
        except StopUnheard:
            return False  # told again at the next look
        return True

    def _ending(self, run: Run, action: Action, reader: Reader, watch: Watch) -> Ending:
        """How it ended. Nothing of its tree is left when this returns."""
        folder = self._folder(run)
        if action is Action.LEAVE_ALONE:
            raise OutOfReach(run.run, "its supervisor ran on another machine.")
        word = read_exit_file(folder) if action is Action.CONCLUDE else None
        if not watch.left_well:
            # The word may be the agent's own: nobody saw who wrote it.
            self._sweep(run, believed=word is not None)
        reader.rest()
        exit = parse_exit(word) if word is not None else LOST_EXIT
        task = folder.parent.parent
        verdict = judge_finished_run(agent_of(run), folder, task, exit, reader.tally)
        counted = word is None or word.get("started_at") is not None
        heard = reader.heard
        told = (reader.limits, reader.last_limits, heard.words, heard.answers)
        return Ending(verdict, exit, counted, reader.tally, reader.offsets, *told)

    def _sweep(self, run: Run, *, believed: bool) -> None:
        try:
            kill_orphans(run, self._grace_seconds)
        except OutOfReach:
            if not believed:
                raise

    def _never_started(self, run: Run) -> Run:
        with self._store.write(SCOPE, *self._hooks.scopes) as tx:
            run = transitions.never_started(tx, run)
            self._hooks.release(tx, run)
            self._hooks.requeue(tx, run)
        self._say(Step.NEVER_STARTED, run)
        return run

    def _exited(self, run: Run, ending: Ending) -> Run:
        with self._store.write(SCOPE) as tx:
            run = transitions.exited(tx, run, ending)
            heard = ending.heard(run)
            if self._hooks.listens(run, heard):
                self._hooks.heard(tx, run, heard)
            self._hooks.release(tx, run)
        self._say(Step.EXITED, run)
        return run

    def _finish(self, run: Run) -> Run:
        last = self._hooks.finish(run, verdict_of(run))
        self._observe(Step.FINISHED, run.run)
        with self._store.write(SCOPE, *self._hooks.scopes) as tx:
            run = transitions.ended(tx, run)
            last(tx, run)
        self._say(Step.ENDED, run)
        return run

    def _fresh(self, run: Run) -> Run:
        with self._store.read() as tx:
            return transitions.current(tx, run)

    def _say(self, step: Step, run: Run) -> None:
        show(self._folder(run), run)
        self._observe(step, run.run)

    def _folder(self, run: Run) -> Path:
        return self._home / run.folder


def _without_agent(error: HostlerError) -> Ending | None:
    """What it means that a run could not be launched; None: nothing but bad luck."""
    if isinstance(error, ShimRefused) and error.code is None:
        return None  # it was killed, or hung: it did not refuse
    if isinstance(error, NotLaunched):
        return without_agent(error.outcome, error.what, error.by)
    return without_agent(Outcome.CONFIG, error.what)


@dataclass(frozen=True, slots=True)
class Found:
    """A run that somebody else began. `Supervisor.resume` does what the decision says."""

    run: Run
    decision: Decision


def recover(home: Path, store: Store) -> list[Found]:
    """All open runs, oldest first. Changes nothing."""
    with store.read() as tx:
        runs = open_runs(tx)
    return [Found(run, _decide(home, run)) for run in runs]


def _decide(home: Path, run: Run) -> Decision:
    return decide(
        run.state, read_evidence(home / run.folder, run), stopped=run.stop_why is not None
    )
