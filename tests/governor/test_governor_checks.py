"""What `hostler doctor` says of the governor."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from hostler.clock import FakeClock, SystemClock
from hostler.governor.adaptive.model import BreakerState, LeaseSlot, PoolState
from hostler.governor.adaptive.state import dump_state
from hostler.governor.checks import breakers_are_closed, caps_move, leases_are_held, pools_are_open
from hostler.governor.gates import UNTIL_RESUMED, LeaseRequest
from hostler.governor.holders import read_host
from hostler.governor.leases import acquire, publish_demand
from hostler.governor.parking import park
from hostler.governor.policy import Policy
from hostler.health import CheckContext, CheckStatus
from hostler.store.governor import Holder, put_pool_state

POLICY = Policy(memory_floor_mb=0)
# For these tests no time passes, however long ago this was.
NOW = SystemClock().now()


@pytest.fixture
def context(sqlite_database) -> CheckContext:
    return CheckContext(sqlite_database.home, None, FakeClock(NOW))


def take(database, name: str, holder: Holder | None = None) -> None:
    host = read_host()
    with closing(database.open()) as store, store.write("admission") as tx:
        acquire(tx, LeaseRequest(name, "ant"), POLICY, replace(host, holder=holder or host.holder))


def statuses(check, context):
    return [(finding.status, finding.evidence) for finding in check(context)]


def test_leases_of_the_living_are_well(context, sqlite_database):
    assert statuses(leases_are_held, context) == [(CheckStatus.OK, "0 leases")]
    take(sqlite_database, "a")
    assert statuses(leases_are_held, context) == [(CheckStatus.OK, "1 lease")]
    assert statuses(pools_are_open, context) == [(CheckStatus.OK, "anthropic: 1 of 8 agents")]


def test_leases_of_the_dead_are_said_to_be_given_back(context, sqlite_database):
    take(sqlite_database, "a", replace(read_host().holder, start_ticks=1))
    (_, (status, evidence)) = statuses(leases_are_held, context)
    assert status is CheckStatus.WARNING
    assert evidence == "anthropic: the holders of a are dead"


def test_leases_that_nobody_can_verify_are_named(context, sqlite_database):
    take(sqlite_database, "far away", Holder("elsewhere", "theirs", "pid:[1]", 3, 4))
    ((status, evidence),) = statuses(leases_are_held, context)
    assert status is CheckStatus.WARNING
    assert "far away" in evidence


def test_closed_and_overfull_pools_are_worth_a_look(context, sqlite_database):
    take(sqlite_database, "a")
    take(sqlite_database, "b")
    (context.home / "governor.json").write_text('{"max_global_agents": 1}')
    with closing(sqlite_database.open()) as store, store.write("admission") as tx:
        park(tx, "openai", tx.now() + timedelta(hours=1), "")
    found = {finding.evidence.split(":")[0]: finding for finding in pools_are_open(context)}
    assert found["anthropic"].status is found["openai"].status is CheckStatus.WARNING
    assert "above its cap" in found["anthropic"].evidence
    assert "resume --provider openai" in found["openai"].remedy


@pytest.mark.parametrize("damage", ["governor.json", "hostler.toml"])
def test_what_cannot_be_read_is_left_to_others(context, damage):
    (context.home / damage).write_text("{")
    for check in (leases_are_held, pools_are_open, caps_move, breakers_are_closed):
        assert [finding.status for finding in check(context)] == [CheckStatus.SKIPPED]


def test_without_a_database_there_is_nothing_to_say(tmp_path: Path):
    context = CheckContext(tmp_path, None, SystemClock())
    for check in (leases_are_held, pools_are_open, caps_move, breakers_are_closed):
        assert [finding.status for finding in check(context)] == [CheckStatus.SKIPPED]


def test_a_check_changes_nothing(context, sqlite_database):
    take(sqlite_database, "a", replace(read_host().holder, start_ticks=1))
    before = list(leases_are_held(context))
    assert list(leases_are_held(context)) == before


# Pools that learn.


def findings(check, context):
    return {finding.evidence.split(":")[0]: finding for finding in check(context)}


@pytest.fixture
def learning(context, sqlite_database):
    """Make a pool learn: with its state, and whether it is adaptive at all."""

    def learn(pool: str, state: PoolState, *, adaptive: bool = True) -> None:
        path = context.home / "governor.json"
        pools = json.loads(path.read_text())["pools"] if path.exists() else {}
        pools[pool] = {"max_global_agents": 4, "adaptive": adaptive}
        path.write_text(json.dumps({"pools": pools}))
        with closing(sqlite_database.open()) as store, store.write("admission") as tx:
            put_pool_state(tx, pool, dump_state(state))

    return learn


LONG_AGO = NOW - timedelta(hours=2)
OPEN = PoolState(breaker_state=BreakerState.OPEN, breaker_open_at=NOW, breaker_break_seconds=3000.0)


def test_the_breaker_is_well_when_unconfigured_off_or_closed(context, learning):
    assert [one.status for one in breakers_are_closed(context)] == [CheckStatus.OK]
    learning("anthropic", OPEN, adaptive=False)
    learning("openai", PoolState(dynamic_cap=3))
    found = findings(breakers_are_closed, context)
    assert {one.status for one in found.values()} == {CheckStatus.OK}
    assert set(found) == {"anthropic", "openai"}


def test_an_open_or_half_open_breaker_is_one_warning_per_pool(context, learning):
    learning("anthropic", OPEN)
    learning(
        "openai", PoolState(breaker_state=BreakerState.HALF_OPEN, probe=LeaseSlot("ant", "t1"))
    )
    learning("google", PoolState())
    found = findings(breakers_are_closed, context)
    assert found["anthropic"].status is found["openai"].status is CheckStatus.WARNING
    assert "open until" in found["anthropic"].evidence
    assert "half-open" in found["openai"].evidence
    assert "reset --provider openai" in found["openai"].remedy
    assert found["google"].status is CheckStatus.OK
    assert not any("flapping" in one.evidence for one in found.values())


@pytest.mark.parametrize(("count", "flaps"), [(1, False), (2, True), (5, True)])
def test_flapping_is_called_out_from_the_second_time_on(context, learning, count, flaps):
    learning("anthropic", replace(OPEN, breaker_reopen_count=count))
    (found,) = breakers_are_closed(context)
    assert ("flapping" in found.evidence) is flaps


@pytest.mark.parametrize(
    ("state", "pinned"),
    [
        (PoolState(dynamic_cap=1, last_decrease_at=LONG_AGO), True),
        (PoolState(dynamic_cap=1, last_decrease_at=NOW), False),
        (PoolState(dynamic_cap=2, last_decrease_at=LONG_AGO), False),
        # It never was any higher.
        (PoolState(dynamic_cap=1), False),
    ],
)
def test_a_cap_pinned_at_its_floor_long_after_a_real_decrease(context, learning, state, pinned):
    learning("anthropic", replace(state, settle_until=NOW + timedelta(minutes=1)))
    learning("openai", replace(state, settle_until=NOW), adaptive=False)
    found = findings(caps_move, context)
    assert (found["anthropic"].status is CheckStatus.WARNING) is pinned
    assert ("pinned at its floor" in found["anthropic"].evidence) is pinned
    assert found["openai"].status is CheckStatus.OK


def test_damage_of_what_was_learned_is_told(context, learning, sqlite_database):
    learning("anthropic", OPEN)
    with closing(sqlite_database.open()) as store, store.write("admission") as tx:
        put_pool_state(tx, "anthropic", dump_state(OPEN)[:40])
    (found,) = caps_move(context)
    assert found.status is CheckStatus.WARNING and "damaged" in found.evidence
    assert "reset --provider anthropic" in found.remedy
    (found,) = breakers_are_closed(context)
    assert found.status is CheckStatus.WARNING and "open until" in found.evidence


def test_what_the_dead_left_names_its_pool(context, sqlite_database):
    dead = replace(read_host(), holder=replace(read_host().holder, start_ticks=1))
    with closing(sqlite_database.open()) as store, store.write("admission") as tx:
        acquire(tx, LeaseRequest("a", "ant", "openai"), POLICY, dead)
        publish_demand(tx, "google", "bee", dead, wanted=2)
    found = findings(leases_are_held, context)
    assert found["openai"].status is found["google"].status is CheckStatus.WARNING
    assert "holders of a are dead" in found["openai"].evidence
    assert "demand of bee" in found["google"].evidence


def test_a_pool_that_only_an_operator_opens_says_so(context, sqlite_database):
    with closing(sqlite_database.open()) as store, store.write("admission") as tx:
        park(tx, "openai", UNTIL_RESUMED, "")
    assert "until an operator resumes it" in findings(pools_are_open, context)["openai"].evidence
