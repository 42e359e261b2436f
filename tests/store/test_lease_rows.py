"""Rows of leases, demand and parked pools, on both databases."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import update

from hostler.errors import StoreError
from hostler.store import governor as rows
from hostler.store.governor import (
    Claim,
    Demand,
    Holder,
    Lease,
    LeaseCounts,
    Parked,
    all_demand,
    claims,
    drop_demand,
    park_pool,
    parked_pool,
    parked_pools,
    put_demand,
    reduce_demand,
    renew_demand,
    unpark_pool,
)
from hostler.store.schema import leases as table

ADA = Holder("ada", "boot-1", "pid:[1]", 4_194_304, 2**40)
BOB = replace(ADA, pid=12)
AT, LATER = "2026-03-01T10:00:00.000Z", "2026-03-01T10:05:00.000Z"


def lease(name: str, project: str = "stable", pool: str = "anthropic", **more) -> Lease:
    given = {"holder": ADA, "acquired_at": AT, "seen_at": AT, **more}
    return Lease(name, pool, project, **given)


def test_a_lease_comes_back_as_it_was_stored(store):
    full = lease("run-1", task_id="t1", program="ä 100 %", model="m", engine_pid=7)
    with store.write("admission") as tx:
        rows.add_lease(tx, full)
        rows.add_lease(tx, lease("run-2", acquired_at=LATER))
        assert rows.find_lease(tx, "run-1") == full
        assert rows.find_lease(tx, "nobody") is None
        assert [one.lease for one in rows.all_leases(tx)] == ["run-1", "run-2"]


def test_a_lease_passes_to_another_process(store):
    with store.write("admission") as tx:
        rows.add_lease(tx, lease("run-1"))
        assert rows.set_lease_holder(tx, "run-1", BOB, LATER)
        assert not rows.set_lease_holder(tx, "nobody", BOB, LATER)
        found = rows.find_lease(tx, "run-1")
    assert found == replace(lease("run-1"), holder=BOB, attached_at=LATER, seen_at=LATER)


@pytest.mark.parametrize("field", ["host", "boot_id", "pid_namespace", "pid", "start_ticks"])
def test_a_lease_is_taken_only_from_the_holder_that_was_looked_at(store, field):
    other = replace(ADA, **{field: "other" if isinstance(getattr(ADA, field), str) else 1})
    with store.write("admission") as tx:
        rows.add_lease(tx, lease("run-1"))
        assert not rows.remove_lease_held_by(tx, "run-1", other)
        assert rows.remove_lease_held_by(tx, "run-1", ADA)
        assert not rows.remove_lease(tx, "run-1")


def test_leases_are_counted_by_pool_project_and_machine_and_lent_ones_are_not(store):
    with store.write("admission") as tx:
        for number, where in enumerate(["anthropic", "anthropic", "openai"]):
            rows.add_lease(tx, lease(f"a{number}", pool=where))
        rows.add_lease(tx, lease("b", "other", holder=replace(ADA, boot_id="elsewhere")))
        rows.add_lease(tx, lease("c", "third", holder=Holder()))
        assert rows.count_leases(tx, "anthropic", "stable", "boot-1") == LeaseCounts(4, 2, 3, 4)
        assert rows.count_leases(tx, "anthropic", "stable", None) == LeaseCounts(4, 2, 3, 0)
        assert rows.set_lease_released(tx, "a0", released=True)
        assert not rows.set_lease_released(tx, "a0", released=True)
        assert rows.count_leases(tx, "anthropic", "stable", "boot-1") == LeaseCounts(3, 1, 2, 3)
        assert rows.set_lease_released(tx, "a0", released=False)
        assert rows.count_leases(tx, "anthropic", "stable", "boot-1") == LeaseCounts(4, 2, 3, 4)


@pytest.mark.parametrize("boot_id", [None, "boot-1"])
def test_wishes_and_a_closing_are_counted_with_the_leases(store, boot_id):
    closing = Parked("anthropic", AT, LATER, "spent")
    with store.write("admission") as tx:
        for holder, wanted in ((ADA, 2), (BOB, None), (Holder(), 0)):
            put_demand(tx, Demand("anthropic", "stable", holder, AT, wanted))
        put_demand(tx, Demand("openai", "stable", ADA, AT, 2))
        park_pool(tx, closing)
        park_pool(tx, replace(closing, pool="google"))
        unpark_pool(tx, "google")
        assert rows.count_leases(tx, "anthropic", "x", boot_id) == LeaseCounts(
            0, 0, 0, 0, 2, closing
        )
        assert rows.count_leases(tx, "openai", "x", boot_id) == LeaseCounts(0, 0, 0, 0, 1, None)
        assert rows.count_leases(tx, "google", "x", boot_id) == LeaseCounts(0, 0, 0, 0, 0, None)


def test_a_lease_is_lent_or_not_and_never_something_else(store):
    with store.write("admission") as tx:
        rows.add_lease(tx, lease("a"))
    with pytest.raises(StoreError), store.write("admission") as tx:
        tx.execute(update(table).values(released=2))


def test_each_process_says_for_itself_what_it_wants(store):
    wish = Demand("anthropic", "stable", ADA, AT, wanted=3, weight=2, width=4)
    other = replace(wish, holder=BOB, wanted=None)
    with store.write("admission") as tx:
        rows.add_lease(tx, lease("a"))
        rows.add_lease(tx, lease("b", pool="openai"))
        for one in (replace(wish, wanted=9), other, replace(wish, pool="openai"), wish):
            put_demand(tx, one)
        found = claims(tx, "anthropic")
        assert sorted(found, key=lambda claim: claim.demand.holder.pid) == [
            Claim(other, 1, 2),
            Claim(wish, 1, 2),
        ]
        renew_demand(tx, wish, LATER)
        assert {one.updated_at for one in all_demand(tx)} == {AT, LATER}
        assert drop_demand(tx, wish)
        assert not drop_demand(tx, wish)
        assert all_demand(tx) == [other, replace(wish, pool="openai")]


def test_a_wish_gets_smaller_with_each_start_and_counts_no_more_after_the_last(store):
    wish = Demand("anthropic", "stable", ADA, AT, wanted=2)
    endless = replace(wish, project="other", wanted=None)
    with store.write("admission") as tx:
        put_demand(tx, wish)
        put_demand(tx, endless)
        for left in (1, 0, 0):
            reduce_demand(tx, wish)
            reduce_demand(tx, endless)
            assert all_demand(tx) == [endless, replace(wish, wanted=left)]
        assert [claim.demand for claim in claims(tx, "anthropic")] == [endless]


def test_a_parked_pool_is_opened_again(store):
    with store.write("admission") as tx:
        assert parked_pool(tx, "openai") is None
        park_pool(tx, Parked("openai", AT, AT, "first"))
        park_pool(tx, Parked("openai", AT, LATER, "second"))
        park_pool(tx, Parked("google", AT, LATER, ""))
        assert parked_pool(tx, "openai") == Parked("openai", AT, LATER, "second")
        assert [one.pool for one in parked_pools(tx)] == ["google", "openai"]
        assert unpark_pool(tx, "openai")
        assert not unpark_pool(tx, "openai")
        assert parked_pool(tx, "openai") is None
