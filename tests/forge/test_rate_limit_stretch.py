"""By how much polls pause longer: bounds, order, smoothness, and coming to rest."""

from __future__ import annotations

from math import inf, isfinite

from hypothesis import assume, given
from hypothesis import strategies as st

from hostler.forge.github.rate_limit.accounts import RateLimitAccount
from hostler.forge.github.rate_limit.limits import (
    IDLE_FIRST,
    MAX_STRETCH,
    ReportedLimit,
    RequestCaps,
    RequestKind,
    active_stretch,
    hour_pressure,
    idle_stretch,
    minute_pressure,
)

RATES = st.floats(0, 1e6)
LEFT = st.floats(-1e6, 1e6)
SECONDS = st.floats(0, 3600)
PRESSURES = st.floats(0, 1e9) | st.just(inf)


@given(PRESSURES)
def test_a_stretch_is_finite_at_least_one_and_more_for_idle_ones(pressure):
    idle = idle_stretch(pressure)
    active = active_stretch(idle)
    assert isfinite(idle)
    assert 1.0 <= active <= idle <= MAX_STRETCH


@given(st.floats(0, 1))
def test_with_plenty_nobody_waits(pressure):
    assert idle_stretch(pressure) == active_stretch(idle_stretch(pressure)) == 1.0


@given(st.floats(1, IDLE_FIRST))
def test_idle_ones_wait_before_any_active_one_does(pressure):
    assert idle_stretch(pressure) == pressure
    assert active_stretch(pressure) == 1.0


@given(PRESSURES, PRESSURES)
def test_stretches_grow_with_the_pressure(one, other):
    low, high = sorted((one, other))
    assert idle_stretch(low) <= idle_stretch(high)
    assert active_stretch(idle_stretch(low)) <= active_stretch(idle_stretch(high))


@given(RATES, RATES, LEFT, LEFT, SECONDS, SECONDS)
def test_the_hour_presses_more_with_demand_scarcity_and_a_later_reset(a, b, c, d, e, f):
    (calm, busy), (poor, rich), (soon, late) = sorted((a, b)), sorted((c, d)), sorted((e, f))
    assert hour_pressure(calm, rich, soon) <= hour_pressure(busy, poor, late)


@given(RATES, RATES, st.integers(9, 900), st.integers(0, 900), st.integers(0, 900))
def test_the_minute_presses_more_with_demand_and_writes(a, b, share, c, d):
    (calm, busy), (few, many) = sorted((a, b)), sorted((c, d))
    assert minute_pressure(calm, share, few) <= minute_pressure(busy, share, many)


@given(st.floats(0.001, 100), st.floats(1, 4000), st.floats(61, 3599))
def test_a_little_less_is_a_little_more_stretch(demand, left, seconds):
    """No steps: one request more or less changes a stretch by that share of it."""
    here = idle_stretch(hour_pressure(demand, left, seconds))
    there = idle_stretch(hour_pressure(demand, left * 0.999, seconds - 1e-3))
    assert abs(there - here) <= 0.002 * here


@given(st.floats(0.01, 50), st.floats(0.01, 50), st.floats(0.1, 50))
def test_polls_come_to_rest_from_one_side_where_they_spend_what_they_may(active, idle, allowed):
    """The loop itself: demand is counted with the stretch in force, the stretch follows from it."""
    stretch, seen = 1.0, [1.0]
    for _ in range(400):
        spent = active / active_stretch(stretch) + idle / stretch
        stretch += 0.2 * (idle_stretch(spent * stretch / allowed) - stretch)
        seen.append(stretch)
    assert seen == sorted(seen), "it swings"
    spent = active / active_stretch(stretch) + idle / stretch
    if active + idle <= allowed:
        assert stretch == 1.0
    # An active repository whose own demand comes near what is allowed takes long.
    assume(stretch < MAX_STRETCH * 0.99 and abs(active - allowed) > 0.1 * allowed)
    assert spent <= allowed * 1.02


def spending(requests, *, seconds=600.0, status=200, remaining=5000):
    """An account after some polls, evenly over a time, of an hour that began with them."""
    account = RateLimitAccount(RequestCaps())
    for number in range(requests):
        now = seconds * number / requests
        account.start_request(RequestKind.READ, now)
        remaining -= status != 304
        account.record_answer(
            RequestKind.READ, status, ReportedLimit(5000, max(remaining, 0), 3600.0 - now), now
        )
        account.end_request(RequestKind.READ, now, sent=True)
    return account


def test_unchanged_pages_cost_nothing_of_the_hour():
    assert spending(1000, status=304).stretch(600.0) == 1.0
    assert spending(3000).stretch(600.0) > 5


@given(st.integers(0, 4000), st.integers(0, 4000))
def test_who_has_spent_more_stretches_more(one, other):
    low, high = sorted((one // 20, other // 20))
    assume(high > low)
    assert spending(low).stretch(600.0) <= spending(high).stretch(600.0)
    assert spending(low, remaining=4000).stretch(600.0) >= spending(low).stretch(600.0)


def test_a_reset_restores():
    account = spending(3400)
    before = account.stretch(600.0)
    assert account.stretch(600.0, active=True) > 1
    assert account.stretch(3601.0) < before
    assert account.stretch(3601.0 + 1800) == 1.0


def test_an_account_that_has_nothing_left_for_polls_stretches_as_far_as_it_may():
    assert spending(10, remaining=1300).stretch(600.0) == MAX_STRETCH


def test_writes_press_on_polls():
    account = spending(2000, status=304)
    before = account.stretch(600.0)
    for _ in range(120):
        account.start_request(RequestKind.WRITE, 600.0)
        account.record_answer(RequestKind.WRITE, 200, ReportedLimit(5000, 5000, 3000.0), 600.0)
        account.end_request(RequestKind.WRITE, 600.0, sent=True)
    assert before == 1.0 < account.stretch(600.0)
    assert account.stretch(661.0) == 1.0
