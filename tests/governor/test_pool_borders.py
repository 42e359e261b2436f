"""Gates, shares, believed moments, ends of leases and closings of pools, at their limits."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from hostler.config.pools import PoolCaps
from hostler.config.settings import Agent, Runtime
from hostler.errors import ConfigError, HostlerError
from hostler.governor import holders, leases, parking
from hostler.governor.adaptive import controller
from hostler.governor.adaptive import controller as learned_module
from hostler.governor.adaptive.controller import (
    AdaptivePool,
    OptionalPolicy,
    ProviderReport,
    adaptive_pool,
    apply_events,
    make_pool_load,
    policy_for,
    slot_of,
    slots_in,
)
from hostler.governor.adaptive.model import (
    BreakerState,
    ClosedGate,
    LeaseSlot,
    LimitAnnouncement,
    LimitReport,
    PoolConfig,
    PoolLoad,
    PoolState,
    RateLimitEvent,
    Reason,
    Source,
)
from hostler.governor.adaptive.state import (
    dump_state,
    load_state,
    max_break,
    max_gate,
    max_spacing,
    sanitize,
)
from hostler.governor.caps_file import _require_hard_max
from hostler.governor.gates import (
    SHARED_BY,
    UNLIMITED,
    UNTIL_RESUMED,
    Gate,
    GateInputs,
    LeaseDenied,
    LeaseGranted,
    LeaseRequest,
    ParkedPool,
    ProjectDemand,
    SharedBy,
    circle_of,
    decide,
    share_of,
    share_warning,
    shares,
    turn_at,
)
from hostler.governor.holders import (
    PrunePlan,
    demand_ended,
    is_stale,
    lease_ended,
    make_prune_plan,
    unreported_ends,
)
from hostler.governor.leases import _GATES_OPENED_BY_PRUNING, LeaseLost, closed_since
from hostler.governor.parking import (
    MAX_PARK,
    active_parking,
    age_of,
    deadline,
    is_invalid_time,
    readable_time,
)
from hostler.governor.policy import (
    Policy,
    _config_from_caps,
    make_policy,
    pool_key,
    pool_of,
    provider_of,
    require_pool_name,
)
from hostler.model import format_timestamp
from hostler.store.governor import Demand, Holder, Lease, Parked

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KNOBS = PoolConfig(max_global=8, adaptive=True, hard_max=16)
A = LeaseSlot("a", "t1")
ASK = LeaseRequest("run-1", "ant", "anthropic", width=3)
SCENE = GateInputs(NOW, "anthropic", 0, 0, 0, 0, 4000, (ProjectDemand("ant", 0, 1),))
POLICY = Policy(default_cap=4, machine_max_agents=5)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def ahead(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


# -- gates -----------------------------------------------------------------------------------------


def denied(policy=POLICY, request=ASK, **more) -> LeaseDenied | None:
    return decide(request, replace(SCENE, **more), policy)


def test_the_machine_is_full_at_its_ceiling_and_a_ceiling_of_none_is_none():
    assert denied(on_machine=4) is None
    full = denied(on_machine=5)
    assert (full.gate, full.found, full.allowed) == (Gate.MACHINE, 5, 5)
    assert full.what == "5 of 5 agents run on this machine."
    for none in (0, -1):
        assert denied(replace(POLICY, machine_max_agents=none), on_machine=99) is None
    assert denied(replace(POLICY, machine_max_agents=1), on_machine=1).gate is Gate.MACHINE


def test_memory_may_fall_to_its_floor_and_no_lower():
    assert denied(free_mb=1024) is None and denied(free_mb=None) is None
    low = denied(free_mb=1023)
    assert (low.gate, low.found, low.allowed) == (Gate.MEMORY, 1023, 1024)


def test_a_pool_is_full_at_its_cap():
    assert denied(in_pool=3) is None
    full = denied(in_pool=4)
    assert (full.gate, full.found, full.allowed) == (Gate.CAP, 4, 4)
    assert "governor set --provider anthropic --max-global N" in full.remedy
    known = AdaptivePool(KNOBS, PoolState(dynamic_cap=4), "", NOW)
    assert "up to 16" in denied(in_pool=4, learned=known).remedy


def test_a_project_is_full_at_its_width_and_a_width_of_none_is_none():
    assert denied(own=2) is None
    full = denied(own=3)
    assert (full.gate, full.found, full.allowed) == (Gate.WIDTH, 3, 3)
    for none in (0, -1):
        assert denied(request=replace(ASK, width=none), own=99) is None
    assert denied(request=replace(ASK, width=1), own=1).gate is Gate.WIDTH


def test_a_project_is_full_at_its_share():
    demands = (ProjectDemand("ant"), ProjectDemand("bee"))
    assert denied(demands=demands, own_in_pool=1) is None
    full = denied(demands=demands, own_in_pool=2)
    assert (full.gate, full.found, full.allowed) == (Gate.SHARE, 2, 2)
    assert "(cap 4 across 2 projects)" in full.what and full.opens_at is None


def test_the_rotation_brings_another_slot_when_it_is_ones_turn():
    policy = replace(POLICY, default_cap=3, rotation_window_seconds=60)
    demands = (ProjectDemand("ant"), ProjectDemand("bee"))
    turns = [
        denied(policy, demands=demands, own_in_pool=1, now=ahead(60 * turn)) for turn in range(2)
    ]
    (held,) = [one for one in turns if one is not None]
    turn = turns.index(held)
    assert held.opens_at == ahead(60 * (turn + 1))
    inside = denied(policy, demands=demands, own_in_pool=1, now=ahead(60 * turn + 59))
    assert inside.opens_at == ahead(60 * (turn + 1))


def test_an_opening_is_looked_for_a_hundred_turns_ahead():
    demands = (ProjectDemand("ant"), *(ProjectDemand(f"x{number:03d}") for number in range(101)))
    policy = replace(POLICY, default_cap=1)
    # The one slot is the first project's in every 102nd turn.
    turn = turn_at(NOW.timestamp(), 60)
    its_turn = NOW + timedelta(seconds=60 * (-turn % 102))
    found = denied(policy, demands=demands, now=its_turn - timedelta(seconds=60 * 100))
    assert found.gate is Gate.SHARE and found.opens_at == its_turn
    assert (
        denied(policy, demands=demands, now=its_turn - timedelta(seconds=60 * 101)).opens_at is None
    )
    assert denied(policy, demands=demands, now=its_turn) is None


def test_a_width_over_the_share_is_told_and_a_quiet_project_is_not_too_wide():
    demands = (ProjectDemand("ant", 0, 0), ProjectDemand("bee"))
    inputs = replace(SCENE, demands=demands)
    assert share_warning(replace(ASK, width=2), inputs, POLICY) is None
    words = share_warning(replace(ASK, width=3), inputs, POLICY)
    assert "width 3" in words and "is 2 (cap 4 across 2 projects)" in words
    alone = share_warning(
        replace(ASK, width=5), replace(SCENE, demands=(ProjectDemand("ant"),)), POLICY
    )
    assert "is 4 (cap 4 across 1 project)" in alone
    assert share_of(inputs, POLICY, "bee") == 4
    # What others do not want is left to it.
    modest = replace(SCENE, demands=(ProjectDemand("ant", 0, 0), ProjectDemand("bee", 0, 1)))
    assert share_warning(replace(ASK, width=3), modest, POLICY) is None
    assert "is 3 (" in share_warning(replace(ASK, width=4), modest, POLICY)


def test_a_parked_pool_opens_at_its_moment():
    closed = denied(parked=ParkedPool(ahead(1), ago(5), "Spent."))
    assert (closed.gate, closed.since, closed.opens_at) == (Gate.PARKED, ago(5), ahead(1))
    assert closed.what == "Pool anthropic is parked until 2026-03-01 12:00:01 UTC: Spent."
    assert denied(parked=ParkedPool(NOW, None, "")) is None
    endless = denied(parked=ParkedPool(UNTIL_RESUMED, None, ""))
    assert endless.opens_at is None and "until an operator resumes it." in endless.what
    assert datetime(9999, 1, 1, tzinfo=UTC) == UNTIL_RESUMED


def test_a_policy_closes_its_own_gate_with_a_remedy():
    class Held(AdaptivePool):
        closed_gate = ClosedGate("limit", "it asks to wait", ago(1), ahead(9))

    held = denied(learned=Held(KNOBS, PoolState(), "", NOW))
    assert (held.gate, held.since, held.opens_at) == (Gate.LIMIT, ago(1), ahead(9))
    assert held.what == "Starts in pool anthropic are on hold: it asks to wait."
    broken = PoolState(
        breaker_state=BreakerState.OPEN, breaker_open_at=NOW, breaker_break_seconds=9.0
    )
    remedy = denied(learned=AdaptivePool(KNOBS, broken, "", NOW)).remedy
    assert remedy == "Wait, or clear it with `hostler governor reset --provider anthropic`."


def test_a_denial_says_the_same_to_programs():
    found = denied(in_pool=4)
    assert found.as_json() == {
        "gate": "cap",
        "shared_by": "pool",
        "pool": "anthropic",
        "project": "ant",
        "what": found.what,
        "remedy": found.remedy,
        "found": 4,
        "allowed": 4,
        "since": None,
        "opens_at": None,
    }
    timed = replace(found, since=ago(1), opens_at=ahead(1)).as_json()
    assert (timed["since"], timed["opens_at"]) == (
        format_timestamp(ago(1)),
        format_timestamp(ahead(1)),
    )
    assert {gate for gate, by in SHARED_BY.items() if by is SharedBy.PROJECT} == {"width", "share"}
    assert {gate for gate, by in SHARED_BY.items() if by is SharedBy.MACHINE} == {
        "machine",
        "memory",
    }


def test_the_rotation_is_looked_at_for_one_round_of_all_weights():
    policy = replace(POLICY, default_cap=1)

    def openings(*demands):
        turns = [ahead(60 * turn) for turn in range(8)]
        found = [(now, denied(policy, demands=demands, now=now)) for now in turns]
        return [(one.opens_at - now) / timedelta(minutes=1) for now, one in found if one]

    assert sorted(openings(ProjectDemand("ant"), ProjectDemand("bee", weight=3))) == [
        1,
        1,
        2,
        2,
        3,
        3,
    ]
    assert set(openings(ProjectDemand("ant", weight=0), ProjectDemand("bee", weight=0))) == {1}


def test_defaults_of_an_ask_and_of_a_policy():
    inputs = GateInputs(NOW, "p", 0, 0, 0, 0, None, ())
    assert (inputs.parked, inputs.demand_published, inputs.learned) == (None, False, None)
    no = LeaseDenied(Gate.CAP, "p", "q", "", "")
    assert (no.found, no.allowed, no.since, no.opens_at) == (0, 0, None, None)
    news = ProviderReport(A)
    assert (news.limits, news.announcements, news.answers) == ((), (), 0)
    assert news.ended is False and news.reached is False
    request, policy = LeaseRequest("l", "p"), Policy()
    assert (
        request.pool,
        request.task_id,
        request.program,
        request.model,
        request.width,
        request.weight,
    ) == (
        *("", "", "", ""),
        *(0, 1),
    )
    assert (policy.default_cap, policy.machine_max_agents, policy.memory_floor_mb) == (8, 0, 1024)
    assert (policy.demand_ttl_seconds, policy.rotation_window_seconds) == (600, 60)
    assert policy.unattached_lease_ttl_seconds == 300


# -- shares ----------------------------------------------------------------------------------------


def test_slots_are_dealt_around_the_circle_to_whoever_wants_another():
    names = ("a", "b", "c")
    assert shares(7, [ProjectDemand(name) for name in reversed(names)], 0) == {
        "a": 3,
        "b": 2,
        "c": 2,
    }
    assert shares(7, map(ProjectDemand, names), 1) == {"a": 2, "b": 2, "c": 3}
    assert shares(7, map(ProjectDemand, names), 2) == {"a": 2, "b": 3, "c": 2}
    assert shares(8, map(ProjectDemand, names), 0) == {"a": 3, "b": 3, "c": 2}
    assert shares(0, map(ProjectDemand, names), 0) == {"a": 0, "b": 0, "c": 0}
    assert shares(5, [], 3) == {}
    assert shares(10, [ProjectDemand("a", 1, 1), ProjectDemand("b")], 0) == {"a": 2, "b": 8}
    assert shares(10, [ProjectDemand("a", 0, -9), ProjectDemand("b", 0, 3)], 0) == {"a": 0, "b": 3}
    assert shares(6, [ProjectDemand("a", weight=2), ProjectDemand("b")], 0) == {"a": 4, "b": 2}
    assert shares(3, [ProjectDemand("a", weight=0), ProjectDemand("b", weight=-2)], 0) == {
        "a": 2,
        "b": 1,
    }


def test_many_slots_take_no_longer_than_few():
    assert shares(UNLIMITED, [ProjectDemand("a"), ProjectDemand("b", 0, 7)], 0) == {
        "a": UNLIMITED - 7,
        "b": 7,
    }
    assert (
        ProjectDemand("a").total == UNLIMITED == 1_000_000 and ProjectDemand("a", 2, 3).total == 5
    )
    assert (ProjectDemand("a").active, ProjectDemand("a").weight) == (0, 1)


def test_weights_are_spread_evenly_over_the_circle():
    assert circle_of((1, 1, 1)) == (0, 1, 2) == circle_of((5, 5, 5))
    assert circle_of((2, 1)) == (0, 1, 0) and circle_of((3, 1)) == (0, 0, 1, 0)
    assert circle_of((4, 2)) == (0, 1, 0) and circle_of(()) == ()
    assert turn_at(119.9, 60) == 1 and turn_at(120, 60) == 2


# -- believed moments ------------------------------------------------------------------------------

PAST = (
    "last_decrease_at",
    "last_rate_limit_at",
    "last_probe_at",
    "breaker_open_at",
    "last_dispatch_at",
    "window_at",
    "sampled_at",
    "unanswered_since",
    "announced_at",
    "damaged_at",
)


@pytest.mark.parametrize("name", PAST)
def test_a_past_moment_from_the_future_counts_as_now(name):
    for moment in (ago(5), NOW):
        state = PoolState(**{name: moment})
        assert sanitize(KNOBS, state, NOW) is state
    assert sanitize(KNOBS, PoolState(**{name: ahead(1)}), NOW) == PoolState(**{name: NOW})


def test_remembered_moments_from_the_future_count_as_now():
    state = PoolState(recent_decreases=(ago(1), ahead(1)))
    assert sanitize(KNOBS, state, NOW).recent_decreases == (ago(1), NOW)
    state = PoolState(
        recent_rate_limit_events=(RateLimitEvent(ago(1), A), RateLimitEvent(ahead(1), A))
    )
    assert sanitize(KNOBS, state, NOW).recent_rate_limit_events == (
        RateLimitEvent(ago(1), A),
        RateLimitEvent(NOW, A),
    )
    probing = PoolState(breaker_state=BreakerState.HALF_OPEN, probe=A, probe_admitted_at=ahead(1))
    assert sanitize(KNOBS, probing, NOW).probe_admitted_at == NOW


@pytest.mark.parametrize(
    ("name", "most"),
    [("settle_until", 120), ("next_dispatch_at", 4.5), ("gate_until", 86_400)],
)
def test_a_deadline_is_no_farther_ahead_than_it_could_be_set(name, most):
    for moment in (ago(5), ahead(most)):
        state = PoolState(**{name: moment})
        assert sanitize(KNOBS, state, NOW) is state
    assert sanitize(KNOBS, PoolState(**{name: ahead(most + 1)}), NOW) == PoolState(
        **{name: ahead(most)}
    )


def test_a_gate_is_believed_for_as_long_as_was_said_and_a_day_at_most():
    assert max_gate(PoolState()) == 86_400 == max_gate(PoolState(gate_seconds=-1.0))
    assert max_gate(PoolState(gate_seconds=30.0)) == 30.0
    assert max_gate(PoolState(gate_seconds=1e9)) == 86_400
    assert max_gate(PoolState(gate_seconds=0.5)) == 0.5


def test_a_break_is_an_hour_at_most_unless_the_operator_wants_more():
    assert max_break(KNOBS) == 3600.0
    assert max_break(replace(KNOBS, break_seconds=4000.0)) == 4000.0
    opened = PoolState(
        breaker_state=BreakerState.OPEN, breaker_open_at=NOW, breaker_break_seconds=3600.0
    )
    assert sanitize(KNOBS, opened, NOW) is opened
    long = replace(opened, breaker_break_seconds=3601.0)
    assert sanitize(KNOBS, long, NOW) == opened


def test_a_spacing_reaches_half_more_than_its_distance():
    assert max_spacing(KNOBS) == 4.5
    assert max_spacing(replace(KNOBS, min_dispatch_interval_seconds=-1.0)) == 0.0
    assert max_spacing(replace(KNOBS, min_dispatch_interval_seconds=0.5)) == 0.75


def test_a_negative_settle_time_leaves_no_deadline_ahead():
    config = replace(KNOBS, settle_seconds=-5.0)
    assert sanitize(config, PoolState(settle_until=ahead(9)), NOW).settle_until == NOW
    past = PoolState(settle_until=ago(1))
    assert sanitize(config, past, NOW) is past


def test_what_belongs_together_is_completed():
    undated = PoolState(breaker_state=BreakerState.OPEN, breaker_break_seconds=10.0)
    found = sanitize(KNOBS, undated, NOW)
    assert (found.breaker_open_at, found.breaker_break_seconds) == (NOW, 300.0)
    longer = sanitize(KNOBS, replace(undated, breaker_break_seconds=400.0), NOW)
    assert longer.breaker_break_seconds == 400.0
    lost = PoolState(probe=A, probe_admitted_at=ago(1))
    assert sanitize(KNOBS, lost, NOW) == PoolState()
    tried = PoolState(breaker_state=BreakerState.HALF_OPEN, probe=A)
    assert sanitize(KNOBS, tried, NOW) == replace(tried, probe_admitted_at=NOW)
    whole = replace(tried, probe_admitted_at=ago(1))
    assert sanitize(KNOBS, whole, NOW) is whole
    closed_one = PoolState(breaker_break_seconds=5.0)
    assert sanitize(KNOBS, closed_one, NOW) is closed_one


def test_stored_moments_are_readable_or_none():
    assert (
        readable_time(format_timestamp(NOW)) == NOW
        and readable_time("") is None
        and readable_time("soon") is None
    )
    assert readable_time(None) is None
    assert age_of(format_timestamp(ago(5)), NOW) == timedelta(seconds=5)
    assert age_of(format_timestamp(ahead(5)), NOW) == timedelta(0) == age_of("soon", NOW)
    day = timedelta(days=1)
    assert deadline(format_timestamp(ahead(5)), NOW, day) == ahead(5)
    assert (
        deadline("soon", NOW, day)
        == NOW + day
        == deadline(format_timestamp(NOW + 2 * day), NOW, day)
    )
    assert is_invalid_time("soon", NOW) and is_invalid_time(format_timestamp(ahead(1)), NOW)
    assert not is_invalid_time(format_timestamp(NOW), NOW) and not is_invalid_time(
        format_timestamp(ago(1)), NOW
    )


# -- a policy that is switched off -----------------------------------------------------------------


class Told:
    """A policy that answers with what it was given."""

    def __getattr__(self, name):
        return lambda *given, **more: (name, given, more)


CALLS = {
    "advance": (NOW, PoolLoad(0, waiting=False)),
    "closed_gate": (NOW,),
    "on_start": (NOW, A, 0.5),
    "on_limit": (NOW, LimitReport(A, Source.LIVE, Reason.BURST)),
    "on_announcement": (NOW, LimitAnnouncement(A, 0.5)),
    "on_answers": (NOW, A, 3),
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_policy_hears_nothing_while_it_is_off_and_believable_moments_while_it_is_on(name):
    given, off = PoolState(sampled_at=ahead(5)), replace(KNOBS, adaptive=False)
    switched = OptionalPolicy(Told())
    answer = getattr(switched, name)(off, given, *CALLS[name])
    assert answer is None if name == "closed_gate" else answer is given
    heard = getattr(switched, name)(KNOBS, given, *CALLS[name])
    assert heard == (name, (KNOBS, PoolState(sampled_at=NOW), *CALLS[name]), {})


@pytest.mark.parametrize("reached", [True, False])
def test_a_released_slot_is_told_with_whether_it_was_answered(reached):
    given, off = PoolState(sampled_at=ahead(5)), replace(KNOBS, adaptive=False)
    switched = OptionalPolicy(Told())
    assert switched.on_release(off, given, NOW, A, reached=reached) is given
    heard = switched.on_release(KNOBS, given, NOW, A, reached=reached)
    assert heard == ("on_release", (KNOBS, PoolState(sampled_at=NOW), NOW, A), {"reached": reached})


def test_the_cap_is_the_operators_while_it_is_off():
    switched = OptionalPolicy(Told())
    assert switched.cap(replace(KNOBS, adaptive=False), PoolState(dynamic_cap=3)) == 8
    assert switched.cap(KNOBS, PoolState()) == ("cap", (KNOBS, PoolState()), {})


# -- what is learned -------------------------------------------------------------------------------


def test_a_pool_is_seen_by_its_policy_now():
    text = dump_state(PoolState(dynamic_cap=8, last_probe_at=ago(300)))
    found = adaptive_pool(KNOBS, text, NOW, PoolLoad(0, waiting=False))
    assert (
        found.cap == 9 and found.closed_gate is None and found.stored == text and found.now == NOW
    )
    started = load_state(found.state_after_start(A, 0.5))
    assert started.next_dispatch_at == ahead(3)


def test_a_probe_whose_program_is_gone_leaves_the_way_free():
    probing = PoolState(breaker_state=BreakerState.HALF_OPEN, probe=A, probe_admitted_at=ago(5))
    text = dump_state(probing)
    quiet = PoolLoad(0, waiting=False)
    assert adaptive_pool(KNOBS, text, NOW, quiet, [A]).state.probe is None
    assert adaptive_pool(KNOBS, text, NOW, quiet, [A]).state.breaker_state is BreakerState.HALF_OPEN
    assert adaptive_pool(KNOBS, text, NOW, quiet).state.probe == A


def test_an_unknown_policy_is_the_usual_one():
    assert policy_for(replace(KNOBS, policy="new")) is policy_for(replace(KNOBS, policy="aimd"))
    assert policy_for(replace(KNOBS, policy="served")) is not policy_for(KNOBS)
    assert learned_module.DEFAULT_POLICY == "aimd"


def test_a_program_without_a_task_is_mute_and_known_by_its_lease():
    assert slot_of("p", "t", "l") == LeaseSlot("p", "t") and slot_of("p", "", "l") == LeaseSlot(
        "p", "l"
    )
    rows = [("p", "t", "l1"), ("p", "", "l2")]
    found = make_pool_load(2, rows, waiting=True, reporting=[A])
    assert found == PoolLoad(
        2,
        True,
        frozenset({LeaseSlot("p", "t"), LeaseSlot("p", "l2"), A}),
        frozenset({LeaseSlot("p", "l2")}),
    )
    assert slots_in(rows) == {LeaseSlot("p", "t"), LeaseSlot("p", "l2")}


def test_news_of_one_agent_are_told_in_order(monkeypatch):
    heard = []

    class Ear:
        def __getattr__(self, name):
            def note(config, state, now, *given, **more):
                heard.append((name, *given, *more.values()))
                return state

            return note

    monkeypatch.setattr(controller, "policy_for", lambda config: Ear())
    limit, word = LimitReport(A, Source.LIVE, Reason.BURST), LimitAnnouncement(A, 0.5)
    apply_events(
        KNOBS, PoolState(), NOW, ProviderReport(A, (limit,), (word,), 2, ended=True, reached=True)
    )
    assert heard == [
        ("on_announcement", word),
        ("on_limit", limit),
        ("on_answers", A, 2),
        ("on_release", A, True),
    ]
    heard.clear()
    assert apply_events(KNOBS, PoolState(), NOW, ProviderReport(A)) == PoolState() and not heard
    apply_events(KNOBS, PoolState(), NOW, ProviderReport(A, answers=1))
    assert heard == [("on_answers", A, 1)]


# -- the operator's word ---------------------------------------------------------------------------


def test_a_cap_is_the_pools_or_its_providers_or_the_default():
    policy = Policy(caps={"openai": 3, "openai:b": 5}, default_cap=7)
    assert [policy.cap(name) for name in ("openai", "openai:a", "openai:b", "x")] == [3, 3, 5, 7]
    pools = ["openai:c", "openai:a", "openai:b", "openai", "x:a"]
    assert policy.inheriting_pools("openai", pools) == ["openai:a", "openai:c"]


def test_a_hard_max_that_is_not_set_is_twice_the_cap():
    policy = Policy(tuned={"a": PoolConfig(hard_max=0, adaptive=True), "b": PoolConfig(hard_max=5)})
    assert (policy.pool_config("a").max_global, policy.pool_config("a").hard_max) == (8, 16)
    assert policy.pool_config("a:x").adaptive and policy.pool_config("b").hard_max == 5
    assert policy.pool_config("c").hard_max == 16 and not policy.pool_config("c").adaptive
    assert policy.is_adaptive("a") and policy.is_adaptive("a:x") and not policy.is_adaptive("b")
    assert not policy.is_adaptive("c") and policy.is_any_adaptive
    assert not Policy(tuned={"b": PoolConfig()}).is_any_adaptive and not Policy().is_any_adaptive


def test_both_files_of_the_operator_become_a_policy():
    pools = {"a": PoolCaps(max_global_agents=3, adaptive=True), "b": PoolCaps(max_global_agents=0)}
    policy = make_policy(Runtime(max_global_agents=9), pools)
    assert policy.caps == {"a": 3} and set(policy.tuned) == {"a", "b"} and policy.default_cap == 9
    found = _config_from_caps(
        PoolCaps(max_global_agents=1, hard_max=4, settle_seconds=5, break_seconds=6)
    )
    assert (found.max_global, found.hard_max) == (1, 4)
    assert (found.settle_seconds, found.break_seconds, found.adaptive) == (5, 6, False)
    assert make_policy(Runtime(), {"a": PoolCaps(max_global_agents=1)}).caps == {"a": 1}


def test_a_pool_is_named_by_the_agent_its_model_or_its_kind():
    def pool(**given):
        return pool_of(Agent(**{"kind": "command", "command": ["x"], **given}))

    assert pool(pool=" mine ") == "mine" and pool(kind="claude") == "anthropic"
    assert pool(kind="codex") == "openai" and pool(kind="gemini") == "google"
    assert pool(kind="opencode", model="groq/x") == "groq"
    assert pool(kind="opencode", model="x") == pool_key("") == pool()
    assert pool(kind="claude", model="groq/x") == "anthropic"
    assert provider_of("a:b") == "a" and pool_key("  ") == pool_key("")


def test_a_name_that_a_person_typed_is_printable_and_short():
    assert require_pool_name("pool", " a:b ") == "a:b"
    assert require_pool_name("pool", "x" * 200) == "x" * 200
    for bad in ("x" * 201, "a b", "a\nb"):
        with pytest.raises(HostlerError, match="is not a valid pool name") as error:
            require_pool_name("pool", bad)
        assert error.value.exit_code == 2


# -- the ends of leases and wishes -----------------------------------------------------------------

HOLDER = Holder("host", "boot", "ns", 7, 1)


def lease(name="l1", *, seen=0.0, **more) -> Lease:
    given = {"acquired_at": format_timestamp(NOW), "seen_at": format_timestamp(ago(seen)), **more}
    return Lease(name, "anthropic", "ant", HOLDER, **given)


def demand(*, said=0.0, wanted=1) -> Demand:
    return Demand("anthropic", "ant", HOLDER, format_timestamp(ago(said)), wanted)


def test_a_lease_ends_with_its_holder_or_after_five_minutes_without_a_sign():
    assert lease_ended(lease(), False, NOW, POLICY)
    assert not lease_ended(lease(seen=999), True, NOW, POLICY)
    assert lease_ended(lease(seen=300), None, NOW, POLICY)
    assert not lease_ended(lease(seen=299), None, NOW, POLICY)


def test_a_wish_ends_with_its_process_its_last_start_or_after_ten_minutes():
    assert not demand_ended(demand(said=599), True, NOW, POLICY)
    assert demand_ended(demand(said=600), True, NOW, POLICY) and is_stale(
        demand(said=600), NOW, POLICY
    )
    assert not is_stale(demand(said=599), NOW, POLICY)
    assert demand_ended(demand(), False, NOW, POLICY) and not demand_ended(
        demand(), None, NOW, POLICY
    )
    assert demand_ended(demand(wanted=0), True, NOW, POLICY)
    assert not demand_ended(demand(wanted=None), True, NOW, POLICY)
    assert not demand_ended(demand(wanted=1), True, NOW, POLICY)


def test_what_becomes_of_leases_by_whether_their_holders_live():
    def found(one, lives, runs=frozenset()):
        return make_prune_plan([one], [], NOW, POLICY, lambda holder: lives, runs)

    fresh = lease()
    assert found(fresh, True) == PrunePlan((fresh,), (), frozenset(), (), (), (), ())
    assert found(fresh, False) == PrunePlan((), (fresh,), frozenset(), (), (), (), ())
    assert found(fresh, None).unverified == {"l1"} and found(fresh, None).leases == (fresh,)
    # A killed shim may have left some of its run.
    assert found(fresh, False, {"l1"}).unverified == {"l1"}
    assert found(fresh, False, {"l2"}).ended == (fresh,)
    assert found(fresh, True, {"l1"}).unverified == frozenset()


def test_who_lives_is_noted_every_quarter_of_the_time_to_live():
    def to_touch(one, lives=True):
        return make_prune_plan([one], [], NOW, POLICY, lambda holder: lives).to_touch

    assert to_touch(lease(seen=74)) == () and to_touch(lease(seen=75)) != ()
    assert to_touch(lease(seen=75), None) == () and to_touch(lease(seen=-5)) != ()
    assert to_touch(lease(seen=-5), None) != ()


def test_wishes_that_are_off_are_renewed_and_ended_ones_are_not():
    good, old, off = demand(), demand(said=600), demand(said=-5)
    found = make_prune_plan([], [good, old, off], NOW, POLICY, lambda holder: True)
    assert found.demands == (good, off) and found.ended_demands == (old,)
    assert found.to_renew == (off,)
    spent = demand(said=-5, wanted=0)
    assert make_prune_plan([], [spent], NOW, POLICY, lambda holder: True).to_renew == ()


def test_only_programs_without_a_task_end_without_a_word():
    ended = (lease("l1"), lease("l2", task_id="t"), replace(lease("l3"), pool="other"))
    found = PrunePlan((), ended, frozenset(), (), (), (), ())
    assert unreported_ends(found, "anthropic") == [LeaseSlot("ant", "l1")]


@pytest.mark.parametrize(
    ("gate", "counts"),
    [
        (Gate.CAP, ["same"]),
        (Gate.WIDTH, ["same", "pool"]),
        (Gate.SHARE, ["same", "pool"]),
        (Gate.MACHINE, ["same", "pool", "project"]),
        (Gate.MEMORY, []),
    ],
)
def test_a_gate_is_closed_since_the_newest_lease_that_it_counts(gate, counts):
    ages = {"same": 50, "pool": 40, "project": 30, "machine": 20, "lent": 10}
    rows = {
        "same": lease("same"),
        "pool": replace(lease("pool"), pool="other"),
        "project": replace(lease("project"), project="bee", pool="other"),
        "machine": replace(
            lease("machine"), holder=replace(HOLDER, boot_id="x"), project="bee", pool="other"
        ),
        "lent": lease("lent", released=True),
    }
    living = [
        replace(rows[name], acquired_at=format_timestamp(ago(age))) for name, age in ages.items()
    ]
    no = LeaseDenied(gate, "anthropic", "ant", "", "")
    host = SimpleNamespace(holder=HOLDER)
    newest = min((ages[name] for name in counts), default=None)
    assert closed_since(no, living, host, NOW) == (ago(newest) if newest else None)
    assert closed_since(no, [], host, NOW) is None


def test_a_lease_from_the_future_closed_a_gate_now_and_one_without_a_boot_counts():
    no = LeaseDenied(Gate.MACHINE, "anthropic", "ant", "", "")
    host = SimpleNamespace(holder=HOLDER)
    future = replace(lease(), acquired_at=format_timestamp(ahead(9)))
    assert closed_since(no, [future], host, NOW) == NOW
    unknown = replace(
        lease(), holder=replace(HOLDER, boot_id=""), acquired_at=format_timestamp(ago(9))
    )
    assert closed_since(no, [unknown], host, NOW) == ago(9)
    assert {
        Gate.BREAKER,
        Gate.MACHINE,
        Gate.CAP,
        Gate.WIDTH,
        Gate.SHARE,
    } == _GATES_OPENED_BY_PRUNING


class Ledger:
    """Leases and what was learned, without a database; `told`: what reached a pool."""

    def __init__(self, monkeypatch, **found):
        self.found, self.told, self.changes = found, [], []
        rows = {
            "find_lease": lambda tx, name: found.get(name),
            "remove_lease": lambda tx, name: found.pop(name, None) is not None,
            "add_lease": lambda tx, row: self.changes.append(("add", row)),
            "set_lease_holder": lambda tx, name, holder, now: self.changes.append(
                ("give", name, holder)
            ),
            "set_lease_released": lambda tx, name, released: (
                self.changes.append(("lend", name, released)) or True
            ),
        }
        for name, answer in rows.items():
            monkeypatch.setattr(leases.rows, name, answer)
        monkeypatch.setattr(
            leases, "apply_report", lambda tx, policy, pool, news: self.told.append(news)
        )
        monkeypatch.setattr(leases, "store_state", lambda *given: self.changes.append(("keep",)))
        monkeypatch.setattr(leases, "put_pool_state", lambda *given: self.changes.append(("put",)))

    def stamp(self):
        return format_timestamp(NOW)


LEARNING = Policy(tuned={"anthropic": KNOBS})
SHIM = '{"host": "host", "boot_id": "boot", "pid_namespace": "ns", "pid": 7, "start_ticks": 1}'


def run(**more):
    given = {"run": "l1", "project": "ant", "pool": " anthropic ", "task_id": "t", "shim": SHIM}
    return SimpleNamespace(**{**given, **more})


def test_a_place_that_is_given_back_was_taken_or_not(monkeypatch):
    ledger = Ledger(monkeypatch, l1=lease(task_id="t"))
    assert (
        leases.release_lease(ledger, "l1") is True and leases.release_lease(ledger, "l1") is False
    )
    assert not ledger.told


def test_a_pool_that_learns_hears_that_nobody_called(monkeypatch):
    ledger = Ledger(monkeypatch, l1=lease(task_id="t"))
    leases.release_lease(ledger, "l1", LEARNING)
    assert ledger.told == [ProviderReport(LeaseSlot("ant", "t"), ended=True, reached=False)]
    assert leases.release_lease(ledger, "gone", LEARNING) is False and len(ledger.told) == 1
    quiet = Ledger(monkeypatch, l1=lease())
    monkeypatch.setattr(leases.rows, "find_lease", lambda tx, name: pytest.fail("It was read."))
    leases.release_lease(quiet, "l1", POLICY)
    assert not quiet.told


def test_a_lent_place_tells_its_pool_that_the_provider_answered(monkeypatch):
    ledger = Ledger(monkeypatch, l1=lease())
    assert (
        leases.release_temporarily(ledger, "l1", LEARNING) is True
        and leases.release_temporarily(ledger, "l1") is True
    )
    assert ledger.told == [ProviderReport(LeaseSlot("ant", "l1"), ended=True, reached=True)]
    assert leases.force_reacquire(ledger, "l1") is True
    assert ledger.changes[-1] == ("lend", "l1", False)


def test_a_shim_that_was_found_alive_holds_a_lease_past_all_gates(monkeypatch):
    ledger = Ledger(monkeypatch)
    leases.restore_lease(ledger, run())
    (_, added), (_, name, holder) = ledger.changes
    assert (added.lease, added.pool, added.project, added.task_id) == (
        *("l1", "anthropic"),
        *("ant", "t"),
    )
    assert added.engine_pid == 0 and added.holder == holder and holder.pid == 7
    assert name == "l1" and added.acquired_at == added.seen_at == format_timestamp(NOW)
    known = Ledger(monkeypatch, l1=lease())
    leases.restore_lease(known, run())
    assert not known.changes
    with pytest.raises(LeaseLost, match="its supervisor is unknown"):
        leases.restore_lease(known, run(shim=None))


def test_a_lent_lease_counts_again_through_all_gates(monkeypatch):
    asked = []

    def answer(tx, request, policy, host, *, pruning):
        asked.append((request.pool, request.project, request.task_id, pruning))
        return SCENE, None

    monkeypatch.setattr(leases, "_evaluate", answer)
    ledger = Ledger(monkeypatch, l1=lease(task_id="t", released=True))
    request = LeaseRequest("l1", "other", "other", "other")
    granted = leases.reacquire(ledger, request, POLICY, "here")
    assert granted == LeaseGranted("l1", "anthropic")
    assert asked == [("anthropic", "ant", "t", True)] and ledger.changes == [("lend", "l1", False)]
    counted = Ledger(monkeypatch, l1=lease())
    assert leases.reacquire(counted, request, POLICY, "here") == granted and len(asked) == 1
    with pytest.raises(LeaseLost, match="its lease is gone"):
        leases.reacquire(counted, replace(request, lease="gone"), POLICY, "here")


@pytest.fixture
def pool(monkeypatch):
    """One pool's row, and what is asked and stored of it."""
    row = SimpleNamespace(stored="", kept=[], asked=[], loads=[], demands=0)

    class Ear:
        def advance(self, config, state, now, load):
            row.loads.append(load)
            return replace(state, growth=1)

        def on_release(self, config, state, now, slot, *, reached):
            return replace(state, growth=state.growth + 1)

    def count(tx, pool, project, holder):
        row.asked.append((pool, project, holder))
        return SimpleNamespace(in_pool=2, demand_count=row.demands, state=row.stored)

    monkeypatch.setattr(controller, "policy_for", lambda config: Ear())
    monkeypatch.setattr(controller, "count_leases", count)
    monkeypatch.setattr(controller, "lease_owners", lambda tx, pool: [("ant", "t", "l1")])
    monkeypatch.setattr(controller, "find_pool_state", lambda tx, pool: row.stored)
    monkeypatch.setattr(
        controller, "put_pool_state", lambda tx, pool, text: row.kept.append((pool, text))
    )
    row.tx = SimpleNamespace(now=lambda: NOW)
    return row


