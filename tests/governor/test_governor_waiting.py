"""Waiting for a place, with a clock that tests move."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from governor_yard import Yard, process

from hostler.governor.gates import Gate, LeaseGranted, LeaseRequest
from hostler.governor.leases import LeaseWaiter, release_lease
from hostler.governor.parking import park
from hostler.store.governor import all_demand

ME, OTHER = process(1), process(2)
ASK = LeaseRequest("ours", "ant", width=2, weight=3)


class Waiting(threading.Thread):
    """One who waits, and what it heard meanwhile."""

    def __init__(self, yard: Yard, clock) -> None:
        super().__init__(daemon=True)
        self.heard: list[Gate] = []
        self.answer = None
        self.waiter = LeaseWaiter(
            yard.store, clock, lambda: yard.policy, lambda: yard.host(ME), self.hear
        )

    def hear(self, denied) -> None:
        self.heard.append(denied.gate)

    def run(self) -> None:
        self.answer = self.waiter.wait(ASK)

    def end(self):
        self.join(30)
        assert not self.is_alive(), "it still waits"
        return self.answer


@pytest.fixture
def yard(sqlite_store) -> Yard:
    made = Yard(sqlite_store)
    made.take("a", "b", project="bee", holder=OTHER)
    return made


def wishes(yard):
    with yard.store.read() as tx:
        return all_demand(tx)


def test_a_free_place_is_had_at_once_and_leaves_no_wish(yard, clock):
    with yard.write() as tx:
        release_lease(tx, "a")
    one = Waiting(yard, clock)
    one.run()
    assert (one.answer, one.heard, wishes(yard)) == (LeaseGranted("ours", "anthropic"), [], [])


def test_a_commit_wakes_who_waits(yard, clock):
    one = Waiting(yard, clock)
    one.start()
    clock.wait_for_waiters()
    (wish,) = wishes(yard)
    assert (wish.project, wish.wanted, wish.weight, wish.width) == ("ant", 1, 3, 2)
    with yard.write() as tx:
        release_lease(tx, "a")
    assert one.end() == LeaseGranted("ours", "anthropic")
    assert set(one.heard) == {Gate.CAP}
    assert wishes(yard) == []


def test_a_death_is_noticed_though_nobody_tells(yard, clock):
    one = Waiting(yard, clock)
    one.start()
    clock.wait_for_waiters()
    yard.dead.add(OTHER)
    clock.advance(1)
    assert one.end() == LeaseGranted("ours", "anthropic")
    assert yard.leases() == ["ours"]


def test_a_wish_is_said_again_before_it_is_too_old(yard, clock):
    one = Waiting(yard, clock)
    one.start()
    clock.wait_for_waiters()
    (first,) = wishes(yard)
    clock.advance(199)
    clock.wait_for_waiters()
    assert wishes(yard) == [first]
    clock.advance(2)
    # It has said it again when the old one would be stale.
    mark = yard.store.change_mark()
    while wishes(yard) == [first]:
        mark = yard.store.wait_for_change(mark, 0.25)
    clock.wait_for_waiters()
    clock.advance(401)
    with yard.write() as tx:
        release_lease(tx, "b")
    assert one.end() == LeaseGranted("ours", "anthropic")


def test_each_closed_gate_is_told(yard, clock):
    with yard.write() as tx:
        park(tx, "", tx.now() + timedelta(seconds=0.5), "soon")
    one = Waiting(yard, clock)
    one.start()
    clock.wait_for_waiters()
    clock.advance(0.5)
    with yard.write() as tx:
        release_lease(tx, "a")
        release_lease(tx, "b")
    assert one.end() == LeaseGranted("ours", "anthropic")
    assert one.heard[0] is Gate.PARKED


def test_an_error_ends_the_wait_and_takes_the_wish_back(yard, clock):
    one = Waiting(yard, clock)

    def stop(denied):
        assert len(wishes(yard)) == 1
        raise KeyboardInterrupt

    one.waiter = LeaseWaiter(yard.store, clock, lambda: yard.policy, lambda: yard.host(ME), stop)
    with pytest.raises(KeyboardInterrupt):
        one.run()
    assert wishes(yard) == []


def test_whoever_does_not_wait_wishes_for_nothing(yard, clock):
    one = Waiting(yard, clock)
    assert one.waiter.try_acquire(ASK, publish=False).gate is Gate.CAP
    assert wishes(yard) == []
