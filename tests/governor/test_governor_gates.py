"""The gates by themselves; pools and what the operator allows."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.config.pools import PoolCaps, load_pools
from hostler.config.settings import Agent, Runtime, Settings
from hostler.errors import ConfigError
from hostler.governor.adaptive.controller import AdaptivePool
from hostler.governor.adaptive.model import BreakerState, ClosedGate, PoolConfig, PoolState
from hostler.governor.gates import (
    SHARED_BY,
    Gate,
    GateInputs,
    LeaseRequest,
    ParkedPool,
    ProjectDemand,
    cap_of,
    decide,
    share_of,
    share_warning,
)
from hostler.governor.leases import demand_by_project
from hostler.governor.parking import age_of, deadline, is_invalid_time
from hostler.governor.policy import Policy, make_policy, pool_key, pool_of, read_policy
from hostler.store.governor import Claim, Demand, Holder

NOW = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
ASK = LeaseRequest("run-1", "ant", "anthropic", width=3)
OPEN = GateInputs(
    now=NOW,
    pool="anthropic",
    in_pool=0,
    own_in_pool=0,
    own=0,
    on_machine=0,
    free_mb=4000,
    demands=(ProjectDemand("ant", 0, 1),),
)
STRICT = Policy(default_cap=4, machine_max_agents=5)
LEARNING = PoolConfig(max_global=4, adaptive=True, hard_max=8)


def known(**state):
    return {"learned": AdaptivePool(LEARNING, PoolState(dynamic_cap=4, **state), "", NOW)}


class Asked(AdaptivePool):
    """A pool whose policy heeds the provider's word."""

    closed_gate = ClosedGate("limit", "its provider asks to wait", NOW, NOW + HOUR)


BROKEN = {
    "breaker_state": BreakerState.OPEN,
    "breaker_open_at": NOW,
    "breaker_break_seconds": 300.0,
}
CLOSED = {
    Gate.PARKED: {"parked": ParkedPool(NOW + HOUR, NOW, "spent")},
    Gate.BREAKER: known(**BROKEN),
    Gate.LIMIT: {"learned": Asked(LEARNING, PoolState(dynamic_cap=4), "", NOW)},
    Gate.MACHINE: {"on_machine": 5},
    Gate.MEMORY: {"free_mb": 100},
    Gate.CAP: {"in_pool": 4},
    Gate.WIDTH: {"own": 3},
    Gate.SHARE: {"own_in_pool": 2, "demands": (ProjectDemand("ant", 2), ProjectDemand("bee"))},
    Gate.SPACING: known(last_dispatch_at=NOW, next_dispatch_at=NOW + timedelta(seconds=3)),
}


def test_an_open_scene_lets_in():
    assert decide(ASK, OPEN, STRICT) is None


def test_a_width_says_where_it_is_set_and_where_it_cannot_be():
    no = decide(ASK, replace(OPEN, own=3), STRICT)
    assert "`max_concurrent_slots` in its `[repo]` table" in no.remedy
    assert "a project without one has a fixed width" in no.remedy


@given(st.sets(st.sampled_from(Gate), min_size=1))
def test_the_first_closed_gate_answers(closed):
    inputs = OPEN
    # The breaker also closes what the spacing would.
    for gate in sorted(closed, key=list(Gate).index, reverse=True):
        inputs = replace(inputs, **CLOSED[gate])
    first = next(gate for gate in Gate if gate in closed)
    no = decide(ASK, inputs, STRICT)
    assert no is not None and no.gate is first
    assert no.shared_by is SHARED_BY[first]
    assert no.what.endswith(".") and no.remedy.endswith(".")
    assert json.loads(json.dumps(no.as_json()))["gate"] == first.value


@pytest.mark.parametrize("gate", [Gate.MACHINE, Gate.CAP, Gate.WIDTH, Gate.SHARE])
def test_one_less_opens_a_gate_that_counts(gate):
    number, inputs = {
        Gate.MACHINE: ("on_machine", OPEN),
        Gate.CAP: ("in_pool", OPEN),
        Gate.WIDTH: ("own", OPEN),
        Gate.SHARE: ("own_in_pool", OPEN),
    }[gate]
    inputs = replace(inputs, **CLOSED[gate])
    assert decide(ASK, inputs, STRICT).gate is gate
    assert decide(ASK, replace(inputs, **{number: getattr(inputs, number) - 1}), STRICT) is None


