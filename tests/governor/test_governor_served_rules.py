"""The numbers in the rules for caps that learn, each by what it does to a pool."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import timedelta
from itertools import pairwise

import pytest
from pool_traces import Pool

from hostler.clock import FakeClock
from hostler.governor.adaptive.controller import POLICIES
from hostler.governor.adaptive.model import (
    BreakerState,
    LeaseSlot,
    LimitAnnouncement,
    LimitReport,
    PoolConfig,
    PoolState,
    Reason,
    Source,
)
from hostler.governor.adaptive.state import dump_state
from hostler.governor.checks import caps_move
from hostler.health import CheckContext, CheckStatus
from hostler.store.governor import put_pool_state

ANT = LeaseSlot("ant", "0")
LIVE = LimitReport(ANT, Source.LIVE, Reason.BURST)


def pool(policy: str, cap: int, **more: float) -> Pool:
    """A pool in which as many run as may, and nobody waits."""
    config = PoolConfig(max_global=cap, adaptive=True, hard_max=200, policy=policy, **more)
    yard = Pool(POLICIES[policy], config, waiting=False)
    crowd(yard, cap)
    yard.look()
    return yard


def crowd(yard: Pool, number: int) -> None:
    yard.live = [LeaseSlot("ant", str(one)) for one in range(number)]


def minute(yard: Pool, answers: int, refusals: int = 0) -> None:
    """A window with so many answers to all of its agents together."""
    for _ in range(refusals):
        yard.limit(LIVE)
    yard.answer(ANT, answers)
    for _ in range(12):
        yard.wait(5)
        yard.look()


def paced(cap: int) -> Pool:
    """A pool whose agents are known to be answered six times a minute."""
    yard = pool("served", cap)
    minute(yard, 6 * cap)
    assert yard.state.agent_rate == pytest.approx(0.1)
    return yard


def rises(yard: Pool, number: int, use: float | None = None) -> list[int]:
    """The next steps up of a pool that is always full, while work waits and nobody is refused."""
    yard.waiting, caps = True, [yard.cap]
    while len(caps) <= number:
        crowd(yard, yard.cap)
        yard.wait(5)
        yard.answer(ANT)
        if use is not None:
            yard.word(LimitAnnouncement(ANT, use))
        yard.look()
        if yard.cap != caps[-1]:
            caps.append(yard.cap)
    return [after - before for before, after in pairwise(caps)]


# `served`: what is measured.


def test_the_cap_goes_half_of_the_way_to_a_little_less_than_what_is_served():
    yard = paced(100)
    caps = []
    for _ in range(6):
        minute(yard, 240, refusals=50)
        caps.append(yard.cap)
    # 40 of 100 are served, and 94 % of those are asked for.
    assert caps == [69, 53, 45, 41, 39, 38]


@pytest.mark.parametrize(("answers", "cap"), [(1, 8), (2, 6)])
def test_four_words_in_a_window_are_a_bad_moment_and_five_are_a_measure(answers, cap):
    yard = pool("served", 8)
    minute(yard, answers, refusals=3)
    assert yard.cap == cap


def test_a_quiet_window_moves_the_known_pace_by_a_fifth_of_the_way():
    yard = paced(10)
    minute(yard, 120)
    assert yard.state.agent_rate == pytest.approx(0.12)


@pytest.mark.parametrize(("joined", "pace"), [(1, 0.12), (4, 0.1)])
def test_while_more_than_a_fifth_come_or_go_no_pace_is_learned(joined, pace):
    yard = paced(10)
    yard.answer(ANT, 120)
    for look in range(12):
        yard.wait(5)
        if look == 11:
            yard.live += [LeaseSlot("bee", str(one)) for one in range(joined)]
        yard.look()
    assert yard.state.agent_rate == pytest.approx(pace, rel=0.02)


def test_the_first_quiet_window_after_refusals_teaches_no_pace_and_the_second_does():
    yard = paced(10)
    minute(yard, 60, refusals=1)
    minute(yard, 30)
    assert yard.state.agent_rate == pytest.approx(0.1)
    minute(yard, 30)
    assert yard.state.agent_rate == pytest.approx(0.09)


# `served`: how it grows, eases and goes deaf.


def test_steps_grow_after_some_by_one_and_never_beyond_eight():
    assert rises(pool("served", 8), 14) == [1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8]


def test_steps_into_announced_room_double_up_to_eight():
    assert rises(pool("served", 8), 6, use=0.0) == [1, 2, 4, 8, 8, 8]


def test_too_much_use_takes_one_off_every_twenty_seconds():
    yard = pool("served", 8)
    caps = []
    for _ in range(12):
        yard.wait(5)
        yard.word(LimitAnnouncement(ANT, 0.9))
        yard.look()
        crowd(yard, yard.cap)
        caps.append(yard.cap)
    assert caps == [7, 7, 7, 7, 6, 6, 6, 6, 5, 5, 5, 5]


@pytest.mark.parametrize(("last", "then"), [(19, BreakerState.CLOSED), (20, BreakerState.OPEN)])
def test_a_minute_without_an_answer_is_deaf_and_a_second_less_is_not(last, then):
    yard = pool("served", 8)
    for wait in (0, 20, 20, last):
        yard.wait(wait)
        yard.limit(LIVE)
    assert yard.state.breaker_state is then


# `aimd` and its breaker.


def thrice_lowered(**more: float) -> Pool:
    """Opened by three decreases in a row, at a cap of two."""
    yard = pool("aimd", 16, settle_seconds=0.0, **more)
    for number in range(3):
        yard.die(LeaseSlot("ant", str(number % 2)))
        yard.wait(1)
    assert (yard.state.breaker_state, yard.cap) == (BreakerState.OPEN, 2)
    return yard


def test_nothing_grows_while_the_breaker_is_open_or_half_open():
    yard = thrice_lowered(break_seconds=1200.0)
    for breaker_state in (BreakerState.OPEN, BreakerState.HALF_OPEN):
        yard.wait(1000)
        yard.look()
        assert (yard.state.breaker_state, yard.cap) == (breaker_state, 2)


def test_decreases_that_opened_the_breaker_do_not_open_it_again():
    yard = thrice_lowered(break_seconds=10.0)
    yard.live = []
    yard.wait(10)
    assert yard.start(ANT)
    yard.end(ANT)
    yard.wait(300)
    yard.look()
    assert (yard.state.breaker_state, yard.cap) == (BreakerState.CLOSED, 2)
    yard.die(ANT)
    # It is the first of a new count, though the others are less than ten minutes old.
    assert (yard.state.breaker_state, yard.cap) == (BreakerState.CLOSED, 1)


# What doctor says.


@pytest.mark.parametrize(("minutes", "status"), [(29, CheckStatus.OK), (31, CheckStatus.WARNING)])
def test_a_cap_at_its_floor_is_pinned_after_half_an_hour(sqlite_database, minutes, status):
    clock = FakeClock()
    caps = {"max_global_agents": 4, "adaptive": True}
    path = sqlite_database.home / "governor.json"
    path.write_text(json.dumps({"pools": {"anthropic": caps}}))
    lowered = PoolState(
        dynamic_cap=1,
        last_decrease_at=clock.now() - timedelta(minutes=minutes),
        settle_until=clock.now() + timedelta(minutes=1),
    )
    with closing(sqlite_database.open()) as store, store.write("admission") as tx:
        put_pool_state(tx, "anthropic", dump_state(lowered))
    (found,) = caps_move(CheckContext(sqlite_database.home, None, clock))
    assert found.status is status
