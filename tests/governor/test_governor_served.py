"""The policy `served`: what it measures, what it is told, and what opens and closes its gates."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pool_traces import Pool, config, traces

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
from hostler.governor.adaptive.served import MAX_STEP, PAUSE, UNRESPONSIVE_AFTER

SERVED = POLICIES["served"]
ANT, BEE = LeaseSlot("ant", "1"), LeaseSlot("bee", "1")
LIVE = LimitReport(ANT, Source.LIVE, Reason.BURST)


def pool(cap: int = 8, active: int | None = None, hard_max: int = 64) -> Pool:
    yard = Pool(SERVED, PoolConfig(max_global=cap, adaptive=True, hard_max=hard_max))
    yard.live = [
        LeaseSlot("ant", str(number)) for number in range(cap if active is None else active)
    ]
    yard.look()
    return yard


def fill(yard: Pool) -> None:
    """As many agents as there may be."""
    yard.live = [LeaseSlot("ant", str(number)) for number in range(yard.cap)]


def minute(yard: Pool, answers: int, *, refusals: int = 0, deaths: int = 0) -> None:
    """A minute in which each agent is answered so often; refusals come first."""
    for _ in range(refusals):
        yard.limit(LIVE)
    for _ in range(deaths):
        yard.limit(LimitReport(BEE, Source.DEATH, Reason.BURST))
    told = answers * len(yard.live)
    for look in range(1, 13):
        yard.wait(5)
        so_far = told * look // 12 - told * (look - 1) // 12
        yard.state = SERVED.on_answers(yard.config, yard.state, yard.now, ANT, so_far)
        yard.look()


def settled(cap: int, active: int | None = None) -> Pool:
    """A pool that knows its agents' pace, twelve answers a minute, and does not grow."""
    yard = pool(cap, active)
    yard.waiting = False
    for _ in range(3):
        minute(yard, 12)
    assert yard.cap == cap and yard.state.agent_rate == pytest.approx(0.2)
    return yard


def breaker_state(yard: Pool) -> BreakerState:
    return yard.state.breaker_state


def deaf(yard: Pool) -> None:
    """Nobody is answered for a while."""
    for _ in range(4):
        yard.limit(LIVE)
        yard.wait(UNRESPONSIVE_AFTER.total_seconds() / 3)
    assert breaker_state(yard) is BreakerState.OPEN


def test_the_cap_goes_to_what_is_served_and_no_lower():
    yard = settled(24)
    caps = []
    for _ in range(12):
        minute(yard, 4, refusals=40)
        caps.append(yard.cap)
    assert caps == sorted(caps, reverse=True)
    # A third of 24, less what is left to spare; agents above the cap were not ended.
    assert yard.cap == 8


def test_an_agent_that_was_refused_a_little_and_goes_on_does_no_lasting_harm():
    yard = settled(8, active=1)
    minute(yard, 12, refusals=2)
    assert yard.cap == 8


def test_where_fewer_ran_than_might_the_same_part_is_taken_off():
    yard = settled(24, active=6)
    minute(yard, 6, refusals=10)
    assert 16 <= yard.cap < 20


def test_without_a_known_pace_the_part_of_the_requests_that_was_served_counts():
    yard = pool(20)
    minute(yard, 3, refusals=60)
    assert 10 <= yard.cap <= 15


def test_agents_that_tell_nothing_until_they_die_are_halved_and_grow_slowly():
    yard = settled(8)
    minute(yard, 12, deaths=1)
    assert yard.cap == 4 and yard.state.refusals_unreported
    yard.waiting = True
    fill(yard)
    for _ in range(5):
        assert yard.cap == 4
        minute(yard, 12)
    assert yard.cap == 5


def test_one_that_tells_of_a_refusal_ends_the_silence():
    yard = settled(8)
    minute(yard, 12, deaths=1)
    minute(yard, 12, refusals=1)
    assert yard.cap == 4 and not yard.state.refusals_unreported
    minute(yard, 12, refusals=1, deaths=1)
    assert yard.cap == 4


def test_growth_is_one_a_minute_and_then_faster():
    yard = settled(8)
    yard.waiting = True
    caps = [yard.cap]
    for _ in range(8):
        minute(yard, 12)
        caps.append(yard.cap)
        fill(yard)
    steps = [after - before for before, after in pairwise(caps)]
    assert steps[:3] == [1, 1, 1] and steps == sorted(steps)
    assert 1 < steps[-1] <= MAX_STEP


