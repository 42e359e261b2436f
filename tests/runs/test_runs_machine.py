"""Workers with stale copies of runs, against a model: every move hits the row it means, or none."""

from __future__ import annotations

import shutil
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from runs_house import PATIENT

from hostler.agents.outcomes import Outcome
from hostler.clock import FakeClock
from hostler.runs import NewRun, transitions
from hostler.runs.outcome import ending_without_agent
from hostler.runs.states import FenceLost, RunMove, RunStopped, TaskHasRun, next_run_state
from hostler.store import open_store
from hostler.store.runs import RunState, open_runs
from hostler.store.schema import runs as table

SHIM = {"pid": 1, "mark": "m"}
ENDING = ending_without_agent(Outcome.CRASH, "Oh.")
ACTIONS = {
    RunMove.LOCKED: lambda tx, run: transitions.store_starting(tx, run, SHIM),
    RunMove.GO: transitions.store_running,
    RunMove.OVER: lambda tx, run: transitions.store_exited(tx, run, ENDING),
    RunMove.NEVER_STARTED: transitions.store_never_started,
    RunMove.FINISH: transitions.store_finishing,
    RunMove.END: transitions.store_ended,
}


class RunsMachine(RuleBasedStateMachine):
    """The model is the state of each run, and whether it was stopped."""

    home = None
    copies = Bundle("copies")

    @initialize()
    def begin(self):
        self.store = open_store(self.home, clock=FakeClock(), patience=PATIENT)
        with self.store.write() as tx:
            tx.execute(table.delete())
        self.states, self.stopped, self.tasks = {}, set(), {}

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()

    def open_of(self, task):
        return [run for run in self.tasks.get(task, []) if self.states[run] is not RunState.ENDED]

    @rule(target=copies, task=st.sampled_from(["t1", "t2"]))
    def admit(self, task):
        new = NewRun(task, "p", kind="work", agent="a", agent_kind="command")
        busy = self.open_of(task)
        try:
            with self.store.write("admission") as tx:
                run = transitions.admit_run(tx, new)
        except TaskHasRun as error:
            assert [error.run] == busy
            with self.store.read() as tx:
                return open_runs(tx, task_id=task)[0]
        assert not busy
        assert run.fence == len(self.tasks.setdefault(task, [])) + 1
        self.tasks[task].append(run.run)
        self.states[run.run] = RunState.ADMITTED
        return run

    @rule(target=copies, run=copies, move=st.sampled_from(RunMove), undone=st.booleans())
    def move(self, run, move, undone):
        """A worker moves a run as it knows it, which may be long ago."""
        now, stop = self.states[run.run], run.run in self.stopped
        expected = next_run_state(now, move, stopped=stop) if run.state is now else None
        try:
            with suppress(ZeroDivisionError), self.store.write() as tx:
                run_then = ACTIONS[move](tx, run)
                if undone:
                    raise ZeroDivisionError
        except FenceLost:
            assert expected is None
            return run
        except RunStopped:
            assert expected is None and stop and run.state is now
            return run
        assert run_then.state is expected
        if undone:
            return run
        self.states[run.run] = expected
        return run_then

    @rule(run=copies)
    def stop(self, run):
        with self.store.write() as tx:
            first = transitions.request_stop(tx, run.run, "asked")
        assert first == (run.run not in self.stopped and self.states[run.run] is not RunState.ENDED)
        if first:
            self.stopped.add(run.run)

    @invariant()
    def rows_are_as_the_model(self):
        if not hasattr(self, "states"):
            return
        with self.store.read() as tx:
            found = {row.run: row.state for row in tx.execute(table.select())}
            left = open_runs(tx)
        assert found == {run: state.value for run, state in self.states.items()}
        assert len({run.task_id for run in left}) == len(left)


@pytest.mark.parametrize("examples", [25, pytest.param(1500, marks=pytest.mark.soak)])
def test_stale_workers_never_move_a_run_twice(tmp_path, runs_template, examples):
    shutil.copy(runs_template, tmp_path / runs_template.name)
    RunsMachine.home = tmp_path
    run_state_machine_as_test(
        RunsMachine, settings=settings(max_examples=examples, stateful_step_count=25)
    )