def test_a_look_at_a_pool_is_stored_and_counts_what_runs(pool):
    controller.read_pool(pool.tx, LEARNING, " anthropic ")
    assert pool.asked == [("anthropic", "", None)]
    assert pool.loads == [PoolLoad(2, False, frozenset({LeaseSlot("ant", "t")}))]
    assert pool.kept == [("anthropic", dump_state(PoolState(growth=1)))]
    pool.demands = 1
    controller.read_pool(pool.tx, LEARNING, "anthropic")
    assert pool.loads[1].waiting is True
    pool.stored = dump_state(PoolState(growth=1))
    controller.read_pool(pool.tx, LEARNING, "anthropic")
    assert len(pool.kept) == 2


def test_news_are_heard_after_what_time_has_changed(pool):
    controller.apply_report(pool.tx, LEARNING, " anthropic ", ProviderReport(A, ended=True))
    assert pool.asked == [("anthropic", "a", None)] and A in pool.loads[0].slots
    assert pool.kept == [("anthropic", dump_state(PoolState(growth=2)))]


def test_where_nothing_is_learned_nothing_is_read(pool):
    controller.read_pool(pool.tx, POLICY, "anthropic")
    controller.apply_report(pool.tx, POLICY, "anthropic", ProviderReport(A))
    assert not pool.asked and not pool.kept


