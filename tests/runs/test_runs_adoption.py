"""Runs that somebody else began, or that were tampered with."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from dataclasses import replace

import pytest
from runs_house import PATIENCE, House, gone

from hostler.clock import FakeClock
from hostler.runs import RecoveryAction, recover
from hostler.runs.states import FenceLost, RunNotVisible, WatchClosed
from hostler.shim import processes
from hostler.store.runs import LIVE, RunState
from hostler.store.schema import runs


def test_a_service_that_leaves_hands_its_agents_to_the_next(stable, house):
    first = House(stable, house.place, house.token)
    run = first.admit_run()
    future = first.start(run)
    house.hear("here")
    first.dispatcher.close()
    with pytest.raises(WatchClosed):
        future.result()
    house.orders.send("done")
    (ended,) = house.settle()
    assert (ended.run, ended.outcome) == (run.run, "success")
    first.end()


def test_an_adopted_stream_is_read_on_from_the_stored_offset(stable, house):
    """The second reader must not see the first lines: they are damaged meanwhile."""
    clock, read = FakeClock(), threading.Event()

    def observer(step, run):
        if step == "read":
            read.set()

    first = House(stable, house.place, house.token, clock=clock, observer=observer)
    run = first.admit_run()
    future = first.start(run)
    house.hear("here")
    house.orders.send("say 100")
    house.hear("said")
    clock.wait_for_waiters()
    clock.advance(1.0)
    assert read.wait(PATIENCE)
    first.dispatcher.close()
    with pytest.raises(WatchClosed):
        future.result()
    stored = house.row(run.run)
    output = house.home / run.folder / "stdout"
    assert (stored.input_tokens, stored.stdout_offset) == (107, output.stat().st_size)
    with output.open("r+b") as file:
        file.write(b'{"type": "usage", "input_tokens": 9999}')
    house.orders.send("say 1000")
    house.orders.send("done")
    (ended,) = house.settle()
    assert (ended.input_tokens, ended.usd) == (1107, 0.5)
    first.end()


def test_a_second_reader_of_a_run_loses(stable, house):
    run = house.admit_run()
    future = house.start(run)
    house.hear("here")
    other = House(stable, house.place, house.token)
    second = other.go_on(house.row(run.run))
    house.orders.send("say 5")
    house.orders.send("done")
    ends = [future, second]
    results = [end.exception() or end.result() for end in ends]
    assert sorted(isinstance(result, FenceLost) for result in results) in ([False, True],)
    assert house.row(run.run).input_tokens == 12
    assert house.effects(run) == ["attached", "ended", "released"]
    other.end()


def test_a_forged_last_word_hides_nobody(house):
    run = house.admit_run()
    future = house.start(run)
    agent = house.hear("here")
    house.orders.send("stray")
    stray = house.hear("stray")
    folder = house.home / run.folder
    shim = house.shim_of(folder)
    word = {"version": 1, "run": run.run, "ended_by": "exit", "exit_code": 10**40}
    (folder / "exit.json").write_text(json.dumps(word))
    (folder / "shim.json").unlink()
    os.kill(shim.pid, signal.SIGKILL)
    ended = future.result()
    assert gone(agent) and gone(stray)
    assert ended.outcome == "crash"
    assert ended.exit_code is None


def test_a_run_whose_folder_was_removed_is_lost_and_swept(house):
    run = house.admit_run()
    future = house.start(run)
    agent = house.hear("here")
    shim = house.shim_of(house.home / run.folder)
    # Moved first: somebody may be writing into it.
    shutil.rmtree((house.home / run.folder).rename(house.home / "away"))
    os.kill(shim.pid, signal.SIGUSR1)
    ended = future.result()
    assert gone(agent)
    assert (ended.outcome, ended.decided_by, ended.counted) == ("crash", "lost", True)


def test_a_run_of_another_container_is_left_alone(house):
    run = house.admit_run()
    folder = house.home / run.folder
    folder.mkdir(parents=True)
    (folder / "stdout").touch()
    (folder / "run.lock").touch()
    elsewhere = {**processes.current_identity(), "pid_namespace": "pid:[1]", "mark": "m"}
    with house.store.write() as tx:
        tx.execute(runs.update(), {"state": RunState.RUNNING.value, "shim": json.dumps(elsewhere)})
    (found,) = recover(house.home, house.store)
    assert found.decision.action is RecoveryAction.LEAVE_ALONE
    with pytest.raises(RunNotVisible):
        house.boss.resume(found.run)
    assert house.row(run.run).state in LIVE


def test_a_run_from_before_a_reboot_is_lost_without_a_sweep(house):
    run = house.admit_run()
    folder = house.home / run.folder
    folder.mkdir(parents=True)
    (folder / "stdout").write_text('{"type": "usage", "input_tokens": 3}\n')
    (folder / "run.lock").touch()
    before = {**processes.current_identity(), "boot_id": "another", "mark": "m"}
    with house.store.write() as tx:
        tx.execute(runs.update(), {"state": RunState.RUNNING.value, "shim": json.dumps(before)})
    (ended,) = house.settle()
    assert (ended.outcome, ended.decided_by, ended.input_tokens) == ("crash", "lost", 3)


def test_a_stale_copy_of_a_run_is_no_obstacle_and_a_wrong_fence_is(house):
    house.how = "quick"
    run = house.admit_run()
    ended = house.boss.supervise(run)
    assert house.boss.resume(run) == ended
    with pytest.raises(FenceLost):
        house.boss.resume(replace(run, fence=7))