@pytest.mark.parametrize(
    ("gate", "seconds"), [(Gate.BREAKER, 300), (Gate.LIMIT, 3600), (Gate.SPACING, 3)]
)
def test_what_a_policy_closes_says_since_when_and_when_it_opens(gate, seconds):
    no = decide(ASK, replace(OPEN, **CLOSED[gate]), STRICT)
    assert (no.since, no.opens_at) == (NOW, NOW + timedelta(seconds=seconds))
    assert no.what.startswith("Starts in pool anthropic are on hold: ")


def test_the_learned_cap_counts_for_cap_share_and_warning():
    inputs = replace(OPEN, **known(), demands=(ProjectDemand("ant"), ProjectDemand("bee")))
    lower = replace(inputs, learned=replace(inputs.learned, state=PoolState(dynamic_cap=2)))
    assert (cap_of(inputs, STRICT), cap_of(lower, STRICT)) == (4, 2)
    assert (share_of(inputs, STRICT, "ant"), share_of(lower, STRICT, "ant")) == (2, 1)
    no = decide(ASK, replace(lower, in_pool=2), STRICT)
    assert (no.gate, no.found, no.allowed) == (Gate.CAP, 2, 2)
    assert "up to 8" in no.remedy
    assert "cap 2 across 2 projects" in share_warning(ASK, lower, STRICT)


def test_limits_that_are_off_stop_nothing():
    crowd = replace(OPEN, own=99, on_machine=99, free_mb=0)
    off = Policy(default_cap=4, machine_max_agents=0, memory_floor_mb=0)
    assert decide(replace(ASK, width=0), crowd, off) is None


def test_a_parked_pool_is_open_when_its_moment_has_come():
    assert decide(ASK, replace(OPEN, parked=ParkedPool(NOW, None, "")), STRICT) is None


def test_the_rotation_says_when_it_is_somebodys_turn():
    policy = Policy(default_cap=1)
    names = ("ant", "bee", "cat")
    inputs = replace(OPEN, demands=tuple(ProjectDemand(name, 0, 1) for name in names))
    turns = {name: decide(LeaseRequest("r", name), inputs, policy) for name in names}
    (lucky,) = [name for name, no in turns.items() if no is None]
    openings = sorted(no.opens_at for name, no in turns.items() if name != lucky)
    start = NOW.replace(second=0)
    assert openings == [start + timedelta(minutes=1), start + timedelta(minutes=2)]
    for no in filter(None, turns.values()):
        assert (
            decide(LeaseRequest("r", no.project), replace(inputs, now=no.opens_at), policy) is None
        )


def test_no_opening_is_promised_that_the_rotation_does_not_bring():
    inputs = replace(OPEN, own_in_pool=3, demands=(ProjectDemand("ant", 3), ProjectDemand("bee")))
    assert decide(replace(ASK, width=0), inputs, STRICT).opens_at is None


@given(st.integers(1, 9), st.integers(1, 9))
def test_a_width_within_the_share_is_nobodys_business(cap, width):
    inputs = replace(OPEN, demands=(ProjectDemand("ant"), ProjectDemand("bee")))
    policy = Policy(default_cap=cap)
    said = share_warning(replace(ASK, width=width), inputs, policy)
    assert (said is not None) == (width > share_of(inputs, policy, "ant"))


@pytest.mark.parametrize(
    ("agent", "pool"),
    [
        (Agent(kind="claude"), "anthropic"),
        (Agent(kind="codex"), "openai"),
        (Agent(kind="gemini"), "google"),
        (Agent(kind="opencode"), "anthropic"),
        (Agent(kind="opencode", model="openai/gpt-9"), "openai"),
        (Agent(kind="opencode", model="/x"), "anthropic"),
        (Agent(kind="claude", model="openai/x"), "anthropic"),
        (Agent(kind="command", command=["x"]), "anthropic"),
        (Agent(kind="scripted", script="x"), "anthropic"),
        (Agent(kind="claude", pool="anthropic:work"), "anthropic:work"),
        (Agent(kind="claude", pool=" "), "anthropic"),
    ],
)
def test_every_agent_has_a_pool(agent, pool):
    assert pool_of(agent) == pool


