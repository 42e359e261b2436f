"""Starts keep a distance: how much, and what moves its clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pool_traces import Pool

from hostler.governor.adaptive.controller import POLICIES
from hostler.governor.adaptive.model import LeaseSlot, PoolConfig

AIMD = POLICIES["aimd"]
ANT, BEE = LeaseSlot("ant", "1"), LeaseSlot("bee", "1")


def pool(**more: float) -> Pool:
    return Pool(AIMD, PoolConfig(adaptive=True, **more))


def test_smoothing_denies_a_second_start_inside_the_interval_and_denials_do_not_move_the_clock():
    yard = pool()
    assert yard.start(ANT, roll=0.5)
    for _ in range(29):
        yard.wait(0.1)
        assert not yard.start(BEE)
    assert AIMD.closed_gate(yard.config, yard.state, yard.now).gate == "spacing"
    yard.wait(0.1)
    assert yard.start(BEE)


@given(st.floats(0, 0.999), st.floats(0, 60))
def test_the_distance_is_jittered_by_a_half(roll, interval):
    yard = pool(min_dispatch_interval_seconds=interval)
    yard.start(ANT, roll)
    closed = AIMD.closed_gate(yard.config, yard.state, yard.now)
    distance = (closed.until - yard.now).total_seconds() if closed else 0.0
    assert 0.5 * interval - 1e-6 <= distance <= 1.5 * interval + 1e-6


def test_no_interval_is_no_distance():
    yard = pool(min_dispatch_interval_seconds=0.0)
    assert yard.start(ANT) and yard.start(BEE)


def test_a_probe_is_exempt_and_moves_no_clock():
    yard = Pool(AIMD, PoolConfig(max_global=1, adaptive=True, break_seconds=1.0))
    assert yard.start(ANT, roll=0.9)
    dispatched = yard.state.last_dispatch_at
    yard.die(ANT)
    yard.wait(1)
    assert yard.start(BEE)
    assert yard.state.last_dispatch_at == dispatched


def test_a_distance_from_the_future_is_no_longer_than_it_could_be():
    yard = pool()
    yard.start(ANT)
    yard.wait(-9999)
    yard.look()
    yard.wait(4.5)
    assert yard.start(BEE)
