"""The dispatcher for this machine: one agent per run, whoever asks how often."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from pathlib import Path

import pytest
from runs_house import House, gone

from hostler.errors import HostlerError
from hostler.runs import RecoveryAction, recover
from hostler.runs.dispatcher import shim_environment
from hostler.runs.states import FenceLost, ShimStartFailed, UnknownRun, WatchClosed
from hostler.shim import run_files
from hostler.store.runs import RunState


def spec_of(house, run):
    return house.launch(run).spec(run.run)


def descriptors():
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def children():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


def test_submitted_twice_is_started_once(house):
    run = house.admit_run()
    spec = spec_of(house, run)
    for _ in range(3):
        house.dispatcher.submit(spec, run.run, run.fence)
    house.hear("here")
    assert house.row(run.run).state is RunState.RUNNING
    house.orders.send("done")
    with house.dispatcher.attach(run.run) as watch:
        assert watch.wait()
        assert watch.exited_cleanly
    house.dispatcher.submit(spec, run.run, run.fence)
    assert house.begun() == 1


def test_submitted_by_many_threads_is_started_once(house):
    run = house.admit_run()
    spec = spec_of(house, run)
    gate = threading.Barrier(4)

    def submit():
        gate.wait()
        house.dispatcher.submit(spec, run.run, run.fence)

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    house.orders.send("done")
    assert house.boss.resume(run).outcome == "success"
    assert house.begun() == 1


def test_submitted_by_two_services_is_started_once(stable, house):
    other = House(stable, house.place, house.token)
    run = house.admit_run()
    gate = threading.Barrier(2)
    outcomes = []

    def submit(service):
        gate.wait()
        try:
            service.dispatcher.submit(spec_of(service, run), run.run, run.fence)
        except HostlerError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=submit, args=(one,)) for one in (house, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    house.orders.send("done")
    assert house.boss.resume(run).outcome == "success"
    assert house.begun() == 1
    assert len(outcomes) <= 1
    other.end()


def test_a_wrong_fence_and_an_unknown_run_start_nothing(house):
    run = house.admit_run()
    with pytest.raises(FenceLost):
        house.dispatcher.submit(spec_of(house, run), run.run, run.fence + 1)
    for ask in (house.dispatcher.attach, lambda run: house.dispatcher.cancel(run, 1)):
        with pytest.raises(UnknownRun):
            ask("nobody")
    assert not (house.home / run.folder / "shim.json").exists()


def test_a_refused_spec_is_reaped_and_said(house):
    run = house.admit_run()
    before, theirs = descriptors(), children()
    with pytest.raises(ShimStartFailed, match="argv") as caught:
        house.dispatcher.submit({"run": run.run, "argv": []}, run.run, run.fence)
    assert caught.value.code == 5
    assert descriptors() == before
    assert children() == theirs
    assert house.boss.resume(run).outcome == "never_started"


def test_a_shim_that_cannot_be_spawned_is_the_operators(house, monkeypatch):
    monkeypatch.setattr("hostler.runs.dispatcher.command", lambda folder: ["/nowhere", folder])
    house.boss.supervise(house.admit_run())
    before = descriptors()
    ended = house.boss.supervise(house.admit_run())
    assert (ended.outcome, ended.counted) == ("config", False)
    assert "No such file" in ended.why
    assert descriptors() == before


def test_a_folder_that_cannot_be_made_is_the_operators(house):
    (house.home / "projects").write_text("in the way")
    ended = house.boss.supervise(house.admit_run())
    assert (ended.outcome, ended.state) == ("config", RunState.ENDED)


@pytest.mark.parametrize("instead", ["fifo", "link", "folder", "file"])
def test_a_lock_that_the_agent_replaced_hides_nobody(house, instead):
    run = house.admit_run()
    house.dispatcher.submit(spec_of(house, run), run.run, run.fence)
    house.hear("here")
    path = house.home / run.folder / run_files.LOCK_FILE
    path.unlink()
    make = {"fifo": os.mkfifo, "link": lambda path: path.symlink_to("/dev/zero")}
    make.get(instead, Path.mkdir if instead == "folder" else Path.touch)(path)
    (found,) = recover(house.home, house.store)
    assert found.decision.action is RecoveryAction.ADOPT
    house.orders.send("done")
    assert house.boss.resume(run).outcome == "success"


def test_the_shim_sees_of_ours_only_what_it_hands_on(house):
    run = house.admit_run()
    future = house.start(run)
    house.hear("here")
    shim = house.shim_of(house.home / run.folder)
    environment = Path(f"/proc/{shim.pid}/environ").read_bytes()
    assert house.token.encode() in environment
    assert b"not-for-agents" not in environment
    assert b"PATH=" not in environment
    house.orders.send("done")
    future.result()
    ours = {"KEY": "1", "OTHER": "2", "LD_LIBRARY_PATH": "/lib"}
    assert shim_environment(ours, ["KEY", "GONE"]) == {"KEY": "1", "LD_LIBRARY_PATH": "/lib"}
    assert shim_environment(ours, None) == {"LD_LIBRARY_PATH": "/lib"}


def test_the_shim_has_a_session_of_its_own_and_none_of_our_descriptors(house):
    run = house.admit_run()
    future = house.start(run)
    house.hear("here")
    shim = house.shim_of(house.home / run.folder)
    assert os.getsid(shim.pid) == shim.pid
    opened = {os.readlink(f"/proc/{shim.pid}/fd/{name}") for name in _fds(shim.pid)}  # noqa: PTH115
    assert opened == {"/dev/null", str(house.home / run.folder / run_files.LOCK_FILE)} | {
        str(house.home / run.folder / name) for name in ("stdout", "stderr")
    }
    house.orders.send("done")
    future.result()


def _fds(pid):
    return os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208


def test_cancel_is_heard_at_once_and_again_in_a_hurry(house):
    run = house.admit_run()
    house.dispatcher.cancel(run.run, 1.0)
    assert not (house.home / run.folder).exists()
    house.dispatcher.submit(spec_of(house, run), run.run, run.fence)
    agent = house.hear("here")
    house.orders.send("stray")
    stray = house.hear("stray")
    house.dispatcher.cancel(run.run, 3600.0)
    house.dispatcher.cancel(run.run, 0.0)
    with house.dispatcher.attach(run.run) as watch:
        assert watch.wait()
    assert gone(agent) and gone(stray)
    word = json.loads((house.home / run.folder / "exit.json").read_text())
    assert word["ended_by"] == "stop"
    house.settle()


def test_a_run_that_is_over_is_over_at_once_for_whoever_attaches(house):
    run = house.admit_run()
    with house.dispatcher.attach(run.run) as watch:
        assert watch.wait()
        assert not watch.exited_cleanly


def test_a_shim_that_cannot_be_seen_is_waited_for_by_its_lock(house):
    """As one that has just locked, or one in another container with the same home."""
    run = house.admit_run()
    folder = house.home / run.folder
    folder.mkdir(parents=True)
    holder = os.open(folder / run_files.LOCK_FILE, os.O_RDWR | os.O_CREAT)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with house.dispatcher.attach(run.run) as watch:
        assert not watch.wait(0)
        os.close(holder)
        assert watch.wait()
    assert house.boss.resume(run).outcome == "never_started"


def test_whoever_waits_hears_that_the_watch_is_closed(stable, house):
    first = House(stable, house.place, house.token)
    run = first.admit_run()
    first.dispatcher.submit(spec_of(first, run), run.run, run.fence)
    house.hear("here")
    watch = first.dispatcher.attach(run.run)
    first.dispatcher.close()
    first.dispatcher.close()
    with pytest.raises(WatchClosed):
        watch.wait()
    house.orders.send("done")
    assert [ended.outcome for ended in house.settle()] == ["success"]
    first.end()