def test_what_was_learned_is_forgotten_if_there_was_anything(pool):
    assert controller.reset(pool.tx, "anthropic") is False and not pool.kept
    pool.stored = dump_state(PoolState(growth=1))
    assert controller.reset(pool.tx, " anthropic ") is True and pool.kept == [("anthropic", "")]


def test_ends_are_carried_out_and_told_only_where_something_is_learned(monkeypatch):
    done = []
    for name in ("remove_lease_held_by", "touch_lease", "drop_demand", "renew_demand"):
        monkeypatch.setattr(
            holders, name, lambda tx, *given, name=name: done.append((name, *given))
        )
    monkeypatch.setattr(
        holders, "apply_report", lambda tx, policy, pool, news: done.append((pool, news))
    )
    gone, seen, spent, off = lease("gone"), lease("seen"), demand(wanted=0), demand(said=-5)
    found = PrunePlan((seen,), (gone,), frozenset(), (seen,), (off,), (spent,), (off,))
    tx = SimpleNamespace(stamp=lambda: format_timestamp(NOW))
    quiet = [
        ("remove_lease_held_by", "gone", HOLDER),
        ("touch_lease", "seen", format_timestamp(NOW)),
        ("drop_demand", spent),
        ("renew_demand", off, format_timestamp(NOW)),
    ]
    holders.apply_prune(tx, found, POLICY)
    assert done == quiet
    done.clear()
    holders.apply_prune(tx, found, LEARNING)
    told = ("anthropic", ProviderReport(LeaseSlot("ant", "gone"), ended=True, reached=False))
    assert done == [quiet[0], told, *quiet[1:]]