@pytest.mark.parametrize(("waiting", "active"), [(False, 8), (True, 7)])
def test_it_grows_only_while_the_cap_binds(waiting, active):
    yard = pool(8, active)
    yard.waiting = waiting
    for _ in range(5):
        minute(yard, 12)
    assert yard.cap == 8


def test_a_refusal_ends_the_growth_for_a_minute_and_its_pace():
    yard = settled(8)
    yard.waiting = True
    for _ in range(5):
        minute(yard, 12)
        fill(yard)
    before = yard.cap
    yard.limit(LIVE)
    yard.wait(55)
    yard.look()
    assert yard.cap <= before and yard.state.growth == 0


def told(yard: Pool, use: float, seconds: float) -> None:
    for _ in range(int(seconds / 5)):
        yard.wait(5)
        yard.answer(ANT)
        yard.word(LimitAnnouncement(ANT, use))
        yard.look()


def test_room_that_is_announced_is_taken_faster():
    yard = pool(8)
    yard.live.append(ANT)
    for _ in range(4):
        told(yard, 0.0, 30)
        fill(yard)
        yard.live[0] = ANT
    assert yard.cap >= 8 + 1 + 2 + 4


@pytest.mark.parametrize("use", [0.05, 0.1, 0.5])
def test_between_room_and_too_little_it_grows_by_one_after_a_long_while(use):
    yard = pool(8)
    caps = []
    for _ in range(3):
        fill(yard)
        yard.live[0] = ANT
        told(yard, use, 295)
        caps.append(yard.cap)
        told(yard, use, 5)
    assert caps == [8, 9, 10] and yard.cap == 11


def test_between_them_it_grows_only_where_somebody_waits_and_nobody_was_refused():
    yard = pool(8)
    yard.live[0] = ANT
    yard.waiting = False
    told(yard, 0.3, 600)
    assert yard.cap == 8
    yard.waiting = True
    yard.limit(LIVE)
    told(yard, 0.3, 295)
    assert yard.cap == 8


def test_too_much_use_takes_one_off_ahead_of_any_refusal_and_waits_until_it_is_gone():
    yard = pool(8)
    yard.live[0] = ANT
    told(yard, 0.9, 120)
    assert yard.cap == 7
    yard.live.pop()
    told(yard, 0.9, 120)
    assert yard.cap == 6
    assert yard.state.rate_limit_events == 0


def test_what_was_announced_long_ago_says_nothing_of_now():
    yard = pool(8)
    yard.live[0] = ANT
    yard.word(LimitAnnouncement(ANT, 0.9))
    yard.wait(31)
    yard.look()
    assert yard.cap >= 8


def test_a_window_of_hours_is_used_until_it_is_used_up():
    yard = pool(8)
    reset = yard.now + timedelta(hours=3)
    yard.word(LimitAnnouncement(ANT, 0.97, reset))
    assert SERVED.closed_gate(yard.config, yard.state, yard.now) is None and yard.cap == 8
    yard.word(LimitAnnouncement(ANT, 1.0, reset))
    closed = SERVED.closed_gate(yard.config, yard.state, yard.now)
    assert (closed.gate, closed.until, yard.cap) == ("limit", reset, 8)


def test_retry_after_closes_the_gate_until_then_and_keeps_the_cap():
    yard = settled(8)
    yard.limit(LIVE)
    until = yard.now + 4 * PAUSE
    yard.limit(LimitReport(ANT, Source.LIVE, Reason.BURST, until))
    yard.limit(LimitReport(ANT, Source.LIVE, Reason.BURST, yard.now + timedelta(seconds=1)))
    closed = SERVED.closed_gate(yard.config, yard.state, yard.now)
    assert (closed.gate, closed.until) == ("limit", until)
    for _ in range(2):
        minute(yard, 1, refusals=20)
    minute(yard, 12)
    # What was refused before and during the pause says nothing of how many there may be.
    assert yard.cap == 8 and breaker_state(yard) is BreakerState.CLOSED
    yard.live.pop()
    assert yard.start(BEE)


