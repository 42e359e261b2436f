"""When repositories are looked at: each in its interval, in turns, and whatever others do."""

from __future__ import annotations

import threading
from concurrent.futures import wait

from hypothesis import given
from hypothesis import strategies as st
from scheduler_fleet import MakeFleet

from hostler.service.polling.orchestrator import (
    POLL_THREADS,
    SLOW_POLL_THREADS,
    ThreadPools,
    next_in_rotation,
)

NAMES = tuple("abcdef")


@given(st.sampled_from((*NAMES, None, "gone")), st.sets(st.sampled_from(NAMES)))
def test_the_next_in_order_that_can_is_called(last, able):
    found = next_in_rotation(NAMES, last, able)
    if not able:
        assert found is None
        return
    after = NAMES.index(last) + 1 if last in NAMES else 0
    distance = {name: (NAMES.index(name) - after) % len(NAMES) for name in able}
    assert found == min(distance, key=lambda name: distance[name])


@given(st.sets(st.sampled_from(NAMES), min_size=1), st.integers(1, 20))
def test_everybody_who_can_is_called_once_per_round(able, rounds):
    last, called = None, []
    for _ in range(rounds * len(able)):
        last = next_in_rotation(NAMES, last, able)
        called.append(last)
    assert all(called.count(name) == rounds for name in able)


def test_by_turns_one_repository_is_looked_at_per_interval(fleet: MakeFleet):
    town = fleet("a", "b", "c", poll_cadence="turn", poll_interval_seconds=10)
    service = town.service()
    for _ in range(7):
        town.turn(service, 2)
        town.clock.advance(10)
    assert town.looks == list("abcabca")


def test_by_turns_a_repository_that_backs_off_loses_its_turn_and_no_other_does(fleet: MakeFleet):
    town = fleet("a", "b", "c", poll_cadence="turn", poll_interval_seconds=10)
    town.broken.add("b")
    service = town.service()
    for _ in range(12):
        town.turn(service)
        town.clock.advance(10)
    assert town.looks.count("b") <= 3
    # Nobody waits for the turn that was lost.
    assert town.looks.count("a") + town.looks.count("c") == 12 - town.looks.count("b")
    assert town.logged("repo_poll_failed") == town.looks.count("b")


def test_by_turns_a_webhook_waits_for_nobody(fleet: MakeFleet):
    town = fleet("a", "b", "c", poll_cadence="turn", poll_interval_seconds=10)
    service = town.service()
    town.turn(service)
    service.poll_repository_soon("octo/c")
    town.turn(service)
    assert town.looks == ["a", "c"]


def test_each_repository_is_looked_at_once_per_interval_from_begin_to_begin(fleet: MakeFleet):
    """However long looks take, as long as they end within the interval."""
    town = fleet("a", poll_interval_seconds=10)
    service = town.service()
    for number in range(1, 5):
        town.hanging["a"] = threading.Event()
        town.turn(service)
        town.until_looks(number)
        town.clock.advance(4)
        town.hanging.pop("a").set()
        town.turn(service)
        # Six seconds are left of ten.
        left = service._parts.orchestrators[0].seconds_left()
        assert left == 6.0
        town.clock.advance(6)
    assert len(town.looks) == 4


def test_a_look_that_takes_longer_than_the_interval_is_followed_by_a_pause(fleet: MakeFleet):
    town = fleet("a", poll_interval_seconds=10)
    service = town.service()
    town.hanging["a"] = threading.Event()
    town.turn(service)
    town.until_looks(1)
    town.clock.advance(100)
    town.hanging.pop("a").set()
    town.turn(service)
    assert service._parts.orchestrators[0].seconds_left() == 2.5


def test_repositories_that_hang_delay_no_other(fleet: MakeFleet):
    names = [f"r{number}" for number in range(50)]
    town = fleet(*names, poll_interval_seconds=10)
    hang = names[:10]
    service = town.service()
    for name in hang:
        town.hanging[name] = threading.Event()
    for round_ in range(1, 4):
        town.turn(service)
        town.until_looks(len(hang) + round_ * (len(names) - len(hang)))
        assert all(town.looks.count(name) == round_ for name in names[10:])
        town.clock.advance(10)
    # Thirty seconds are over: they give up, and from now on have threads of their own.
    town.broken.update(hang)
    for name in hang:
        town.hanging.pop(name).set()
    town.turn(service)
    for name in hang:
        town.hanging[name] = threading.Event()
    before = len(town.looks)
    town.clock.advance(1000)
    town.turn(service)
    town.until_looks(before + len(names) - len(hang) + SLOW_POLL_THREADS)
    healthy = [one for one in service._parts.orchestrators if one.project not in hang]
    assert all(town.looks.count(one.project) >= 4 for one in healthy)
    # Only so many of those that hung are asked at a time.
    slow = [name for name in hang if town.looks.count(name) == 2]
    assert len(slow) == SLOW_POLL_THREADS < POLL_THREADS
    for one in town.hanging.values():
        one.set()


def test_what_hangs_keeps_only_its_like_waiting():
    thread_pools, gate = ThreadPools(), threading.Event()
    stuck = [thread_pools.submit_poll(gate.wait, slow=True) for _ in range(SLOW_POLL_THREADS * 3)]
    well = [thread_pools.submit_poll(lambda: True, slow=False) for _ in range(50)]
    maintenance = [thread_pools.maintenance.submit(lambda: True) for _ in range(5)]
    assert not wait([*well, *maintenance], 30).not_done
    assert not any(one.done() for one in stuck)
    gate.set()
    assert not wait(stuck, 30).not_done
    thread_pools.close()