def test_pools_are_looked_at_in_their_order_where_something_is_learned(monkeypatch):
    looked, mended = [], []
    rows = (lease(), replace(lease("l2"), pool="x"))
    found = PrunePlan(rows, (), frozenset(), (), (), (), ())
    monkeypatch.setattr(holders, "plan_prune", lambda tx, policy, host: found)
    monkeypatch.setattr(holders, "apply_prune", lambda tx, found, policy: None)
    monkeypatch.setattr(holders, "repair_parked", mended.append)
    states = dict.fromkeys(("m", "b", "zz", "k", "c"), "")
    monkeypatch.setattr(holders, "all_pool_states", lambda tx: states)
    monkeypatch.setattr(holders, "read_pool", lambda tx, policy, pool: looked.append(pool))
    assert holders.prune("tx", POLICY, "here") is found and mended == ["tx"] and not looked
    holders.prune("tx", LEARNING, "here")
    assert looked == ["anthropic", "b", "c", "k", "m", "x", "zz"]


def test_a_hard_max_may_equal_the_cap_and_not_be_below_it(tmp_path):
    def refuse(most, cap):
        _require_hard_max(tmp_path, "a", PoolCaps(hard_max=most, max_global_agents=cap))

    for fine in ((0, 5), (5, 5), (6, 5)):
        refuse(*fine)
    for bad in ((1, 2), (4, 5)):
        with pytest.raises(ConfigError, match="hard_max"):
            refuse(*bad)


