"""The rule from elsewhere: a tenth less per refusal, one more per answer while half is used."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hostler.governor.adaptive.model import (
    LeaseSlot,
    LimitReport,
    PoolConfig,
    PoolLoad,
    PoolState,
    Reason,
    Source,
)
from hostler.sim.policies import Netflix

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANT = LeaseSlot("ant", "1")
KNOBS = PoolConfig(max_global=20, hard_max=24, adaptive=True)
NETFLIX = Netflix()


def running(active: int, cap: int = 20) -> PoolState:
    return NETFLIX.advance(KNOBS, PoolState(dynamic_cap=cap), NOW, PoolLoad(active, True))


def refused(state: PoolState) -> int:
    report = LimitReport(ANT, Source.LIVE, Reason.BURST)
    return NETFLIX.cap(KNOBS, NETFLIX.on_limit(KNOBS, state, NOW, report))


def answered(state: PoolState, times: int = 1) -> int:
    return NETFLIX.cap(KNOBS, NETFLIX.on_answers(KNOBS, state, NOW, ANT, times))


@pytest.mark.parametrize(("cap", "then"), [(20, 18), (11, 9), (2, 1), (1, 1)])
def test_a_refusal_takes_a_tenth_off_and_leaves_one(cap, then):
    assert refused(running(cap, cap)) == then


@pytest.mark.parametrize(("active", "then"), [(9, 20), (10, 21), (20, 21)])
def test_an_answer_adds_one_only_where_twice_what_runs_reaches_the_limit(active, then):
    assert answered(running(active)) == then


def test_many_answers_stop_where_the_limit_is_too_far_above_what_runs():
    assert answered(running(11), 10) == 23
    assert answered(running(20), 10) == KNOBS.hard_max


def test_it_begins_with_the_operators_word():
    assert NETFLIX.cap(KNOBS, PoolState()) == 20
