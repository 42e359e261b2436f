"""Adaptive pools in the store: who gets in, what agents meet, and what stands after each."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from governor_yard import Yard, a_run, learning, process
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete

from hostler.governor.adaptive.controller import reset, reset_cap
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
from hostler.governor.gates import Gate, LeaseDenied, LeaseGranted, LeaseRequest
from hostler.governor.holders import prune
from hostler.governor.leases import (
    acquire,
    force_reacquire,
    preview,
    publish_demand,
    reacquire,
    release,
    release_lease,
    release_temporarily,
    restore_lease,
    width_warning,
)
from hostler.governor.parking import park, resume
from hostler.governor.policy import Policy
from hostler.governor.status import status
from hostler.store.governor import all_pool_states, find_pool_state, put_pool_state
from hostler.store.schema import leases, pools

BREAK, TIMEOUT = 300, 1800


@pytest.fixture
def yard(timed_store) -> Yard:
    return Yard(timed_store, learning(8))


@pytest.fixture
def lite(sqlite_store) -> Yard:
    return Yard(sqlite_store, learning(8))


def gate(answer):
    return answer.gate if isinstance(answer, LeaseDenied) else None


def ended(yard, name, task, *, reached=True, **news):
    """A run ends: its place is free, and its pool hears of it."""
    with yard.write() as tx:
        release(tx, a_run(name))
    yard.hear(task, ended=True, reached=reached, **news)


def opened(yard):
    """A pool at its floor that was refused once more."""
    with yard.write() as tx:
        put_pool_state(tx, "anthropic", dump_state(PoolState(dynamic_cap=1)))
    yard.dies("t0")
    assert yard.state().breaker_state is BreakerState.OPEN


def half_open(yard, clock):
    """The same, when its break is over."""
    opened(yard)
    clock.advance(BREAK)


# The cap.


def test_a_death_by_a_limit_halves_the_cap_of_its_pool(yard):
    yard.take(*(f"a{n}" for n in range(8)))
    assert gate(yard.request("more")) is Gate.CAP
    yard.dies("t1")
    assert yard.state().dynamic_cap == 4
    no = yard.request("more")
    # Nobody is interrupted: eight run on, and the cap binds the next start.
    assert (no.gate, no.found, no.allowed) == (Gate.CAP, 8, 4)
    assert len(yard.leases()) == 8


def test_the_cap_climbs_past_where_it_started_up_to_the_hard_max(yard, clock):
    yard.policy = learning(2, hard_max=4)
    yard.take("a", "b")
    assert gate(yard.request("c")) is Gate.CAP
    for name, most in (("c", 3), ("d", 4)):
        clock.advance(301 + 120)
        yard.take(name)
        assert yard.state().dynamic_cap == most
    clock.advance(3600)
    assert gate(yard.request("e")) is Gate.CAP


def test_what_time_has_changed_is_stored_by_a_denial_too(yard, clock):
    yard.policy = learning(1)
    yard.take("a", width=9)
    clock.advance(301)
    assert gate(yard.request("b", width=1)) is Gate.WIDTH
    assert yard.state().dynamic_cap == 2


def test_shares_and_warnings_are_of_the_learned_cap(yard):
    with yard.write() as tx:
        for project in ("ant", "bee"):
            publish_demand(tx, "", project, yard.host(process(2)))
    yard.dies("t1")
    yard.take("a", "b")
    no = yard.request("c")
    assert (no.gate, no.allowed) == (Gate.SHARE, 2)
    with yard.store.read() as tx:
        (pool,) = status(tx, yard.policy, yard.host()).pools
        warned = width_warning(tx, LeaseRequest("", "ant", width=3), yard.policy, yard.host())
    assert (pool.cap, dict(pool.shares)) == (4, {"ant": 2, "bee": 2})
    assert "cap 4 across 2 projects" in warned


def test_a_look_says_what_an_attempt_would_and_changes_nothing(yard, clock):
    yard.take("a")
    yard.dies("t1")
    clock.advance(10_000)
    with yard.store.read() as tx:
        before = all_pool_states(tx)
    for _ in range(2):
        with yard.store.read() as tx:
            assert preview(tx, LeaseRequest("b", "ant"), yard.policy, yard.host()) is None
            status(tx, yard.policy, yard.host())
            assert all_pool_states(tx) == before


# Pools.


def test_a_limit_in_one_pool_leaves_another_untouched(yard):
    yard.policy = learning(8, "anthropic", "openai")
    yard.take("x", pool="openai")
    there = yard.state("openai")
    for task in ("t1", "t2", "t3"):
        yard.dies(task)
    assert yard.state().rate_limit_events == 3
    assert yard.state("openai") == there
    yard.take(*(f"o{n}" for n in range(7)), pool="openai")
    assert gate(yard.request("o8", pool="openai")) is Gate.CAP


def test_an_open_breaker_of_one_pool_holds_nobody_back_in_another(yard):
    yard.policy = learning(8, "anthropic", "openai")
    opened(yard)
    assert gate(yard.request("a")) is Gate.BREAKER
    yard.take("o", pool="openai")


def test_an_empty_name_is_the_anthropic_pool_at_every_entry_point(yard):
    yard.take("a", pool="")
    yard.dies("t1", "")
    assert list(yard.state("anthropic").recent_decreases)
    with yard.write() as tx:
        reset_cap(tx, Policy(default_cap=5), "")
        assert find_pool_state(tx, "") == ""
    assert yard.state().dynamic_cap == 5
    with yard.write() as tx:
        assert reset(tx, "") and not reset(tx, "anthropic")
        restore_lease(tx, a_run("h", pool="", shim=process(5)))
        park(tx, "", tx.now() + timedelta(hours=1), "")
    no = yard.request("b", pool="")
    assert (no.gate, no.pool) == (Gate.PARKED, "anthropic")


def test_an_account_learns_for_itself_with_its_providers_knobs(yard):
    yard.take("a", pool="anthropic:work")
    yard.dies("t1", "anthropic:work")
    assert yard.state("anthropic:work").dynamic_cap == 4
    assert yard.state("anthropic") == PoolState()


# Off means off.

hostile = PoolState(
    dynamic_cap=1,
    breaker_state=BreakerState.OPEN,
    breaker_break_seconds=3600.0,
    rate_limit_events=9,
)


def test_adaptive_off_ignores_every_field_even_hand_set(yard, clock):
    far = clock.now() + timedelta(seconds=3000)
    known = replace(
        hostile,
        breaker_open_at=clock.now(),
        next_dispatch_at=far,
        settle_until=far,
        gate_until=far,
    )
    yard.policy = learning(2, adaptive=False)
    with yard.write() as tx:
        put_pool_state(tx, "anthropic", dump_state(known))
    yard.take("a", "b")
    assert gate(yard.request("c")) is Gate.CAP
    yard.dies("t1")
    yard.hear("t1", answers=3, ended=True, reached=True)
    assert yard.state() == known
    with yard.store.read() as tx:
        (pool,) = status(tx, yard.policy, yard.host()).as_json()["pools"]
    assert (pool["cap"], pool["adaptive"], pool["overlay"]) == (2, False, None)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from(["ant", "bee"]), st.integers(0, 3)),
        st.tuples(st.just("end"), st.integers(0, 9)),
        st.tuples(st.just("limit"), st.integers(0, 9)),
        st.tuples(st.just("lend"), st.integers(0, 9)),
        st.tuples(st.just("back"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.integers(1, 700)),
    ),
    max_size=20,
)


@given(steps, st.integers(1, 4), st.sampled_from(["", dump_state(hostile), "{", '{"probe": 1}']))
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_adaptive_off_decides_as_if_nothing_was_ever_learned(lite, clock, trace, cap, known):
    """The same random trace twice: with nothing stored, and with anything."""
    begun = clock.now()
    plain = played(lite, clock, trace, Policy(default_cap=cap), "")
    clock.jump((begun - clock.now()).total_seconds())
    config = PoolConfig(adaptive=False, hard_max=1, max_global=1)
    off = Policy(default_cap=cap, tuned={"anthropic": config})
    assert played(lite, clock, trace, off, known) == plain
    with lite.store.read() as tx:
        assert find_pool_state(tx, "anthropic") == known


def played(yard, clock, trace, policy, known):
    yard.policy = policy
    with yard.write() as tx:
        tx.execute(delete(leases))
        tx.execute(delete(pools))
        put_pool_state(tx, "anthropic", known)
    return [play(yard, clock, number, *step) for number, step in enumerate(trace)]


def play(yard, clock, number, act, *given):
    if act == "wait":
        clock.advance(*given)
    elif act == "ask":
        return yard.request(f"run-{number}", given[0], task_id=f"t{number}", width=given[1])
    elif act == "limit":
        yard.dies(f"t{given[0]}")
    elif (names := yard.leases()) and (name := names[given[0] % len(names)]):
        with yard.write() as tx:
            if act == "back":
                return reacquire(tx, LeaseRequest(name, "ant"), yard.policy, yard.host())
            return (
                release_lease(tx, name)
                if act == "end"
                else release_temporarily(tx, name, yard.policy)
            )
    return None


# The breaker.


def test_an_open_breaker_denies_every_lease_until_its_break_is_over(yard, clock):
    opened(yard)
    clock.advance(BREAK - 100)
    for project in ("ant", "bee"):
        no = yard.request("a", project)
        assert (no.gate, no.shared_by) == (Gate.BREAKER, "pool")
        assert no.opens_at - clock.now() == timedelta(seconds=100)
        assert no.since == yard.state().breaker_open_at
        assert "hostler governor reset" in no.remedy
    clock.advance(101)
    yard.take("a")


def test_half_open_admits_one_and_closes_on_its_clean_release(yard, clock):
    half_open(yard, clock)
    yard.take("p", task_id="t1")
    assert yard.state().probe == LeaseSlot("ant", "t1")
    assert gate(yard.request("q", "bee", task_id="t2")) is Gate.BREAKER
    ended(yard, "p", "t1")
    assert yard.state().breaker_state is BreakerState.CLOSED
    assert yard.state().dynamic_cap == 1
    yard.take("q", project="bee")
    assert gate(yard.request("r")) is Gate.CAP


def test_a_probe_that_dies_of_a_limit_opens_again_for_twice_as_long(yard, clock):
    half_open(yard, clock)
    yard.take("p", task_id="t1")
    with yard.write() as tx:
        release(tx, a_run("p"))
    yard.dies("t1")
    no = yard.request("q")
    assert no.opens_at - clock.now() == timedelta(seconds=2 * BREAK)
    assert yard.state().breaker_reopen_count == 1


def test_a_probe_that_never_reached_its_provider_closes_nothing(yard, clock):
    half_open(yard, clock)
    yard.take("p", task_id="t1")
    ended(yard, "p", "t1", reached=False)
    assert yard.state().breaker_state is BreakerState.HALF_OPEN
    yard.take("q", task_id="t2")
    assert yard.state().probe == LeaseSlot("ant", "t2")


def test_a_grant_that_is_undone_takes_its_probe_and_its_clock_back(yard, clock):
    half_open(yard, clock)
    before = yard.state()
    with pytest.raises(ZeroDivisionError), yard.write() as tx:
        answer = acquire(tx, LeaseRequest("p", "ant", task_id="t1"), yard.policy, yard.host())
        assert isinstance(answer, LeaseGranted)
        raise ZeroDivisionError
    assert yard.state() == before
    yard.take("q", task_id="t2")
    assert yard.state().probe == LeaseSlot("ant", "t2")


def test_a_crashed_probe_is_given_up_after_its_timeout(yard, clock):
    half_open(yard, clock)
    yard.take("p", task_id="t1", holder=process(7))
    clock.advance(TIMEOUT + 1)
    assert gate(yard.request("q")) is Gate.BREAKER
    # It lives: nobody gives it up.
    assert yard.state().probe is not None
    yard.dead.add(process(7))
    no = yard.request("q")
    assert no.opens_at - clock.now() == timedelta(seconds=2 * BREAK)
    with yard.store.read() as tx:
        assert (
            preview(tx, LeaseRequest("q", "ant"), yard.policy, yard.host()).opens_at == no.opens_at
        )
    clock.advance(2 * BREAK)
    yard.take("q")


def test_a_wrapped_program_that_is_gone_leaves_the_probe_to_another(yard, clock):
    half_open(yard, clock)
    yard.take("wrap-1", holder=process(7))
    assert gate(yard.request("q")) is Gate.BREAKER
    yard.dead.add(process(7))
    with yard.store.read() as tx:
        assert preview(tx, LeaseRequest("q", "ant"), yard.policy, yard.host()) is None
    yard.take("q")
    assert yard.state().probe == LeaseSlot("ant", "q")


@pytest.mark.parametrize("how", ["prune", "give_back"])
def test_the_place_of_a_program_that_ends_frees_the_probe(yard, clock, how):
    half_open(yard, clock)
    yard.take("wrap-1", holder=process(7))
    yard.dead.add(process(7))
    with yard.write() as tx:
        if how == "prune":
            prune(tx, yard.policy, yard.host())
        else:
            release_lease(tx, "wrap-1", yard.policy)
    assert yard.state().probe is None


def test_a_probe_that_waits_for_its_children_has_been_answered(yard, clock):
    half_open(yard, clock)
    yard.take("p", task_id="t1")
    with yard.write() as tx:
        assert release_temporarily(tx, "p", yard.policy)
    assert yard.state().breaker_state is BreakerState.CLOSED
    yard.take("child", task_id="t2")
    with yard.write() as tx:
        assert gate(reacquire(tx, LeaseRequest("p", "ant"), yard.policy, yard.host())) is Gate.CAP
        release(tx, a_run("child"))
        answer = reacquire(tx, LeaseRequest("p", "ant"), yard.policy, yard.host())
        assert isinstance(answer, LeaseGranted)


def test_those_who_pass_no_gate_are_no_probe(yard, clock):
    yard.take("lent")
    with yard.write() as tx:
        release_temporarily(tx, "lent", yard.policy)
    half_open(yard, clock)
    before = yard.state()
    with yard.write() as tx:
        restore_lease(tx, a_run("h", shim=process(5)))
        assert force_reacquire(tx, "lent")
    assert yard.state() == before


def test_a_lent_place_that_comes_back_is_a_start_like_any_other(yard, clock):
    yard.take("p", task_id="t1")
    with yard.write() as tx:
        release_temporarily(tx, "p", yard.policy)
    half_open(yard, clock)
    with yard.write() as tx:
        answer = reacquire(tx, LeaseRequest("p", "ant"), yard.policy, yard.host())
        assert isinstance(answer, LeaseGranted)
    assert yard.state().probe == LeaseSlot("ant", "t1")


# Spacing.


def test_a_second_start_inside_the_distance_is_denied_and_moves_no_clock(yard, clock):
    yard.policy = learning(8, min_dispatch_interval_seconds=3.0)
    yard.take("a")
    begun = yard.state()
    for _ in range(2):
        clock.advance(1)
        no = yard.request("b", "bee")
        assert (no.gate, no.shared_by) == (Gate.SPACING, "pool")
        assert no.opens_at == begun.next_dispatch_at
        assert yard.state() == begun
    clock.advance(1)
    yard.take("b")


@pytest.mark.parametrize(("roll", "seconds"), [(0.0, 1.5), (0.5, 3.0), (0.999, 4.497)])
def test_the_distance_is_jittered_by_half(yard, clock, roll, seconds):
    yard.policy, yard.roll = learning(8, min_dispatch_interval_seconds=3.0), roll
    yard.take("a")
    assert yard.state().next_dispatch_at == clock.now() + timedelta(seconds=seconds)


def test_spacing_is_the_last_gate(yard):
    yard.policy = learning(8, min_dispatch_interval_seconds=3.0)
    yard.take("a", width=1)
    assert gate(yard.request("b", width=1)) is Gate.WIDTH
    assert gate(yard.request("b")) is Gate.SPACING


def test_a_lent_place_that_comes_back_keeps_its_distance(yard, clock):
    yard.policy = learning(8, min_dispatch_interval_seconds=3.0)
    yard.take("a")
    with yard.write() as tx:
        release_temporarily(tx, "a", yard.policy)
        assert (
            gate(reacquire(tx, LeaseRequest("a", "ant"), yard.policy, yard.host())) is Gate.SPACING
        )
    clock.advance(3)
    with yard.write() as tx:
        reacquire(tx, LeaseRequest("a", "ant"), yard.policy, yard.host())
    assert gate(yard.request("b")) is Gate.SPACING


def test_a_clock_that_was_set_back_holds_nobody_for_a_day(yard, clock):
    """Services look before they ask: whoever looks after leases sets right what is too far off."""
    yard.policy = learning(8, min_dispatch_interval_seconds=3.0)
    yard.take("a")
    with yard.write() as tx:
        release_lease(tx, "a", yard.policy)
    clock.jump(-86_400)
    with yard.write() as tx:
        prune(tx, yard.policy, yard.host())
    clock.advance(5)
    with yard.store.read() as tx:
        assert preview(tx, LeaseRequest("b", "ant"), yard.policy, yard.host()) is None


# What else is heard.


@pytest.mark.parametrize("reason", [Reason.QUOTA, Reason.BILLING])
def test_walls_move_no_cap(yard, reason):
    yard.dies("t1", reason=reason)
    assert yard.state() == PoolState(last_probe_at=yard.state().last_probe_at)


def test_what_changes_nothing_is_not_written(lite, monkeypatch):
    word = LimitAnnouncement(LeaseSlot("ant", "t1"), 0.4)
    lite.hear("t1", answers=5)
    monkeypatch.setattr("hostler.governor.adaptive.controller.put_pool_state", None)
    lite.hear("t1", answers=5, announcements=(word,), ended=True, reached=True)


def test_who_looks_after_leases_notes_what_time_has_changed(yard, clock):
    yard.policy = learning(2)
    yard.take("a")
    clock.advance(301)
    with yard.write() as tx:
        prune(tx, yard.policy, yard.host())
    assert yard.state().dynamic_cap == 3


def test_an_operators_cap_starts_anew_and_keeps_what_was_met(yard):
    yard.dies("t1")
    before = yard.state()
    with yard.write() as tx:
        reset_cap(tx, Policy(default_cap=6), "anthropic")
        now = tx.now()
    assert yard.state() == replace(before, dynamic_cap=6, last_probe_at=now)


def test_an_operators_cap_holds_after_any_quiet_time_before_it(yard, clock):
    """It grows from the moment in which it was set, not from the last growth long ago."""
    yard.policy = learning(8)
    yard.take("a")
    clock.advance(24 * 3600)
    with yard.write() as tx:
        reset_cap(tx, Policy(default_cap=2), "anthropic")
        prune(tx, yard.policy, yard.host())
    assert yard.state().dynamic_cap == 2
    clock.advance(301)
    with yard.write() as tx:
        prune(tx, yard.policy, yard.host())
    assert yard.state().dynamic_cap == 3


def test_forgetting_a_pool_leaves_its_closing(yard):
    yard.dies("t1")
    with yard.write() as tx:
        park(tx, "anthropic", tx.now() + timedelta(hours=1), "spent")
        assert reset(tx, "anthropic")
    assert yard.state() == PoolState()
    assert gate(yard.request("a")) is Gate.PARKED


def test_the_path_of_a_fixed_pool_has_no_statement_more(lite):
    counted = []

    def statements(policy):
        counted.clear()
        with lite.write() as tx:
            once = tx.constant

            def counting(sql, values=()):
                counted.append(sql)
                return once(sql, values)

            tx.constant = counting
            acquire(tx, LeaseRequest(f"run-{policy.is_any_adaptive}", "ant"), policy, lite.host())
        return list(counted)

    fixed = statements(Policy())
    assert len(fixed) == 2
    assert statements(learning(8, "openai")) == fixed


# What is measured.


@pytest.mark.parametrize("seconds", [30.0, 59.9, 60.2, 100.0])
def test_refusals_count_however_seldom_anybody_looks(timed_store, clock, seconds):
    """A service looks once a minute, and a little later each time."""
    yard = Yard(timed_store, learning(8, policy="served"))
    yard.take("a0", "a1")
    for number in range(8):
        with yard.write() as tx:
            prune(tx, yard.policy, yard.host())
        clock.advance(seconds)
        limit = LimitReport(LeaseSlot("ant", f"t{number}"), Source.DEATH, Reason.BURST)
        yard.hear(f"t{number}", limits=(limit,), answers=3, ended=True, reached=True)
        clock.advance(seconds)
    assert yard.state().dynamic_cap in (1, 2, 3, 4)
    assert yard.state().rate_limit_events == 8


def test_a_probe_that_ends_well_after_hours_closes_the_breaker(yard, clock):
    half_open(yard, clock)
    yard.take("probe", task_id="t9")
    clock.advance(4 * TIMEOUT)
    ended(yard, "probe", "t9", answers=3)
    assert yard.state().breaker_state is BreakerState.CLOSED


def test_an_operator_opens_what_a_provider_asked_to_wait_for(timed_store, clock):
    yard = Yard(timed_store, learning(8, policy="served"))
    until = clock.now() + timedelta(hours=4)
    limit = LimitReport(LeaseSlot("ant", "t1"), Source.DEATH, Reason.BURST, until)
    yard.hear("t1", limits=(limit,), ended=True)
    assert gate(yard.request("more")) is Gate.LIMIT
    with yard.write() as tx:
        assert resume(tx, "") and not resume(tx, "")
    assert gate(yard.request("more")) is None
    # What was learned stays.
    assert yard.state().rate_limit_events == 1


def test_a_wrapped_program_that_is_the_probe_keeps_nobody_out_for_ever(yard, clock):
    yard.policy = learning(1)
    yard.dies("t1")
    clock.advance(301)
    yard.take("wrapped")
    assert gate(yard.request("b")) is Gate.BREAKER
    clock.advance(31 * 60)
    with yard.write() as tx:
        prune(tx, yard.policy, yard.host())
    assert yard.state().breaker_state is BreakerState.CLOSED and yard.state().dynamic_cap == 1