# -- closings --------------------------------------------------------------------------------------


class Book:
    """The rows of closed pools and of what was learned, without a database."""

    def __init__(self, monkeypatch):
        self.rows, self.states, self.writes = {}, {}, 0
        monkeypatch.setattr(parking, "parked_pool", lambda tx, key: self.rows.get(key))
        monkeypatch.setattr(parking, "parked_pools", lambda tx: [*self.rows.values()])
        monkeypatch.setattr(parking, "park_pool", self._put)
        monkeypatch.setattr(
            parking, "unpark_pool", lambda tx, key: self.rows.pop(key, None) is not None
        )
        monkeypatch.setattr(parking, "find_pool_state", lambda tx, key: self.states.get(key, ""))
        monkeypatch.setattr(parking, "all_pool_states", lambda tx: self.states)
        monkeypatch.setattr(
            parking, "put_pool_state", lambda tx, key, text: self.states.update({key: text})
        )

    def _put(self, tx, row):
        self.writes += 1
        self.rows[row.pool] = row

    def now(self):
        return NOW


@pytest.fixture
def book(monkeypatch):
    return Book(monkeypatch)


def test_a_pool_is_closed_until_a_moment_a_month_ahead_at_most(book):
    parking.park(book, " a ", ahead(60), "Spent.", "r1")
    assert book.rows["a"] == Parked(
        "a", format_timestamp(NOW), format_timestamp(ahead(60)), "Spent.", "r1"
    )
    parking.park(book, "b", NOW + timedelta(days=400), "", "")
    assert book.rows["b"].until == format_timestamp(NOW + timedelta(days=31))
    parking.park(book, "c", UNTIL_RESUMED, "", "")
    assert book.rows["c"].until == format_timestamp(UNTIL_RESUMED)
    assert timedelta(days=31) == MAX_PARK
    parking.park(book, "d", ahead(60), "Spent.")
    assert book.rows["d"].run == ""


