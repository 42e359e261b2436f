"""What `hostler doctor` says of the governor."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from hostler.clock import SystemClock
from hostler.governor import Ask, Policy, acquire, look_around, park
from hostler.governor.checks import leases_are_held, pools_are_open
from hostler.health import Context, Status
from hostler.store.leases import Holder

POLICY = Policy(memory_floor_mb=0)


@pytest.fixture
def context(sqlite_database) -> Context:
    return Context(sqlite_database.home, None, SystemClock())


def take(database, name: str, holder: Holder | None = None) -> None:
    here = look_around()
    with closing(database.open()) as store, store.write("admission") as tx:
        acquire(tx, Ask(name, "ant"), POLICY, replace(here, holder=holder or here.holder))


def statuses(check, context):
    return [(finding.status, finding.evidence) for finding in check(context)]


def test_leases_of_the_living_are_well(context, sqlite_database):
    assert statuses(leases_are_held, context) == [(Status.OK, "0 lease(s)")]
    take(sqlite_database, "a")
    assert statuses(leases_are_held, context) == [(Status.OK, "1 lease(s)")]
    assert statuses(pools_are_open, context) == [(Status.OK, "anthropic: 1 of 8 agents")]


def test_leases_of_the_dead_are_said_to_be_given_back(context, sqlite_database):
    take(sqlite_database, "a", replace(look_around().holder, start_ticks=1))
    (_, (status, evidence)) = statuses(leases_are_held, context)
    assert status is Status.WARNING
    assert evidence == "anthropic: the holders of a are dead"


def test_leases_that_nobody_can_verify_are_named(context, sqlite_database):
    take(sqlite_database, "far away", Holder("elsewhere", "theirs", "pid:[1]", 3, 4))
    ((status, evidence),) = statuses(leases_are_held, context)
    assert status is Status.WARNING
    assert "far away" in evidence


def test_closed_and_overfull_pools_are_worth_a_look(context, sqlite_database):
    take(sqlite_database, "a")
    take(sqlite_database, "b")
    (context.home / "governor.json").write_text('{"max_global_agents": 1}')
    with closing(sqlite_database.open()) as store, store.write("admission") as tx:
        park(tx, "openai", tx.now() + timedelta(hours=1), "")
    found = {finding.evidence.split(":")[0]: finding for finding in pools_are_open(context)}
    assert found["anthropic"].status is found["openai"].status is Status.WARNING
    assert "above its cap" in found["anthropic"].evidence
    assert "resume --provider openai" in found["openai"].remedy


@pytest.mark.parametrize("damage", ["governor.json", "hostler.toml"])
def test_what_cannot_be_read_is_left_to_others(context, damage):
    (context.home / damage).write_text("{")
    for check in (leases_are_held, pools_are_open):
        assert [finding.status for finding in check(context)] == [Status.SKIPPED]


def test_without_a_database_there_is_nothing_to_say(tmp_path: Path):
    context = Context(tmp_path, None, SystemClock())
    for check in (leases_are_held, pools_are_open):
        assert [finding.status for finding in check(context)] == [Status.SKIPPED]


def test_a_check_changes_nothing(context, sqlite_database):
    take(sqlite_database, "a", replace(look_around().holder, start_ticks=1))
    before = list(leases_are_held(context))
    assert list(leases_are_held(context)) == before
