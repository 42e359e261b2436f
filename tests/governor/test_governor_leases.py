"""Leases and demand on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from governor_yard import Yard, a_run, process

from hostler.governor.gates import Gate, LeaseDenied, LeaseGranted, LeaseRequest
from hostler.governor.holders import prune
from hostler.governor.leases import (
    LeaseLost,
    attach,
    drop_demand,
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
from hostler.model import parse_timestamp
from hostler.store.governor import Holder, all_demand, find_lease
from hostler.store.runs import RunState, add_run, change_run

ME, SHIM, OTHER = process(1), process(2), process(3)


@pytest.fixture
def yard(store) -> Yard:
    return Yard(store)


def gate(answer) -> Gate:
    assert isinstance(answer, LeaseDenied), answer
    return answer.gate


def test_a_pool_takes_as_many_as_its_cap_and_one_more_when_one_is_given_back(yard):
    yard.take("a", "b")
    no = yard.request("c")
    assert (gate(no), no.found, no.allowed, no.shared_by) == (Gate.CAP, 2, 2, "pool")
    with yard.write() as tx:
        release(tx, a_run("a"))
        release(tx, a_run("a"))
    yard.take("c")
    assert sorted(yard.leases()) == ["b", "c"]


def test_an_empty_pool_is_the_default_one_everywhere(yard):
    yard.take("a")
    yard.take("b", pool="anthropic")
    assert gate(yard.request("c", pool=" ")) is Gate.CAP
    with yard.write() as tx:
        publish_demand(tx, "", "ant", yard.host(), wanted=1)
        park(tx, "", tx.now() + timedelta(hours=1), "")
        assert [demand.pool for demand in all_demand(tx)] == ["anthropic"]
        assert resume(tx, "anthropic")
        restore_lease(tx, a_run("h", shim=SHIM))
        assert find_lease(tx, "h").pool == "anthropic"


def test_pools_know_nothing_of_each_other(yard):
    yard.take("a", "b")
    yard.take("c", "d", pool="openai")
    with yard.write() as tx:
        publish_demand(tx, "google", "bee", yard.host(OTHER))
    assert gate(yard.request("e", pool="openai")) is Gate.CAP
    yard.take("f", "g", pool="google:work")


def test_the_machine_bears_no_more_than_its_ceiling_over_all_pools(yard):
    yard.policy = replace(yard.policy, machine_max_agents=3)
    yard.take("a", "b")
    yard.take("c", pool="openai", holder=Holder())
    no = yard.request("d", pool="openai")
    assert (gate(no), no.found, no.allowed, no.shared_by) == (Gate.MACHINE, 3, 3, "machine")
    # On another machine there is room.
    yard.take("d", pool="openai", holder=process(9, boot_id="boot-2"))


def test_nothing_starts_without_memory_and_an_unknown_amount_stops_nothing(yard):
    yard.free_mb = 1023
    no = yard.request("a")
    assert (gate(no), no.found, no.allowed) == (Gate.MEMORY, 1023, 1024)
    yard.free_mb = None
    yard.take("a")
    yard.free_mb, yard.policy = 0, replace(yard.policy, memory_floor_mb=0)
    yard.take("b")


def test_a_project_keeps_to_its_width_over_all_pools(yard):
    yard.take("a", width=2)
    yard.take("b", pool="openai", width=2)
    no = yard.request("c", pool="google", width=2)
    assert (gate(no), no.found, no.allowed, no.shared_by) == (Gate.WIDTH, 2, 2, "project")
    yard.take("d", project="bee", pool="google", width=2)


def test_who_wants_a_slot_has_it_kept(yard, clock):
    with yard.write() as tx:
        publish_demand(tx, "", "bee", yard.host(OTHER), wanted=5)
    yard.take("a")
    no = yard.request("b")
    assert (gate(no), no.found, no.allowed, no.shared_by) == (Gate.SHARE, 1, 1, "project")
    with yard.write() as tx:
        drop_demand(tx, "", "bee", yard.host(OTHER))
    yard.take("b")


def test_what_nobody_wants_is_lent_to_others(yard):
    yard.policy = replace(yard.policy, default_cap=6)
    with yard.write() as tx:
        publish_demand(tx, "", "bee", yard.host(OTHER), wanted=1)
    yard.take("a1", "a2", "a3", "a4", "a5")
    assert gate(yard.request("a6")) is Gate.SHARE
    yard.take("b1", project="bee")


def test_a_width_limits_what_is_kept(yard):
    yard.policy = replace(yard.policy, default_cap=6)
    with yard.write() as tx:
        publish_demand(tx, "", "bee", yard.host(OTHER), width=2)
    yard.take("b1", project="bee", pool="openai")
    yard.take("a1", "a2", "a3", "a4", "a5")
    assert gate(yard.request("a6")) is Gate.SHARE


def test_a_start_takes_one_off_the_wish_of_whoever_asked(yard):
    yard.policy = replace(yard.policy, default_cap=9)
    with yard.write() as tx:
        publish_demand(tx, "", "ant", yard.host(ME), wanted=2)
        publish_demand(tx, "", "ant", yard.host(OTHER), wanted=2)
    yard.take("a", "b", "c", holder=ME)
    with yard.write() as tx:
        assert {demand.holder: demand.wanted for demand in all_demand(tx)} == {ME: 0, OTHER: 2}
        prune(tx, yard.policy, yard.host())
        assert {demand.holder: demand.wanted for demand in all_demand(tx)} == {OTHER: 2}


def test_a_wish_that_is_not_renewed_keeps_nothing(yard, clock):
    with yard.write() as tx:
        publish_demand(tx, "", "bee", yard.host(OTHER))
    yard.take("a")
    assert gate(yard.request("b")) is Gate.SHARE
    clock_of_the_yard(yard, clock, 601)
    yard.take("b")


def clock_of_the_yard(yard, clock, seconds):
    """Let time pass; a server has a clock of its own, and is told by old rows."""
    from sqlalchemy import update

    from hostler.model import format_timestamp
    from hostler.store.schema import demand as demands
    from hostler.store.schema import leases

    clock.advance(seconds)
    with yard.write() as tx:
        if not tx.on_postgres:
            return
        old = format_timestamp(tx.now() - timedelta(seconds=seconds))
        tx.execute(update(leases).values(seen_at=old, acquired_at=old))
        tx.execute(update(demands).values(updated_at=old))


def test_a_wish_of_a_dead_process_keeps_nothing(yard):
    with yard.write() as tx:
        publish_demand(tx, "", "bee", yard.host(OTHER))
    yard.take("a")
    yard.dead.add(OTHER)
    yard.take("b")
    with yard.write() as tx:
        assert all_demand(tx) == []


def test_the_dead_give_their_leases_back_before_anybody_is_refused(yard):
    yard.take("a", "b", holder=OTHER)
    assert gate(yard.request("c")) is Gate.CAP
    yard.dead.add(OTHER)
    yard.take("c", "d")
    assert sorted(yard.leases()) == ["c", "d"]


def test_a_live_holder_keeps_its_lease_for_ever(yard, clock):
    yard.take("a", "b", holder=OTHER)
    clock_of_the_yard(yard, clock, 10 * 86_400)
    with yard.write() as tx:
        prune(tx, yard.policy, yard.host())
    assert gate(yard.request("c")) is Gate.CAP


def test_a_lease_of_which_nobody_knows_ends_with_its_ttl(yard, clock):
    yard.take("a", "b", holder=OTHER)
    yard.unverified.add(OTHER)
    clock_of_the_yard(yard, clock, 290)
    assert gate(yard.request("c")) is Gate.CAP
    clock_of_the_yard(yard, clock, 300)
    yard.take("c")
    assert yard.leases() == ["c"]


def test_whoever_sees_the_holder_keeps_the_lease_for_those_who_do_not(yard, clock):
    yard.take("a", "b", holder=OTHER)
    for _ in range(4):
        clock_of_the_yard(yard, clock, 200)
        with yard.write() as tx:
            prune(tx, yard.policy, yard.host())
    yard.unverified.add(OTHER)
    clock_of_the_yard(yard, clock, 200)
    assert gate(yard.request("c")) is Gate.CAP


def test_a_lease_passes_to_the_shim_and_ends_with_it(yard):
    yard.take("a")
    with yard.write() as tx:
        attach(tx, a_run("a", shim=SHIM))
        lease = find_lease(tx, "a")
    assert (lease.holder, lease.engine_pid) == (SHIM, ME.pid)
    assert lease.attached_at is not None
    yard.dead.add(ME)
    with yard.write() as tx:
        assert prune(tx, yard.policy, yard.host(OTHER)).ended == ()
        yard.dead.add(SHIM)
        assert [one.lease for one in prune(tx, yard.policy, yard.host(OTHER)).ended] == ["a"]
    assert yard.leases() == []


def under_a_killed_shim(yard, *names) -> None:
    """Runs that are not over, though nobody watches their agents any more."""
    yard.take(*names)
    with yard.write() as tx:
        for name in names:
            add_run(tx, replace(a_run(name, shim=SHIM), state=RunState.RUNNING))
            attach(tx, a_run(name, shim=SHIM))
    yard.dead.add(SHIM)


def test_what_a_killed_shim_left_behind_keeps_its_place_until_its_run_is_over(yard):
    under_a_killed_shim(yard, "a", "b")
    with yard.write() as tx:
        assert prune(tx, yard.policy, yard.host()).ended == ()
    assert gate(yard.request("c")) is Gate.CAP
    with yard.write() as tx:
        over = {"state": RunState.EXITED.value}
        assert change_run(tx, "a", fence=1, states=[RunState.RUNNING], values=over)
        release(tx, a_run("a"))
    yard.take("c")
    assert sorted(yard.leases()) == ["b", "c"]


def test_a_run_that_nobody_takes_up_keeps_its_place_no_longer_than_the_ttl(yard, clock):
    under_a_killed_shim(yard, "a", "b")
    clock_of_the_yard(yard, clock, 290)
    assert gate(yard.request("c")) is Gate.CAP
    clock_of_the_yard(yard, clock, 300)
    yard.take("c", "d")
    assert sorted(yard.leases()) == ["c", "d"]


def test_no_agent_starts_whose_lease_is_gone(yard):
    with pytest.raises(LeaseLost), yard.write() as tx:
        attach(tx, a_run("a", shim=SHIM))


@pytest.mark.parametrize(
    "shim", [None, "{}", "[]", '{"pid": 3}', '{"host": "h", "boot_id": "b", "pid_namespace": "p",'
             ' "pid": "3", "start_ticks": 4}']
)  # fmt: skip
def test_no_agent_starts_whose_supervisor_is_unknown(yard, shim):
    yard.take("a")
    with pytest.raises(LeaseLost), yard.write() as tx:
        attach(tx, replace(a_run("a"), shim=shim))
    with yard.write() as tx:
        assert find_lease(tx, "a").holder == ME


def test_a_live_run_without_a_lease_gets_one_past_all_gates(yard):
    yard.take("a", "b")
    with yard.write() as tx:
        restore_lease(tx, a_run("c", shim=SHIM))
        restore_lease(tx, a_run("c", shim=SHIM))
        lease = find_lease(tx, "c")
    assert (lease.holder, lease.project) == (SHIM, "ant")
    assert gate(yard.request("d")) is Gate.CAP
    with yard.write() as tx:
        release_lease(tx, "a")
    # Still above the cap, or at it: nothing is granted until below.
    assert gate(yard.request("d")) is Gate.CAP


def test_a_lent_place_is_free_for_others_and_comes_back_through_the_gates(yard):
    yard.policy = Policy(default_cap=1, machine_max_agents=1)
    yard.take("parent", width=1)
    with yard.write() as tx:
        assert release_temporarily(tx, "parent")
        assert not release_temporarily(tx, "parent")
    yard.take("child", width=1)
    back = LeaseRequest("parent", "ant", width=1)
    with yard.write() as tx:
        assert gate(reacquire(tx, back, yard.policy, yard.host())) is Gate.MACHINE
        release_lease(tx, "child")
        assert reacquire(tx, back, yard.policy, yard.host()) == LeaseGranted("parent", "anthropic")
        assert reacquire(tx, back, yard.policy, yard.host()) == LeaseGranted("parent", "anthropic")
    assert gate(yard.request("child", width=1)) is Gate.MACHINE
    with pytest.raises(LeaseLost), yard.write() as tx:
        reacquire(tx, LeaseRequest("nobody", "ant"), yard.policy, yard.host())


def test_a_parked_pool_opens_at_its_moment(yard, clock):
    with yard.write() as tx:
        until = tx.now() + timedelta(hours=1)
        park(tx, "openai", until, "The window is spent.")
    no = yard.request("a", pool="openai")
    assert (gate(no), no.opens_at) == (Gate.PARKED, until)
    assert "The window is spent." in no.what
    assert no.since is not None
    yard.take("a")
    with yard.write() as tx:
        assert resume(tx, "openai")
        assert not resume(tx, "openai")
    yard.take("b", pool="openai")


def test_a_shorter_word_does_not_open_a_pool_earlier_and_a_longer_one_keeps_its_begin(yard, clock):
    with yard.write() as tx:
        until = tx.now() + timedelta(hours=1)
        park(tx, "openai", until, "The window is spent.")
    first = yard.request("a", pool="openai")
    clock.advance(60)
    with yard.write() as tx:
        park(tx, "openai", tx.now() + timedelta(seconds=1), "Slowly.")
    no = yard.request("a", pool="openai")
    assert (no.opens_at, no.what, no.since) == (until, first.what, first.since)
    with yard.write() as tx:
        park(tx, "openai", until + timedelta(hours=1), "The week is spent.")
    no = yard.request("a", pool="openai")
    assert no.opens_at == until + timedelta(hours=1)
    assert "The week is spent." in no.what and no.since == first.since


def test_no_word_closes_a_pool_for_more_than_a_month(yard):
    with yard.write() as tx:
        park(tx, "openai", tx.now() + timedelta(days=9999), "")
        now = tx.now()
    assert yard.request("a", pool="openai").opens_at <= now + timedelta(days=32)


def test_a_no_says_since_when(yard):
    yard.take("a", "b", width=2)
    with yard.store.read() as tx:
        newest = parse_timestamp(max(find_lease(tx, name).acquired_at for name in "ab"))
    assert yard.request("c").since == newest
    yard.policy = replace(yard.policy, default_cap=9)
    assert yard.request("c", width=2).since == newest


def test_a_preview_answers_as_acquire_would_and_changes_nothing(yard):
    request = LeaseRequest("c", "ant")
    with yard.store.read() as tx:
        assert preview(tx, request, yard.policy, yard.host()) is None
    yard.take("a", "b", holder=OTHER)
    with yard.store.read() as tx:
        no = preview(tx, request, yard.policy, yard.host())
    assert no == yard.request("c")
    yard.dead.add(OTHER)
    with yard.store.read() as tx:
        assert preview(tx, request, yard.policy, yard.host()) is None
    assert sorted(yard.leases()) == ["a", "b"]


def test_a_project_that_is_too_wide_is_warned_of(yard):
    yard.policy = replace(yard.policy, default_cap=8)
    with yard.write() as tx:
        publish_demand(tx, "", "bee", yard.host(OTHER))
        publish_demand(tx, "", "ant", yard.host())
        assert width_warning(tx, LeaseRequest("", "ant", width=4), yard.policy, yard.host()) is None
        said = width_warning(tx, LeaseRequest("", "ant", width=5), yard.policy, yard.host())
    assert "width 5" in said
    assert "is 4 (cap 8 across 2 projects)" in said


def test_status_shows_every_pool_that_is_named_used_or_wanted(yard):
    yard.policy = replace(yard.policy, caps={"openai": 5})
    yard.take("a", "gone", holder=OTHER)
    yard.take("o", pool="openai", holder=ME)
    yard.dead.add(OTHER)
    with yard.write() as tx:
        publish_demand(tx, "google", "bee", yard.host(), wanted=3, weight=2)
        park(tx, "xai", tx.now() + timedelta(hours=1), "")
        restore_lease(tx, a_run("u", shim=SHIM))
        release_temporarily(tx, "u")
        yard.unverified.add(SHIM)
    with yard.store.read() as tx:
        found = status(tx, yard.policy, yard.host())
    pools = {pool.pool: pool for pool in found.pools}
    assert list(pools) == ["anthropic", "google", "openai", "xai"]
    assert (pools["openai"].cap, pools["openai"].active, pools["openai"].free) == (5, 1, 4)
    assert (pools["anthropic"].active, pools["anthropic"].free) == (0, 2)
    assert pools["google"].shares == {"bee": 2}
    assert pools["xai"].parked is not None
    assert {lease.lease for lease in found.ended} == {"a", "gone"}
    assert found.unverified == {"u"}
    assert found.on_machine == 1
    told = found.as_json()["pools"][0]["leases"][0]
    assert (told["lease"], told["released"], told["verified"]) == ("u", True, False)