def test_a_closing_that_lasts_longer_stays_and_is_nobodys_alone_any_more(book):
    parking.park(book, "a", ahead(60), "First.", "r1")
    parking.park(book, "a", ahead(60), "Again.", "r1")
    assert book.writes == 1
    parking.park(book, "a", ahead(30), "Second.", "r2")
    assert book.rows["a"] == Parked(
        "a", format_timestamp(NOW), format_timestamp(ahead(60)), "First.", ""
    )
    parking.park(book, "a", ahead(90), "Third.", "r1")
    assert (book.rows["a"].until, book.rows["a"].run) == (format_timestamp(ahead(90)), "")


def test_a_longer_closing_keeps_since_when_the_pool_is_closed(book):
    book.rows["a"] = Parked("a", format_timestamp(ago(50)), format_timestamp(ahead(10)), "x", "r1")
    parking.park(book, "a", ahead(90), "y", "r1")
    assert book.rows["a"] == Parked(
        "a", format_timestamp(ago(50)), format_timestamp(ahead(90)), "y", "r1"
    )
    book.rows["a"] = Parked("a", format_timestamp(ago(50)), format_timestamp(ago(10)), "x", "r1")
    parking.park(book, "a", ahead(90), "y", "r2")
    assert book.rows["a"] == Parked(
        "a", format_timestamp(NOW), format_timestamp(ahead(90)), "y", "r2"
    )


