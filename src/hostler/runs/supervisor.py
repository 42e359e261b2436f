"""Supervise one run from any state to its end; list all open runs when the service starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hostler.agents.classify import judge_finished_run
from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import LOST_EXIT, parse_exit
from hostler.clock import Clock, SystemClock
from hostler.errors import HostlerError, StoreError
from hostler.runs import transitions
from hostler.runs.dispatcher import LocalDispatcher
from hostler.runs.interfaces import RunCallbacks, RunObserver, RunStep, ignore_run_step
from hostler.runs.outcome import (
    RunEnding,
    StreamReader,
    agent_settings_of,
    ending_without_agent,
    verdict_of,
)
from hostler.runs.process_watch import ProcessWatch
from hostler.runs.run_folder import (
    kill_orphans,
    make_folder,
    read_evidence,
    read_exit_file,
    write_run_file,
)
from hostler.runs.states import (
    FenceLost,
    NotLaunched,
    RecoveryAction,
    RecoveryDecision,
    RunNotVisible,
    RunStopped,
    ShimStartFailed,
    StopNotDelivered,
    decide_recovery,
)
from hostler.store import Store
from hostler.store.runs import LIVE, Run, RunState, open_runs

READ_SECONDS = 2.0
GRACE_SECONDS = 10.0
# Releasing a lease changes what admission counts.
SCOPE = "admission"


class Supervisor:
    """Supervises runs, one call per run. Used by all workers: it keeps no state between calls."""

    def __init__(
        self,
        home: Path,
        store: Store,
        dispatcher: LocalDispatcher,
        callbacks: RunCallbacks,
        *,
        read_seconds: float = READ_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
        observer: RunObserver = ignore_run_step,
        clock: Clock | None = None,
    ) -> None:
        self._home = home
        self._store = store
        self._dispatcher = dispatcher
        self._callbacks = callbacks
        self._read_seconds = read_seconds
        self._grace_seconds = grace_seconds
        self._observe = observer
        self._clock = clock or SystemClock()

    def supervise(self, run: Run) -> Run:
        """Launch a run that was just admitted, and supervise it to its end."""
        ending, bug = None, None
        try:
            make_folder(self._folder(run))
            write_run_file(self._folder(run), run)
            launch = self._callbacks.launch(run)
            self._dispatcher.submit(launch.spec(run.run), run.run, run.fence)
        except RunStopped:
            pass  # The stop is in the row: `resume` ends the run as interrupted.
        except (StoreError, FenceLost):
            raise
        except HostlerError as error:
            ending = _ending_after_error(error)
        except Exception as error:
            bug = error
            ending = ending_without_agent(Outcome.CRASH, f"It could not be launched: {error!r}")
        ended = self.resume(run, ending)
        if bug:
            raise bug
        return ended

    def resume(self, run: Run, without_agent: RunEnding | None = None) -> Run:
        """Supervise a run from its present state to its end. Can be called again after an error.

        `without_agent`: how the run ends if no agent was started; None requeues its task.
        """
        run = self._reload(run)
        if run.state in LIVE:
            run = self._supervise_live(run, without_agent)
        if run.state is RunState.EXITED:
            with self._store.write() as tx:
                run = transitions.store_finishing(tx, run)
            self._report(RunStep.FINISHING, run)
        if run.state is RunState.FINISHING:
            run = self._finish(run)
        return run

    def _supervise_live(self, run: Run, without_agent: RunEnding | None) -> Run:
        """Wait until none of the run's processes is left, and store how it ended."""
        folder = self._folder(run)
        reader = StreamReader(run, folder, self._clock)
        while True:
            with self._dispatcher.attach(run.run) as watch:
                run = self._wait_for_exit(run, watch, reader)
            action = _decide(self._home, run).action
            if action is not RecoveryAction.ADOPT:
                break
        self._observe(RunStep.OVER, run.run)
        if action is not RecoveryAction.NEVER_STARTED:
            return self._store_exited(run, self._read_ending(run, action, reader, watch))
        if without_agent is None:
            try:
                return self._store_never_started(run)
            except RunStopped as stop:
                without_agent = ending_without_agent(Outcome.INTERRUPTED, stop.what)
        return self._store_exited(run, without_agent)

    def _wait_for_exit(self, run: Run, watch: ProcessWatch, reader: StreamReader) -> Run:
        """Read the streams and deliver a stop until the shim has exited."""
        stop_delivered = False
        while True:
            run = self._reload(run)
            if run.stop_why is not None and not stop_delivered:
                stop_delivered = self._deliver_stop(run)
            if watch.wait(self._read_seconds):
                return self._reload(run)
            if run.state is RunState.RUNNING and reader.read():
                run = self._store_progress(run, reader)
                self._report(RunStep.READ, run)

    def _store_progress(self, run: Run, reader: StreamReader) -> Run:
        """Store the offsets and what was read up to them in one transaction: nothing twice."""
        signals = reader.signals
        plan = self._callbacks.plan_signals(run, signals)
        with self._store.write(*([SCOPE] if plan else [])) as tx:
            run = transitions.store_progress(tx, run, reader.tally, reader.offsets, signals.limits)
            if plan:
                plan.apply(tx, run)
        reader.mark_stored()
        return run

    def _deliver_stop(self, run: Run) -> bool:
        try:
            self._dispatcher.cancel(run.run, self._grace_seconds)
        except StopNotDelivered:
            return False  # The next iteration tries again.
        return True

    def _read_ending(
        self, run: Run, action: RecoveryAction, reader: StreamReader, watch: ProcessWatch
    ) -> RunEnding:
        """Return how the run ended, after killing what is left of its processes."""
        folder = self._folder(run)
        if action is RecoveryAction.LEAVE_ALONE:
            raise RunNotVisible(run.run, "its supervisor ran on another machine.")
        exit_file = read_exit_file(folder) if action is RecoveryAction.CONCLUDE else None
        if not watch.exited_cleanly:
            # The agent can write exit.json itself: only a clean exit of the shim proves it.
            self._kill_orphans(run, required=exit_file is None)
        reader.read_rest()
        exit = parse_exit(exit_file) if exit_file is not None else LOST_EXIT
        task_dir = folder.parent.parent
        verdict = judge_finished_run(agent_settings_of(run), folder, task_dir, exit, reader.tally)
        signals = reader.signals
        return RunEnding(
            verdict,
            exit,
            counted=exit_file is None or exit_file.get("started_at") is not None,
            tally=reader.tally,
            offsets=reader.offsets,
            limits=reader.limits,
            final_limits=reader.final_limits,
            headrooms=signals.headrooms,
            responses=signals.responses,
        )

    def _kill_orphans(self, run: Run, *, required: bool) -> None:
        try:
            kill_orphans(run, self._grace_seconds)
        except RunNotVisible:
            if required:
                raise

    def _store_never_started(self, run: Run) -> Run:
        with self._store.write(SCOPE, *self._callbacks.scopes) as tx:
            run = transitions.store_never_started(tx, run)
            self._callbacks.release(tx, run)
            self._callbacks.requeue(tx, run)
        self._report(RunStep.NEVER_STARTED, run)
        return run

    def _store_exited(self, run: Run, ending: RunEnding) -> Run:
        with self._store.write(SCOPE) as tx:
            run = transitions.store_exited(tx, run, ending)
            plan = self._callbacks.plan_signals(run, ending.provider_signals(run))
            if plan:
                plan.apply(tx, run)
            self._callbacks.release(tx, run)
        self._report(RunStep.EXITED, run)
        return run

    def _finish(self, run: Run) -> Run:
        plan = self._callbacks.finish(run, verdict_of(run))
        self._observe(RunStep.FINISHED, run.run)
        with self._store.write(SCOPE, *self._callbacks.scopes) as tx:
            run = transitions.store_ended(tx, run)
            plan.apply(tx, run)
        self._report(RunStep.ENDED, run)
        return run

    def _reload(self, run: Run) -> Run:
        with self._store.read() as tx:
            return transitions.read_current(tx, run)

    def _report(self, step: RunStep, run: Run) -> None:
        write_run_file(self._folder(run), run)
        self._observe(step, run.run)

    def _folder(self, run: Run) -> Path:
        return self._home / run.folder


def _ending_after_error(error: HostlerError) -> RunEnding | None:
    """Return how a run ends that could not be launched; None requeues its task."""
    if isinstance(error, ShimStartFailed) and error.code is None:
        return None  # The shim was killed or hung; it did not refuse the run.
    if isinstance(error, NotLaunched):
        return ending_without_agent(error.outcome, error.what, error.by)
    return ending_without_agent(Outcome.CONFIG, error.what)


@dataclass(frozen=True, slots=True)
class RecoveredRun:
    """An open run that another process started. `Supervisor.resume` does what is decided."""

    run: Run
    decision: RecoveryDecision


def recover(home: Path, store: Store) -> list[RecoveredRun]:
    """Return all open runs, oldest first, each with what to do. Changes nothing."""
    with store.read() as tx:
        runs = open_runs(tx)
    return [RecoveredRun(run, _decide(home, run)) for run in runs]


def _decide(home: Path, run: Run) -> RecoveryDecision:
    evidence = read_evidence(home / run.folder, run)
    return decide_recovery(run.state, evidence, stopped=run.stop_why is not None)
