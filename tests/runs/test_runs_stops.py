"""A stop at any time is final."""

from __future__ import annotations

import os
import signal

import pytest
from runs_house import House, gone, stop_file

from hostler.clock import FakeClock
from hostler.runs import RecoveryAction, next_action, recover, request_stop, verdict_of
from hostler.runs.states import WatchClosed
from hostler.shim import run_files
from hostler.store.runs import RunState


def stop(house, run, why="asked by ada"):
    with house.store.write() as tx:
        return request_stop(tx, run.run, why)


@pytest.mark.parametrize("said", ["done", "needs_input"])
def test_a_stop_outranks_what_the_agent_said(stable, house, said):
    # Time stands still: nobody looks for a stop before the agent has ended by itself.
    timeless = House(stable, house.place, house.token, clock=FakeClock())
    run = timeless.admit_run()
    future = timeless.start(run)
    house.hear("here")
    assert stop(house, run)
    house.orders.send(said)
    ended = future.result()
    timeless.end()
    assert ended.ended_by == "exit"
    assert (ended.outcome, ended.decided_by) == ("interrupted", "stop")
    assert "asked by ada" in ended.why
    assert verdict_of(ended).result.status == said
    assert next_action(ended) == "stop"


def test_a_stop_reaches_an_agent_at_work(house):
    run = house.admit_run()
    future = house.start(run)
    agent = house.hear("here")
    house.orders.send("stray")
    stray = house.hear("stray")
    assert stop(house, run)
    assert not stop(house, run, "somebody else, later")
    ended = future.result()
    assert gone(agent) and gone(stray)
    assert (ended.outcome, ended.ended_by) == ("interrupted", "stop")
    assert ended.stop_why == "asked by ada"
    assert stop_file(house.home / run.folder)["why"] == "asked by ada"


def test_a_stop_that_an_agent_forges_is_its_crash_and_its_words_go_nowhere(house):
    run = house.admit_run()
    future = house.start(run)
    house.hear("here")
    folder = house.home / run.folder
    run_files.write_json(str(folder / run_files.STOP_FILE), {"why": "@everybody, look here"})
    # It would look by itself within a minute.
    os.kill(run_files.read_json(str(folder / run_files.SHIM_FILE))["pid"], signal.SIGUSR1)
    ended = future.result()
    assert (ended.outcome, ended.ended_by) == ("crash", "stop")
    assert "@everybody" not in ended.why
    assert next_action(ended) == "retry"


def test_a_stop_before_the_launch_starts_nothing(house):
    run = house.admit_run()
    assert stop(house, run)
    ended = house.boss.supervise(run)
    assert (ended.outcome, ended.counted) == ("interrupted", False)
    assert house.begun() == 0
    assert house.effects(run) == ["ended", "released"]


STEPS = ["spawned", "locked", "starting", "running", "go", "over", "exited", "finishing"]


@pytest.mark.parametrize("step", [*STEPS, "finished"])
def test_a_stop_at_any_step_is_final(stable, house, step):
    def observer(now, name):
        if now == step:
            with house.store.write() as tx:
                assert request_stop(tx, name, "now")
            # As a service does that sees the request.
            house.dispatcher.cancel(name, 0.1)

    with_stop = House(stable, house.place, house.token, observer=observer, how="quick")
    try:
        ended = with_stop.boss.supervise(house.admit_run())
    finally:
        with_stop.end()
    assert ended.state is RunState.ENDED
    assert (ended.stop_why, next_action(ended)) == ("now", "stop")
    assert "requeued" not in house.effects(ended)
    before_the_outcome = step not in {"exited", "finishing", "finished"}
    assert (ended.outcome == "interrupted") == before_the_outcome
    if step in {"spawned", "locked", "starting", "running"}:
        assert house.begun() == 0
        assert not ended.counted


def test_a_stop_of_an_ended_run_is_no_stop(house):
    house.how = "quick"
    ended = house.boss.supervise(house.admit_run())
    assert not stop(house, ended)
    assert house.row(ended.run).stop_why is None


def test_a_stop_asked_for_while_nobody_served_is_delivered_at_adoption(stable, house):
    first = House(stable, house.place, house.token)
    run = first.admit_run()
    future = first.start(run)
    agent = house.hear("here")
    first.dispatcher.close()
    with pytest.raises(WatchClosed):
        future.result()
    assert stop(house, run)
    (found,) = recover(house.home, house.store)
    assert (found.decision.action, found.decision.stop) == (RecoveryAction.ADOPT, True)
    (ended,) = house.settle()
    assert ended.outcome == "interrupted"
    assert gone(agent)
    assert first.end() == []