def test_only_the_run_whose_word_closed_a_pool_alone_reopens_it(book):
    parking.park(book, "a", ahead(60), "", "r1")
    assert parking.reopen(book, "a", "r2") is False and "a" in book.rows
    assert parking.reopen(book, "a", "r1") is True and not book.rows
    assert parking.reopen(book, "a", "r1") is False


def test_an_operator_opens_a_pool_whoever_closed_it(book):
    assert parking.resume(book, "a") is False
    parking.park(book, "a", ahead(60), "", "r1")
    assert parking.resume(book, "a") is True and not book.rows
    told = PoolState(dynamic_cap=3, gate_until=ahead(5), gate_seconds=5.0, pausing=True)
    book.states["a"] = dump_state(told)
    assert parking.resume(book, " a ") is True
    assert load_state(book.states["a"]) == PoolState(dynamic_cap=3)
    over = dump_state(replace(told, gate_until=NOW))
    book.states["a"] = over
    assert parking.resume(book, "a") is False and book.states["a"] == over


def parked(since=0.0, until=60.0, **more) -> Parked:
    return Parked("a", format_timestamp(ago(since)), format_timestamp(ahead(until)), "why", **more)


def test_a_stored_closing_is_believed_for_as_long_as_it_was_set():
    assert active_parking(None, NOW) is None
    assert active_parking(parked(), NOW) == ParkedPool(ahead(60), NOW, "why")
    assert (
        active_parking(parked(60, 0), NOW) is None
        and active_parking(parked(60, 1), NOW) is not None
    )
    # A clock that was set back by an hour makes it no longer.
    assert active_parking(parked(-3600, 3660), NOW) == ParkedPool(ahead(60), NOW, "why")
    endless = replace(parked(), until=format_timestamp(UNTIL_RESUMED))
    assert active_parking(endless, NOW).until == UNTIL_RESUMED
    damaged = replace(parked(), until="soon")
    assert active_parking(damaged, NOW).until == NOW + MAX_PARK
    undated = replace(parked(), at="once")
    assert active_parking(undated, NOW) == ParkedPool(ahead(60), None, "why")
    backwards = parked(-100, 50)
    assert active_parking(backwards, NOW).until == ahead(50)