def test_a_pool_has_its_own_cap_or_its_providers_or_the_default():
    policy = Policy(caps={"anthropic": 3, "openai:work": 2}, default_cap=8)
    caps = [policy.cap(pool) for pool in ("anthropic", "anthropic:x", "openai:work", "openai", "y")]
    assert caps == [3, 3, 2, 8, 8]
    assert pool_key("") == pool_key("  ") == "anthropic"


def test_both_files_of_the_operator_count():
    runtime = Runtime(max_global_agents=5, machine_max_agents=9, rotation_window_seconds=7)
    policy = make_policy(runtime, {"openai": PoolCaps(max_global_agents=2), "google": PoolCaps()})
    assert [policy.cap(pool) for pool in ("openai", "google", "anthropic")] == [2, 5, 5]
    assert (policy.machine_max_agents, policy.rotation_window_seconds) == (9, 7)
    assert make_policy(Runtime(), {}) == Policy()


def test_an_account_has_its_own_knobs_or_its_providers():
    pools = {
        "anthropic": PoolCaps(max_global_agents=3, adaptive=True, settle_seconds=7),
        "anthropic:own": PoolCaps(policy="served", hard_max=9),
        "openai": PoolCaps(hard_max=20, adaptive=True),
    }
    policy = make_policy(Runtime(max_global_agents=5), pools)
    found = {pool: policy.pool_config(pool) for pool in (*pools, "anthropic:x", "openai:y", "z")}
    assert found["anthropic:x"] == found["anthropic"]
    assert (found["anthropic"].max_global, found["anthropic"].hard_max) == (3, 6)
    own = found["anthropic:own"]
    assert (own.max_global, own.hard_max, own.adaptive, own.policy) == (3, 9, False, "served")
    assert (found["openai:y"].max_global, found["openai:y"].hard_max) == (5, 20)
    assert found["z"] == PoolConfig(max_global=5, hard_max=10)
    assert [policy.is_adaptive(pool) for pool in found] == [k.adaptive for k in found.values()]
    assert policy.is_any_adaptive and not Policy().is_any_adaptive


def test_a_damaged_file_is_an_error_and_never_a_wider_cap(tmp_path):
    (tmp_path / "governor.json").write_text('{"max_global_agents": 1')
    with pytest.raises(ConfigError):
        read_policy(tmp_path, Settings())
    (tmp_path / "governor.json").write_text('{"max_global_agents": 1}')
    assert read_policy(tmp_path, Settings()).cap("anthropic") == 1
    assert load_pools(tmp_path / "governor.json")["anthropic"].max_global_agents == 1


@given(st.text(max_size=30))
def test_a_damaged_moment_counts_as_now_and_a_damaged_deadline_as_the_latest(text):
    if is_invalid_time(text, NOW):
        assert age_of(text, NOW) == timedelta(0)
    assert timedelta(0) <= age_of(text, NOW)
    assert deadline(text, NOW, HOUR) <= NOW + HOUR
    if not text:
        assert deadline(text, NOW, HOUR) == NOW + HOUR


def claim(wanted, width=0, weight=1, *, active=1, everywhere=2):
    holder = Holder(pid=wanted or 1)
    return Claim(Demand("p", "ant", holder, "", wanted, weight, width), active, everywhere)


@pytest.mark.parametrize(
    ("claims", "more", "weight"),
    [
        ([claim(2), claim(3, weight=4)], 5, 4),
        ([claim(2), claim(None)], None, 1),
        ([claim(2, width=3), claim(5, width=3)], 1, 1),
        ([claim(None, width=5)], 3, 1),
        ([claim(None, width=5), claim(9)], None, 1),
        ([claim(4, width=1)], 0, 1),
        ([claim(-3, weight=-1)], 0, 1),
        ([claim(1, weight=10**9)], 1, 100),
    ],
)
def test_the_wishes_of_all_processes_of_a_project_are_one(claims, more, weight):
    assert demand_by_project(claims) == {"ant": ProjectDemand("ant", 1, more, weight)}


def test_projects_wish_for_themselves():
    other = Claim(Demand("p", "bee", Holder(), "", 7), 0, 0)
    assert demand_by_project([claim(1), other]) == {
        "ant": ProjectDemand("ant", 1, 1),
        "bee": ProjectDemand("bee", 0, 7),
    }