@pytest.mark.parametrize("hours", [1, 10, 24 * 400])
def test_a_clock_that_is_set_back_makes_no_wait_longer_than_it_was(hours):
    yard = settled(8)
    yard.limit(LimitReport(ANT, Source.LIVE, Reason.BURST, yard.now + timedelta(seconds=90)))
    yard.wait(-hours * 3600)
    yard.look()
    closed = SERVED.closed_gate(yard.config, yard.state, yard.now)
    assert (closed.gate, closed.until) == ("limit", yard.now + timedelta(seconds=90))
    yard.wait(90)
    assert SERVED.closed_gate(yard.config, yard.state, yard.now) is None


def test_nobody_answered_for_long_opens_the_breaker():
    yard = pool(8)
    deaf(yard)
    yard.live.clear()
    assert not yard.start(BEE)


def test_an_answer_in_between_keeps_it_closed():
    yard = pool(8)
    for _ in range(10):
        yard.limit(LIVE)
        yard.wait(50)
        yard.state = SERVED.on_answers(yard.config, yard.state, yard.now, BEE, 1)
    assert breaker_state(yard) is BreakerState.CLOSED


def test_an_answer_to_anybody_ends_the_break_and_one_may_try():
    yard = pool(8)
    deaf(yard)
    yard.state = SERVED.on_answers(yard.config, yard.state, yard.now, BEE, 1)
    yard.live.clear()
    assert breaker_state(yard) is BreakerState.HALF_OPEN
    assert yard.start(ANT) and not yard.start(BEE)


def probing() -> Pool:
    yard = pool(8)
    deaf(yard)
    yard.live.clear()
    yard.wait(300)
    assert yard.start(BEE)
    return yard


def test_the_probes_first_answer_closes_the_breaker_and_keeps_the_cap():
    yard = probing()
    yard.answer(BEE)
    assert breaker_state(yard) is BreakerState.CLOSED
    assert (yard.cap, yard.state.breaker_reopen_count) == (8, 0)


def test_a_probe_that_is_refused_and_lives_goes_on_trying():
    yard = probing()
    yard.limit(LimitReport(BEE, Source.LIVE, Reason.OVERLOAD))
    assert breaker_state(yard) is BreakerState.HALF_OPEN and yard.state.probe == BEE
    yard.die(BEE)
    assert (breaker_state(yard), yard.state.breaker_break_seconds) == (BreakerState.OPEN, 600)


@pytest.mark.parametrize(
    ("reached", "then"), [(True, BreakerState.CLOSED), (False, BreakerState.HALF_OPEN)]
)
def test_a_probe_that_ends_without_being_heard_of(reached, then):
    yard = probing()
    yard.end(BEE, reached=reached)
    assert breaker_state(yard) is then and yard.state.probe is None


@pytest.mark.parametrize("reason", [Reason.QUOTA, Reason.BILLING])
def test_used_up_windows_and_bills_are_left_to_the_parking(reason):
    yard = Pool(SERVED, PoolConfig(adaptive=True))
    yard.limit(LimitReport(ANT, Source.DEATH, reason))
    assert yard.state == PoolState()


def test_what_ran_while_nobody_looked_is_not_guessed():
    yard = settled(24)
    yard.limit(LIVE)
    yard.wait(600)
    yard.look()
    assert yard.cap == 24 and yard.state.window_refusals == 0


@given(config, traces)
def test_only_refusals_and_announcements_lower_the_cap(config, trace):
    calm = [(seconds, step) for seconds, step in trace if step[0] not in ("limit", "word")]
    yard = Pool(SERVED, config)
    cap = yard.cap
    for _ in yard.play(calm):
        yard.look()
        assert yard.cap >= cap
        cap = yard.cap


@given(st.integers(-5, 10**6), st.booleans())
def test_a_damaged_count_of_steps_does_no_harm(growth, told):
    yard = pool(8)
    yard.state = PoolState(
        growth=growth, announced_at=yard.now if told else None, sampled_at=yard.now
    )
    yard.look()
    assert 8 <= yard.cap <= 8 + MAX_STEP


def test_a_probe_that_ends_well_ends_the_deafness_too():
    """Nobody counted its answers; one refusal later must not be taken for a minute of silence."""
    yard = pool(4)
    for _ in range(4):
        yard.limit(LIVE)
        yard.wait(UNRESPONSIVE_AFTER.total_seconds() / 2)
    assert yard.state.breaker_state is BreakerState.OPEN
    yard.live = []
    yard.wait(300)
    assert yard.start(BEE)
    yard.end(BEE)
    yard.limit(LIVE)
    assert yard.state.breaker_state is BreakerState.CLOSED
