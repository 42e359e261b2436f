"""Every change of a row: one run, one fence, one state, one row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.agents.events import Usage, tally_events
from hostler.agents.outcomes import Outcome
from hostler.errors import HostlerError, StoreError
from hostler.runs import NewRun, transitions
from hostler.runs.outcome import Offsets, ending_without_agent
from hostler.runs.states import FenceLost, RunStopped, TaskHasRun, UnknownRun
from hostler.store.runs import RunState, add_run, find_run, live_runs, open_runs, runs_of

SHIM = {"pid": 1, "mark": "m"}
DONE = ending_without_agent(Outcome.SUCCESS, "Done.")


def new(task="t1", **more):
    return NewRun(task, "p", kind="work", agent="a", agent_kind="command", **more)


def do(store, action, *arguments):
    with store.write("admission") as tx:
        return action(tx, *arguments)


def to(store, run, state):
    """Bring a fresh run to a state, by the usual way."""
    steps = {
        RunState.ADMITTED: (transitions.store_starting, SHIM),
        RunState.STARTING: (transitions.store_running,),
        RunState.RUNNING: (transitions.store_exited, DONE),
        RunState.EXITED: (transitions.store_finishing,),
        RunState.FINISHING: (transitions.store_ended,),
    }
    while run.state is not state:
        action, *more = steps[run.state]
        run = do(store, action, run, *more)
    return run


def test_a_run_goes_through_its_states_with_a_stamp_for_each(store, clock):
    run = do(store, transitions.admit_run, new(pool="p:a"))
    assert run.folder == f"projects/p/tasks/t1/runs/{run.run}"
    for state in RunState:
        clock.advance(60)
        run = to(store, run, state)
        assert getattr(run, f"{state}_at") is not None
    with store.read() as tx:
        assert find_run(tx, run.run) == run
    times = [getattr(run, f"{state}_at") for state in RunState]
    assert times == sorted(times)


@pytest.mark.parametrize("state", [state for state in RunState if state != "ended"])
def test_a_task_has_one_run_that_is_not_ended(store, state):
    run = to(store, do(store, transitions.admit_run, new()), state)
    with pytest.raises(TaskHasRun) as caught:
        do(store, transitions.admit_run, new())
    assert caught.value.run == run.run
    assert do(store, transitions.admit_run, new("t2")).fence == 1


def test_the_database_itself_refuses_a_second_open_run(store):
    run = do(store, transitions.admit_run, new())
    with pytest.raises(StoreError):
        do(store, add_run, replace(run, run="other", fence=2))
    with store.read() as tx:
        assert open_runs(tx) == [run]


def test_fences_grow_and_attempts_count_agents(store):
    for fence, started, attempt in [(1, False, 1), (2, True, 1), (3, False, 2), (4, True, 2)]:
        run = do(store, transitions.admit_run, new())
        assert (run.fence, run.attempt) == (fence, attempt)
        if started:
            ending = replace(DONE, counted=True)
            run = do(store, transitions.store_exited, run, ending)
            do(store, transitions.store_ended, do(store, transitions.store_finishing, run))
        else:
            do(store, transitions.store_never_started, run)
    with store.read() as tx:
        assert [run.fence for run in runs_of(tx, "t1")] == [1, 2, 3, 4]
    assert do(store, transitions.admit_run, new(attempt=9)).attempt == 9


def test_places_are_held_until_the_outcome_is_stored(store):
    run = do(store, transitions.admit_run, new())
    for state in RunState:
        run = to(store, run, state)
        with store.read() as tx:
            assert bool(live_runs(tx)) == (state in {"admitted", "starting", "running"})
            assert bool(open_runs(tx)) == (state != "ended")


def test_a_stale_copy_a_wrong_fence_and_an_unknown_run_are_refused(store):
    stale = do(store, transitions.admit_run, new())
    run = do(store, transitions.store_starting, stale, SHIM)
    with pytest.raises(FenceLost) as caught:
        do(store, transitions.store_starting, stale, SHIM)
    assert (caught.value.expected, caught.value.run) == ("admitted", run.run)
    with pytest.raises(FenceLost):
        do(store, transitions.store_running, replace(run, fence=2))
    with pytest.raises(UnknownRun):
        do(store, transitions.store_running, replace(run, run="other"))
    with store.read() as tx:
        assert find_run(tx, run.run) == run


def test_two_workers_that_race_make_one_move(store):
    run = to(store, do(store, transitions.admit_run, new()), RunState.RUNNING)
    do(store, transitions.store_exited, run, DONE)
    for action, *more in [(transitions.store_exited, DONE), (transitions.store_never_started,)]:
        with pytest.raises(FenceLost):
            do(store, action, run, *more)


def test_a_run_that_was_replaced_may_send_nothing(store):
    old = to(store, do(store, transitions.admit_run, new()), RunState.FINISHING)
    with store.read() as tx:
        assert transitions.require_newest(tx, old) == old
    do(store, transitions.store_ended, old)
    do(store, transitions.admit_run, new())
    with store.read() as tx, pytest.raises(FenceLost):
        transitions.require_newest(tx, old)


def test_a_stop_bars_go_and_a_second_chance(store):
    run = to(store, do(store, transitions.admit_run, new()), RunState.STARTING)
    assert do(store, transitions.request_stop, run.run, "ada")
    for action in (transitions.store_running, transitions.store_never_started):
        with pytest.raises(RunStopped) as caught:
            do(store, action, run)
        assert caught.value.why == "ada"
    over = do(store, transitions.store_exited, run, DONE)
    assert (over.outcome, over.decided_by) == ("interrupted", "stop")


def test_the_first_stop_stays_and_an_ended_run_takes_none(store):
    run = do(store, transitions.admit_run, new())
    assert do(store, transitions.request_stop, run.run, "ada")
    assert not do(store, transitions.request_stop, run.run, "bob")
    ended = to(store, do(store, transitions.store_exited, run, DONE), RunState.ENDED)
    assert ended.stop_why == "ada"
    assert not do(store, transitions.request_stop, run.run, "eve")
    assert not do(store, transitions.request_stop, "unknown", "eve")


def test_progress_has_one_reader_who_never_goes_back(store):
    run = to(store, do(store, transitions.admit_run, new()), RunState.RUNNING)
    heard = tally_events([Usage(input_tokens=5)])
    more = do(store, transitions.store_progress, run, heard, Offsets(10, 2))
    assert (more.stdout_offset, more.stderr_offset, more.input_tokens) == (10, 2, 5)
    with pytest.raises(FenceLost):
        do(store, transitions.store_progress, run, heard, Offsets(10, 2))
    assert do(store, transitions.store_progress, more, heard, Offsets(20, 2)).stdout_offset == 20


def test_what_a_hook_fails_at_leaves_the_run_where_it_was(store):
    run = do(store, transitions.admit_run, new())
    with pytest.raises(HostlerError), store.write() as tx:
        transitions.store_starting(tx, run, SHIM)
        raise HostlerError("a lease is gone")
    with store.read() as tx:
        assert find_run(tx, run.run) == run
