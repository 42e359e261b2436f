"""Full disks, damaged rows and clocks that jump never widen what is admitted."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest
from database import Database
from governor_yard import Yard, process
from mounts import fill, read_only, small_disk
from sqlalchemy import update

from hostler.errors import HostlerError, StoreError, StoreFull
from hostler.governor.caps_file import set_caps
from hostler.governor.gates import UNTIL_RESUMED, Gate, LeaseDenied
from hostler.governor.holders import prune
from hostler.governor.leases import publish_demand
from hostler.governor.parking import park
from hostler.governor.policy import Policy
from hostler.governor.status import status
from hostler.model import parse_timestamp
from hostler.store.governor import find_lease
from hostler.store.schema import demand as demands
from hostler.store.schema import leases, pools

OTHER = process(2)
FAR = "9999-12-31T23:59:59.999Z"
OFF = ["", "yesterday", FAR, "2026-99-99T00:00:00.000Z", "12:00"]


@pytest.fixture
def yard(store) -> Yard:
    return Yard(store)


def gate(answer) -> Gate:
    assert isinstance(answer, LeaseDenied), answer
    return answer.gate


@pytest.mark.parametrize("text", OFF)
def test_a_lease_with_a_damaged_moment_stays_for_its_ttl_from_now(yard, clock, text):
    yard.take("a", "b", holder=OTHER)
    yard.unverified.add(OTHER)
    with yard.write() as tx:
        tx.execute(update(leases).values(seen_at=text, acquired_at=text))
    no = yard.request("c")
    assert gate(no) is Gate.CAP
    assert no.as_json()["found"] == 2
    with yard.write() as tx:
        prune(tx, yard.policy, yard.host())
        seen = parse_timestamp(find_lease(tx, "a").seen_at)
        assert abs(seen - tx.now()) < timedelta(minutes=1)
    with yard.store.read() as tx:
        assert status(tx, yard.policy, yard.host()).pools[0].active == 2


@pytest.mark.parametrize(
    ("text", "weight"), list(zip(OFF, [-1, 0, 1, 2**31 - 1, -(2**31)], strict=True))
)
def test_a_damaged_wish_takes_no_more_than_its_part(yard, text, weight):
    with yard.write() as tx:
        publish_demand(tx, "", "bee", yard.host(OTHER))
        tx.execute(update(demands).values(updated_at=text, weight=weight, width=-7))
    yard.policy = replace(yard.policy, default_cap=4)
    granted = sum(not isinstance(yard.request(f"a{number}"), LeaseDenied) for number in range(6))
    assert granted <= 2
    with yard.store.read() as tx:
        (pool,) = status(tx, yard.policy, yard.host()).pools
    assert sum(pool.shares.values()) <= 4


@pytest.mark.parametrize("text", OFF[1:])
def test_a_damaged_closing_keeps_the_pool_closed(yard, text):
    with yard.write() as tx:
        park(tx, "openai", tx.now() + timedelta(hours=1), "")
        tx.execute(update(pools).values(parked_until=text, parked_at=text))
        latest = tx.now() + timedelta(days=32)
    no = yard.request("a", pool="openai")
    assert gate(no) is Gate.PARKED
    assert no.opens_at <= latest


@pytest.mark.parametrize("text", OFF[1:])
def test_a_damaged_closing_ends_too(sqlite_store, clock, text):
    yard = Yard(sqlite_store)
    with yard.write() as tx:
        park(tx, "openai", tx.now() + timedelta(hours=1), "")
        tx.execute(update(pools).values(parked_until=text, parked_at=text))
        prune(tx, yard.policy, yard.host())
    clock.advance(timedelta(days=31).total_seconds())
    yard.take("a", pool="openai")


def test_a_clock_set_back_makes_no_closing_longer_than_it_was(sqlite_store, clock):
    yard = Yard(sqlite_store)
    with yard.write() as tx:
        park(tx, "openai", tx.now() + timedelta(minutes=5), "")
        park(tx, "google", UNTIL_RESUMED, "")
    clock.jump(-10 * 3600)
    no = yard.request("a", pool="openai")
    assert gate(no) is Gate.PARKED and no.opens_at == clock.now() + timedelta(minutes=5)
    with yard.write() as tx:
        prune(tx, yard.policy, yard.host())
    clock.advance(299)
    assert gate(yard.request("b", pool="openai")) is Gate.PARKED
    clock.advance(2)
    yard.take("c", pool="openai")
    assert gate(yard.request("d", pool="google")) is Gate.PARKED


@pytest.mark.parametrize("jump", [-10 * 365 * 86_400, -3600, 3600, 10 * 365 * 86_400])
def test_a_clock_that_jumps_takes_no_lease_from_the_living(sqlite_store, clock, jump):
    yard = Yard(sqlite_store)
    yard.take("a", "b", holder=OTHER)
    clock.jump(jump)
    with yard.write() as tx:
        prune(tx, yard.policy, yard.host())
    assert gate(yard.request("c")) is Gate.CAP
    clock.jump(-jump)
    with yard.write() as tx:
        prune(tx, yard.policy, yard.host())
    assert gate(yard.request("c")) is Gate.CAP


def test_a_clock_set_back_does_not_keep_the_unknown_for_ever(sqlite_store, clock):
    yard = Yard(sqlite_store)
    yard.take("a", "b", holder=OTHER)
    yard.unverified.add(OTHER)
    clock.jump(-86_400)
    assert gate(yard.request("c")) is Gate.CAP
    clock.advance(301)
    yard.take("c")


@pytest.fixture
def on_small_disk(tmp_path, leases_template):
    with small_disk(tmp_path / "disk", "2m") as disk:
        home = disk / "home"
        home.mkdir()
        shutil.copy(leases_template, home / leases_template.name)
        yield Database(home), disk


def test_a_full_disk_lets_nobody_in_whom_it_cannot_note(on_small_disk):
    database, disk = on_small_disk
    with closing(database.open()) as store:
        yard = Yard(store, Policy(default_cap=10_000))
        yard.take("before")
        filler = fill(disk)
        granted = {"before"}
        with pytest.raises(StoreFull):
            for number in range(10_000):
                yard.take(name := f"n{number}")
                granted.add(name)
        assert set(yard.leases()) == granted
        with pytest.raises(HostlerError, match="space"):
            set_caps(database.home, "", {"max_global_agents": 9})
        assert not (database.home / "governor.json").exists()
        filler.unlink()
        yard.take("after")
        assert set(yard.leases()) == granted | {"after"}


def test_a_read_only_disk_lets_nobody_in(on_small_disk):
    database, disk = on_small_disk
    with closing(database.open()) as store:
        Yard(store).take("before")
    with (
        read_only(disk),
        pytest.raises(StoreError),
        closing(database.open()) as store,
    ):
        Yard(store).request("never")
    with closing(database.open()) as store:
        assert Yard(store).leases() == ["before"]
