"""Waiting inside a run: when its place is lent, when it is lent again, and when it comes back."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from hostler.clock import FakeClock
from hostler.governor.policy import Policy
from hostler.planner.dependencies import DependencyCycle
from hostler.service.scheduling import task_waits
from hostler.service.scheduling.task_waits import (
    MAX_STANDSTILL_SECONDS,
    ReleasedSlot,
    WaitOver,
    find_enough_settled,
    wait_for_tasks,
)
from hostler.store.runs import Run, RunState
from hostler.store.tasks import Flow, Task, TaskState

RUN = Run("r1", "t1", "yard", 1, 1, "work", "helper", "claude", "pool", "f", "2026")
ME = Task("t1", "yard", None, None, Flow.TASK, "Top", "ann", TaskState.RUNNING, "2026", 1)


class Yard:
    """Rows without a database. `events`: what happens at each wait for a change, in order."""

    def __init__(self, monkeypatch):
        self.clock = FakeClock()
        self.run = replace(RUN, state=RunState.RUNNING)
        self.rested, self.others, self.graph, self.ways = set(), [], {}, {}
        self.lent, self.leases, self.wanted, self.told, self.waits = [], [], [], [], []
        self.events = iter(())
        self.lendable = True
        for name, answer in {
            "find_settled": lambda tx, names: [
                SimpleNamespace(task=SimpleNamespace(id=one)) for one in names if one in self.rested
            ],
            "find_run": lambda tx, name: self.run if name == "r1" else None,
            "release_run_slot": self._lend,
            "lend_lease": lambda tx, name, policy: self.leases.append((name, policy)),
            "request_run_slot": lambda tx, name: self._want_back(name),
            "live_runs": lambda tx: [self.run, *self.others],
            "read_graph": lambda tx, names: self.graph,
            "_build_wait_graph": lambda tx, names, waits: self.ways,
            "read_waits": lambda runs: {},
            "ancestors": lambda tx, one: ["top"],
            "require_task": lambda tx, name: replace(ME, id=name),
            "is_in_tree": lambda tx, one, wanted: one.id in wanted,
            "read_host": lambda: SimpleNamespace(holder=self.holder),
        }.items():
            monkeypatch.setattr(task_waits, name, answer)
        monkeypatch.setattr(task_waits, "asdict", lambda holder: {"pid": 7})
        self.holder = object()

    def _lend(self, tx, name, by):
        self.lent.append((name, json.loads(by)))
        if self.lendable:
            self.run = replace(self.run, slot_released_at="then")
        return self.lendable

    def _want_back(self, name):
        self.wanted.append(name)
        self.run = replace(self.run, slot_requested_at="now")

    @contextmanager
    def read(self):
        yield "tx"

    @contextmanager
    def write(self, scope):
        assert scope == "admission"
        yield "tx"

    def change_mark(self):
        return len(self.waits)

    def wait_for_change(self, mark, seconds):
        self.waits.append((mark, seconds))
        event = next(self.events)
        if event is not None:
            event()
        self.clock.advance(seconds or 0.0)

    def wait(self, *names, run="r1", **more):
        return wait_for_tasks(self, self.clock, names, run, tell=self.told.append, **more)

    def rest(self, *names):
        return lambda: self.rested.update(names)

    def come_back(self):
        self.run = replace(self.run, slot_released_at=None)

    def lender(self, run="r1", names=("a",)):
        return ReleasedSlot(self, self.clock, run, names, names)


@pytest.fixture
def yard(monkeypatch):
    return Yard(monkeypatch)


def ids(found):
    return [one.task.id for one in found]


def test_what_rests_already_is_not_waited_for(yard):
    yard.rested = {"a", "b"}
    assert ids(yard.wait("a", "b")) == ["a", "b"]
    assert not yard.lent and not yard.waits and not yard.told


def test_all_or_any_of_them_are_to_rest(yard):
    yard.rested = {"a"}
    assert find_enough_settled(yard, ["a", "b"]) is None
    assert ids(find_enough_settled(yard, ["a", "b"], any)) == ["a"] and ids(
        find_enough_settled(yard, ["a"])
    ) == ["a"]


def test_a_wait_lends_the_place_and_has_it_again_before_it_returns(yard):
    yard.events = iter([yard.rest("a"), yard.come_back])
    policy = Policy()
    assert ids(yard.wait("a", policy=policy)) == ["a"]
    assert yard.lent == [("r1", {"pid": 7, "waits_for": ["a"]})]
    assert yard.leases == [("r1", policy)] and yard.wanted == ["r1"]
    assert yard.told == [
        "This run releases its slot while it waits.",
        "Waiting for a free slot for this run.",
    ]
    assert yard.waits == [(0, MAX_STANDSTILL_SECONDS), (1, None)] and MAX_STANDSTILL_SECONDS == 5.0


def test_who_waits_for_any_of_several_is_held_up_by_none(yard):
    yard.events = iter([yard.rest("a"), yard.come_back])
    yard.wait("a", "b", enough=any)
    assert yard.lent[0][1]["waits_for"] == []


@pytest.mark.parametrize(
    ("names", "enough", "needed"), [(("a", "b"), all, ["a", "b"]), (("a",), any, ["a"])]
)
def test_who_waits_for_all_or_for_one_needs_them(yard, names, enough, needed):
    yard.events = iter([yard.rest(*names), yard.come_back])
    yard.wait(*names, enough=enough)
    assert yard.lent[0][1]["waits_for"] == needed


def test_outside_of_a_run_nothing_is_lent(yard):
    yard.events = iter([yard.rest("a")])
    yard.write = lambda scope: pytest.fail("Nothing is to be written.")
    assert ids(yard.wait("a", run="")) == ["a"]
    assert not yard.lent and not yard.told and yard.waits == [(0, None)]
    yard.rested.clear()
    yard.events = iter([yard.rest("a")])
    assert ids(wait_for_tasks(yard, yard.clock, ["a"])) == ["a"]


def test_a_wait_ends_in_time_with_its_own_exit_code(yard):
    yard.events = iter([None, None])
    with pytest.raises(WaitOver, match="not all tasks have settled") as error:
        yard.wait("a", run="", seconds=3.0)
    assert error.value.exit_code == 75 and yard.waits == [(0, 3.0)]
    with pytest.raises(WaitOver):
        yard.wait("a", run="", seconds=0.0)


def test_a_timed_wait_in_a_run_looks_at_the_standstill_too(yard):
    yard.events = iter([None, None, yard.come_back])
    with pytest.raises(WaitOver, match="not all tasks have settled"):
        yard.wait("a", seconds=5.5)
    assert [seconds for _, seconds in yard.waits] == [5.0, 0.5, None]


def test_what_rests_at_the_last_moment_counts(yard):
    yard.events = iter([yard.rest("a")])
    assert ids(yard.wait("a", run="", seconds=3.0)) == ["a"]


def test_a_run_that_ended_meanwhile_ends_the_wait(yard):
    def end():
        yard.rested.add("a")
        yard.run = replace(yard.run, state=RunState.EXITED)

    yard.events = iter([end])
    with pytest.raises(WaitOver, match="The run r1 has ended"):
        yard.wait("a")


def test_a_place_that_is_lent_is_asked_for_once(yard):
    yard.run = replace(yard.run, slot_released_at="then")
    yard.events = iter([None, None, yard.come_back])
    yard.lender().come_back(yard.told.append)
    assert yard.wanted == ["r1"] and len(yard.waits) == 3


def test_a_place_that_was_lent_once_more_meanwhile_is_asked_for_again(yard):
    def lend_again():
        yard.run = replace(yard.run, slot_requested_at=None)

    yard.run = replace(yard.run, slot_released_at="then")
    yard.events = iter([lend_again, yard.come_back])
    yard.lender().come_back(yard.told.append)
    assert yard.wanted == ["r1", "r1"]


def test_a_place_that_counts_is_not_asked_for(yard):
    yard.lender().come_back(yard.told.append)
    yard.lender(run="").come_back(yard.told.append)
    assert not yard.wanted and not yard.told and not yard.waits


def test_nothing_is_lent_that_is_not_there_or_does_not_run(yard):
    assert yard.lender("").lend() is False and yard.lender("unknown").lend() is False
    yard.run = replace(yard.run, state=RunState.STARTING)
    assert yard.lender().lend() is False and not yard.lent
    yard.run = replace(yard.run, state=RunState.RUNNING)
    yard.lendable = False
    assert yard.lender().lend() is False and not yard.leases
    yard.lendable = True
    assert yard.lender().lend() is True and yard.leases == [("r1", None)]


@pytest.mark.parametrize("above", ["t1", "top"])
def test_a_run_does_not_wait_for_what_waits_for_it(yard, above):
    yard.ways = {"a": (above,)}
    with pytest.raises(DependencyCycle):
        yard.lender().lend()
    assert not yard.lent
    yard.run = replace(yard.run, state=RunState.STARTING)
    with pytest.raises(DependencyCycle):
        yard.lender().lend()


def test_a_place_that_counts_is_lent_again_after_five_seconds_of_standstill(yard):
    lender = yard.lender()
    assert lender.check_progress() == 5.0 and not yard.lent
    yard.clock.advance(4.9)
    lender.check_progress()
    assert not yard.lent
    yard.clock.advance(0.1)
    lender.check_progress()
    assert len(yard.lent) == 1
    # Lent now: nothing stands still. Then it has its place again, and the time begins anew.
    yard.clock.advance(60)
    lender.check_progress()
    yard.come_back()
    lender.check_progress()
    assert len(yard.lent) == 1
    yard.clock.advance(5)
    lender.check_progress()
    assert len(yard.lent) == 2


def test_after_it_was_lent_in_vain_the_time_begins_anew(yard):
    yard.lendable = False
    lender = yard.lender()
    lender.check_progress()
    yard.clock.advance(5)
    lender.check_progress()
    lender.check_progress()
    yard.clock.advance(4.9)
    lender.check_progress()
    assert len(yard.lent) == 1
    yard.clock.advance(0.1)
    lender.check_progress()
    assert len(yard.lent) == 2


def test_what_moves_is_no_standstill(yard):
    lender = yard.lender()
    lender.check_progress()
    yard.clock.advance(9)
    yard.others = [replace(RUN, run="r2", task_id="a")]
    lender.check_progress()
    assert not yard.lent
    yard.others = []
    lender.check_progress()
    yard.clock.advance(4.9)
    lender.check_progress()
    assert not yard.lent
    yard.clock.advance(0.1)
    lender.check_progress()
    assert yard.lent


@pytest.mark.parametrize(
    ("other", "moves"),
    [
        ({"task_id": "a"}, True),
        ({"task_id": "needed"}, True),
        ({"task_id": "stranger"}, False),
        ({"task_id": "a", "slot_released_at": "then"}, False),
        ({"task_id": "a", "run": "r1"}, False),
    ],
)
def test_agents_at_work_on_what_is_waited_for_move_it(yard, other, moves):
    yard.graph = {"needed": ()}
    yard.others = [replace(RUN, **{"run": "r2", **other})]
    lender = yard.lender()
    lender.check_progress()
    yard.clock.advance(5)
    lender.check_progress()
    assert bool(yard.lent) is not moves


def test_outside_of_a_run_and_without_one_there_is_no_standstill(yard):
    assert yard.lender("").check_progress() is None
    lost = yard.lender("unknown")
    lost.check_progress()
    yard.clock.advance(9)
    assert lost.check_progress() == 5.0 and not yard.lent