def test_closings_are_stored_as_they_are_believed(book):
    book.rows["a"] = parked(-3600, 3660)
    parking.repair_parked(book)
    assert book.rows["a"] == parked() and book.writes == 1
    parking.repair_parked(book)
    assert book.writes == 1
    book.rows["a"] = replace(parked(), at="once", until="soon")
    parking.repair_parked(book)
    assert book.rows["a"] == Parked(
        "a", format_timestamp(NOW), format_timestamp(NOW + MAX_PARK), "why"
    )
    for over in (parked(60, -5), replace(parked(60), until="2026-03-01T12:00:00Z")):
        book.rows["a"] = over
        parking.repair_parked(book)
        assert book.rows["a"] is over
    book.rows["a"] = parked(50, 40 * 86_400)
    parking.repair_parked(book)
    assert book.rows["a"] == parked(50, 31 * 86_400)


def held_back(book, policy_name="served", **state):
    book.states["x"] = dump_state(PoolState(**state))
    tuned = {"x": replace(KNOBS, policy=policy_name)}
    return parking.closed_pools(book, Policy(tuned=tuned))


def test_pools_are_closed_that_are_parked_or_held_back_for_a_minute(book):
    book.rows["a"] = parked()
    book.rows["b"] = replace(parked(60, -1), pool="b")
    assert parking.closed_pools(book) == {"a"} == parking.closed_pools(book, Policy())
    broken = {"breaker_state": BreakerState.OPEN, "breaker_open_at": NOW}
    assert held_back(book, breaker_break_seconds=60.0, **broken) == {"a", "x"}
    assert parking.closed_pools(book) == {"a"} == parking.closed_pools(book, Policy())
    assert held_back(book, breaker_break_seconds=59.0, **broken) == {"a"}
    assert held_back(book, gate_until=ahead(60), gate_seconds=60.0) == {"a", "x"}
    assert held_back(book, gate_until=ahead(59), gate_seconds=59.0) == {"a"}
    # Who only keeps a distance, or waits for a probe, is not closed.
    probing = {"breaker_state": BreakerState.HALF_OPEN, "probe": A, "probe_admitted_at": NOW}
    assert held_back(book, **probing) == {"a"}
    slow = replace(KNOBS, policy="served", min_dispatch_interval_seconds=999.0)
    book.states["x"] = dump_state(PoolState(next_dispatch_at=ahead(900)))
    assert parking.closed_pools(book, Policy(tuned={"x": slow})) == {"a"}


# -- demand and waiting ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "stored"),
    [(None, None), (1, 1), (UNLIMITED + 1, UNLIMITED), (0, "gone"), (-1, "gone")],
)
def test_demand_is_stored_or_dropped(monkeypatch, wanted, stored):
    found = []
    monkeypatch.setattr(leases.rows, "put_demand", lambda tx, said: found.append(said))
    monkeypatch.setattr(leases.rows, "drop_demand", lambda tx, said: found.append("gone"))
    tx = SimpleNamespace(stamp=lambda: format_timestamp(NOW))
    host = SimpleNamespace(holder=HOLDER)
    leases.publish_demand(tx, " a ", "ant", host, wanted=wanted, weight=2, width=3)
    if stored == "gone":
        assert found == ["gone"]
        return
    assert found == [Demand("a", "ant", HOLDER, format_timestamp(NOW), stored, 2, 3)]
    found.clear()
    leases.publish_demand(tx, "a", "ant", host)
    assert found == [Demand("a", "ant", HOLDER, format_timestamp(NOW), None, 1, 0)]
    leases.drop_demand(tx, "a", "ant", host)
    assert found[1:] == ["gone"]


class Bench:
    """A waiter whose store and clock are the test's."""

    def __init__(self, monkeypatch, answers=(), previews=()):
        self.now_at, self.waits, self.told, self.demands, self.dropped = 0.0, [], [], [], 0
        self.answers, self.previews = iter(answers), iter(previews)
        monkeypatch.setattr(leases, "acquire", lambda tx, request, policy, host: next(self.answers))
        monkeypatch.setattr(
            leases, "preview", lambda tx, request, policy, host: next(self.previews)
        )
        monkeypatch.setattr(
            leases, "publish_demand", lambda tx, *given, **more: self.demands.append(more)
        )
        monkeypatch.setattr(leases, "drop_demand", lambda *_: self._drop())
        self.waiter = leases.LeaseWaiter(
            self, self, lambda: Policy(demand_ttl_seconds=12), lambda: "here", self.told.append
        )

    def _drop(self):
        self.dropped += 1

    @contextmanager
    def write(self, scope, *, relaxed):
        assert (scope, relaxed) == ("admission", True)
        yield "tx"

    @contextmanager
    def read(self):
        yield "tx"

    def change_mark(self):
        return 5

    def wait_for_change(self, mark, seconds):
        self.waits.append((mark, seconds))
        self.now_at += seconds
        return mark + 1

    def monotonic(self):
        return self.now_at

    def now(self):
        return NOW


NO = LeaseDenied(Gate.CAP, "anthropic", "ant", "", "")
YES = LeaseGranted("run-1", "anthropic")


def test_a_place_that_is_free_is_had_at_once(monkeypatch):
    bench = Bench(monkeypatch, [YES])
    assert bench.waiter.wait(ASK) is YES
    assert not bench.waits and bench.dropped == 1 and not bench.demands


def test_a_no_leaves_a_wish_unless_nobody_waits(monkeypatch):
    bench = Bench(monkeypatch, [NO, NO])
    assert bench.waiter.try_acquire(ASK, publish=False) is NO and not bench.demands
    assert bench.waiter.try_acquire(ASK) is NO
    assert bench.demands == [{"wanted": 1, "weight": 1, "width": 3}] and not bench.dropped


def test_a_wait_looks_every_second_and_asks_again_when_it_looks_open(monkeypatch):
    bench = Bench(monkeypatch, [NO, YES], [NO, None])
    assert bench.waiter.wait(ASK) is YES
    assert bench.waits == [(5, 1.0), (6, 1.0)] and bench.told == [NO, NO]


def test_a_wish_is_said_again_after_a_third_of_its_time(monkeypatch):
    bench = Bench(monkeypatch, [NO, NO, YES], [NO, NO, NO, NO, None])
    bench.waiter.wait(ASK)
    assert len(bench.demands) == 2 and len(bench.waits) == 5


@pytest.mark.parametrize(("opens", "seconds"), [(0.5, 0.5), (2, 1.0), (-3, 0.0)])
def test_a_wait_ends_when_the_gate_opens(monkeypatch, opens, seconds):
    bench = Bench(monkeypatch, [replace(NO, opens_at=ahead(opens)), YES], [None])
    bench.waiter.wait(ASK)
    assert bench.waits == [(5, seconds)]


def test_a_wait_that_is_ended_leaves_no_wish(monkeypatch):
    bench = Bench(monkeypatch, [NO])
    monkeypatch.setattr(
        bench, "wait_for_change", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        bench.waiter.wait(ASK)
    assert bench.dropped == 1
