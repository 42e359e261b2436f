"""kill -9 of service, shim and agent between every two steps.

Watched from outside: each agent holds a lock for its whole tree and notes that it lived.
"""

from __future__ import annotations

import os
import signal

import pytest
from runs_children import FENCE_LOST, Child
from runs_house import await_end, gone

from hostler.runs import RecoveryAction, recover
from hostler.shim import processes
from hostler.store.runs import RunState

BEFORE_GO = ["admitted", "spawned", "locked", "starting", "running"]
WITH_AGENT = ["go", "read"]
AFTER_AGENT = ["over", "exited", "finishing", "finished", "ended"]
NEVER, LOST, WELL = ("never_started", False), ("crash", True), ("success", True)


@pytest.fixture
def begin(house):
    """A service that stops at a step."""
    children = []

    def begin(step):
        children.append(Child(house.home, house.place, house.token, step))
        return children[-1]

    yield begin
    for child in children:
        child.kill()


def stopped_at(house, begin, step):
    """A service that has stopped at a step; itself, and its run."""
    child = begin(step)
    if step in AFTER_AGENT:
        house.orders.send("done")
    return child, house.row(child.hear())


def summary(runs):
    return [(run.outcome, run.counted) for run in runs]


def all_is_well(house, *expected):
    """One success at the end, nothing open, each place given back once."""
    runs = house.runs()
    assert summary(runs) == list(expected)
    assert [run.fence for run in runs] == list(range(1, len(runs) + 1))
    assert runs[-1].attempt == 1 + sum(run.counted for run in runs[:-1])
    assert {run.state for run in runs} == {RunState.ENDED}
    assert house.begun() == sum(run.counted for run in runs)
    assert not house.left()
    for run in runs:
        never = run.outcome == "never_started"
        ending = {"requeued"} if never else {"ended"}
        assert set(house.effects(run)) - {"attached"} == {"released"} | ending
    # Read by two services, and counted once.
    assert runs[-1].input_tokens == 7


@pytest.mark.parametrize("step", BEFORE_GO)
def test_a_service_killed_before_go_leaves_a_run_that_never_started(house, begin, step):
    child, run = stopped_at(house, begin, step)
    child.kill()
    house.orders.send("done")
    house.until_success()
    all_is_well(house, NEVER, WELL)
    assert house.runs()[0].run == run.run


@pytest.mark.parametrize("step", WITH_AGENT)
def test_an_agent_whose_service_was_killed_is_adopted(house, begin, step):
    child, run = stopped_at(house, begin, step)
    agent = house.hear("here")
    child.kill()
    (found,) = recover(house.home, house.store)
    assert (found.run.run, found.decision.action) == (run.run, RecoveryAction.ADOPT)
    assert not gone(agent)
    house.orders.send("done")
    house.until_success()
    all_is_well(house, WELL)


@pytest.mark.parametrize("step", AFTER_AGENT)
def test_a_service_killed_after_the_agents_end_is_finished_by_the_next(house, begin, step):
    child, _ = stopped_at(house, begin, step)
    child.kill()
    house.until_success()
    all_is_well(house, WELL)


@pytest.mark.parametrize("step", BEFORE_GO[1:])
def test_a_shim_killed_before_go_had_no_agent(house, begin, step):
    child, run = stopped_at(house, begin, step)
    kill(house.shim_of(house.home / run.folder))
    child.go_on()
    assert child.hear() == "over"
    house.orders.send("done")
    house.until_success()
    all_is_well(house, NEVER, WELL)


@pytest.mark.parametrize("step", WITH_AGENT)
@pytest.mark.parametrize("service_too", [False, True], ids=["", "and its service"])
def test_a_shim_killed_at_work_takes_its_whole_tree_along(house, begin, step, service_too):
    child, run = stopped_at(house, begin, step)
    agent = house.hear("here")
    house.orders.send("stray")
    stray = house.hear("stray")
    if service_too:
        child.kill()
    kill(house.shim_of(house.home / run.folder))
    if not service_too:
        child.go_on()
        assert child.hear() == "over"
    house.settle()
    assert gone(agent) and gone(stray)
    house.orders.send("done")
    house.until_success()
    all_is_well(house, LOST, WELL)
    assert house.runs()[0].decided_by == "lost"


@pytest.mark.parametrize("step", WITH_AGENT)
@pytest.mark.parametrize("service_too", [False, True], ids=["", "and its service"])
def test_a_killed_agent_is_a_crash_that_counts(house, begin, step, service_too):
    child, _ = stopped_at(house, begin, step)
    agent = house.hear("here")
    if service_too:
        child.kill()
    kill(agent)
    if not service_too:
        child.go_on()
        assert child.hear() == "over"
    house.settle()
    house.orders.send("done")
    house.until_success()
    all_is_well(house, LOST, WELL)
    assert house.runs()[0].exit_code == -signal.SIGKILL


@pytest.mark.parametrize("victim", ["service", "shim", "both"])
def test_killed_between_the_agents_end_and_the_last_word(house, begin, victim):
    child, run = stopped_at(house, begin, "go")
    agent = house.hear("here")
    shim = house.shim_of(house.home / run.folder)
    processes.send_signal(shim, signal.SIGSTOP)
    house.orders.send("done")
    await_end(agent)
    if victim != "shim":
        child.kill()
    if victim != "service":
        kill(shim)
    processes.send_signal(shim, signal.SIGCONT)
    if victim == "shim":
        child.go_on()
        assert child.hear() == "over"
    house.until_success()
    all_is_well(house, WELL)
    # Its result was there; a lost supervisor takes nothing away from it.
    assert house.runs()[0].decided_by == "result"


def test_services_killed_one_after_another_come_to_one_agent(house, begin):
    for step in BEFORE_GO:
        child, _ = stopped_at(house, begin, step)
        child.kill()
        house.settle()
    child, _ = stopped_at(house, begin, "read")
    house.orders.send("done")
    child.kill()
    house.until_success(most=len(BEFORE_GO) + 1)
    all_is_well(house, *[NEVER] * len(BEFORE_GO), WELL)


def test_a_service_that_slept_through_its_replacement_changes_nothing(house, begin):
    child, run = stopped_at(house, begin, "read")
    house.hear("here")
    os.kill(child.process.pid, signal.SIGSTOP)
    house.orders.send("done")
    house.until_success()
    before = house.row(run.run)
    os.kill(child.process.pid, signal.SIGCONT)
    child.go_on()
    child.join()
    assert child.process.exitcode == FENCE_LOST
    assert house.row(run.run) == before
    all_is_well(house, WELL)


def kill(process: processes.Process) -> None:
    assert processes.send_signal(process, signal.SIGKILL)
    await_end(process)
