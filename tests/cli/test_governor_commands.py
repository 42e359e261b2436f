"""`hostler governor`: show, set, reset, park and resume."""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest
from intake_yard import lay_database
from next_revision import know_next_revision

from hostler.clock import SystemClock
from hostler.governor.adaptive.model import BreakerState, LeaseSlot, PoolState
from hostler.governor.adaptive.state import dump_state, load_state
from hostler.governor.gates import LeaseRequest
from hostler.governor.holders import read_host
from hostler.governor.leases import acquire, publish_demand
from hostler.governor.parking import park
from hostler.governor.policy import Policy
from hostler.store import open_store
from hostler.store.governor import all_pool_states, find_pool_state, put_pool_state


@pytest.fixture
def stable(home):
    """A home with a database."""
    lay_database(home)
    return home


@pytest.fixture
def busy(stable):
    """A lease of ours, a wish of ours, and a closed pool."""
    here = read_host()
    with closing(open_store(stable)) as store, store.write("admission") as tx:
        ask = LeaseRequest("run-1", "ant", task_id="t1", model="m")
        assert acquire(tx, ask, Policy(memory_floor_mb=0), here)
        publish_demand(tx, "", "bee", here, wanted=3)
        park(tx, "openai", tx.now() + timedelta(hours=1), "The window is spent.")


def test_without_anything_the_default_pool_is_shown(hostler):
    done = hostler("governor")
    assert done.code == 0
    assert "anthropic: 0 of 8 agents, 8 free\n" in done.out
    assert "No database yet" in done.err


def test_a_database_of_an_older_program_is_said_with_what_the_operator_allows(
    hostler, stable, monkeypatch
):
    hostler("governor", "set", "--max-global", "3", "--adaptive", "--provider", "openai")
    know_next_revision(monkeypatch)
    done = hostler("governor", "show")
    assert done.code == 0
    assert done.out.splitlines() == [
        "anthropic: operator cap 8, adaptive off",
        "openai: operator cap 3, adaptive on (aimd), hard max 6",
    ]
    assert "has layout 0001" in done.err and "hostler db upgrade" in done.err
    # A program would take it for all that there is.
    done = hostler("governor", "--json")
    assert (done.code, done.out) == (1, "") and "hostler db upgrade" in done.err


def test_alone_it_shows(hostler, busy):
    done = hostler("governor")
    # But for the last line, which says how much memory is free.
    assert done.out.splitlines()[:-1] == hostler("governor", "show").out.splitlines()[:-1]
    assert "anthropic: 1 of 8 agents, 7 free" in done.out
    assert f"ant  t1  run-1  pid {os.getpid()}" in done.out
    assert "bee: 0 in use, 3 more wanted, share 3" in done.out
    assert "The window is spent." in done.out


@pytest.mark.parametrize("argv", [["--json"], ["show", "--json"], ["--json", "show"]])
def test_programs_get_json(hostler, busy, argv):
    told = json.loads(hostler("governor", *argv).out)
    ours, theirs = told["pools"]
    assert (ours["pool"], ours["max_global_agents"], ours["active"]) == ("anthropic", 8, 1)
    (lease,) = ours["leases"]
    assert (lease["project"], lease["task_id"], lease["model"]) == ("ant", "t1", "m")
    assert lease["holder"]["pid"] == os.getpid()
    assert lease["verified"] is True
    assert ours["shares"] == {"bee": 3}
    assert theirs["parked"]["why"] == "The window is spent."


def test_one_pool_alone(hostler, busy):
    for argv in (["--provider", "openai"], ["show", "--provider", "openai"]):
        out = hostler("governor", *argv).out
        assert "openai: 0 of 8" in out
        assert "anthropic" not in out
    done = hostler("governor", "--provider", "nobody")
    assert done.code == 1
    assert "no pool nobody" in done.err


def test_a_cap_is_set_for_one_pool(hostler, home):
    assert hostler("governor", "set", "--max-global", "4").out == (
        "Pool anthropic: at most 4 agents at once.\n"
    )
    done = hostler("governor", "set", "--provider", "openai:work", "--max-global", "1", "--json")
    told = json.loads(done.out)
    assert (told["pool"], told["max_global_agents"], told["adaptive"]) == ("openai:work", 1, False)
    assert json.loads((home / "governor.json").read_text()) == {
        "pools": {"anthropic": {"max_global_agents": 4}, "openai:work": {"max_global_agents": 1}}
    }
    out = hostler("governor").out
    assert "anthropic: 0 of 4" in out
    assert "openai:work: 0 of 1" in out


def test_zero_goes_back_to_the_settings(hostler, home, tmp_path):
    hostler("governor", "set", "--max-global", "4")
    assert "at most 8 agents" in hostler("governor", "set", "--max-global", "0").out


def test_the_cap_of_a_provider_may_stand_before_the_command(hostler, home):
    hostler("governor", "--provider", "openai", "set", "--max-global", "2")
    assert list(json.loads((home / "governor.json").read_text())["pools"]) == ["openai"]


@pytest.mark.parametrize(
    "argv",
    [
        ["set"],
        ["set", "--max-global", "-1"],
        ["set", "--max-global", "1025"],
        ["set", "--max-global", "many"],
        ["set", "--max-global", "2", "--provider", "two words"],
        ["set", "--max-global", "2", "--provider", "a\x1b[31m"],
        ["set", "--max-global", "2", "--provider", "x" * 201],
        ["resume", "--provider", "two words"],
    ],
)
def test_bad_input_gets_a_line_and_changes_nothing(hostler, home, argv):
    done = hostler("governor", *argv)
    assert done.code == 2
    assert done.err and "Traceback" not in done.err
    assert "\x1b" not in done.err
    assert not (home / "governor.json").exists()


def test_a_damaged_file_is_named_and_stays(hostler, home):
    home.mkdir()
    (home / "governor.json").write_text("{")
    for argv in ([], ["set", "--max-global", "2"]):
        done = hostler("governor", *argv)
        assert done.code == 2
        assert "governor.json" in done.err
    assert (home / "governor.json").read_text() == "{"


def test_a_parked_pool_is_opened_by_hand(hostler, busy):
    assert hostler("governor", "resume", "--provider", "openai").out == "Resumed pool openai.\n"
    done = hostler("governor", "resume", "--provider", "openai", "--json")
    assert json.loads(done.out) == {"pool": "openai", "was_parked": False}
    assert "The window" not in hostler("governor").out


def test_leases_of_the_dead_are_named(hostler, stable):
    pid = os.fork()
    if pid == 0:
        with closing(open_store(stable)) as store, store.write("admission") as tx:
            acquire(tx, LeaseRequest("run-1", "ant"), Policy(memory_floor_mb=0), read_host())
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    done = hostler("governor")
    assert "0 of 8 agents" in done.out
    assert "leases of exited processes, released at the next start: run-1" in done.out


# Caps that learn.


def known(home, pool="anthropic"):
    with closing(open_store(home)) as store, store.read() as tx:
        return load_state(find_pool_state(tx, pool))


def learn(home, state, pool="anthropic"):
    with closing(open_store(home)) as store, store.write("admission") as tx:
        put_pool_state(tx, pool, dump_state(state))


def content(home):
    return json.loads((home / "governor.json").read_text())["pools"]


MET = PoolState(
    dynamic_cap=2,
    rate_limit_events=7,
    breaker_state=BreakerState.HALF_OPEN,
    breaker_reopen_count=2,
    probe=LeaseSlot("ant", "t1"),
)


def test_a_pool_is_set_with_all_its_keys_and_back_to_its_defaults(hostler, home):
    argv = "--max-global 5 --adaptive --policy served --hard-max 9 --settle-sec 60 --break-sec 30"
    done = hostler("governor", "set", *argv.split(), "--min-dispatch-interval", "1.5")
    assert done.out == "Pool anthropic: starts with 5 agents, at most 9 (adaptive: served).\n"
    assert content(home)["anthropic"] == {
        "max_global_agents": 5,
        "adaptive": True,
        "policy": "served",
        "hard_max": 9,
        "settle_seconds": 60,
        "break_seconds": 30,
        "min_dispatch_interval_seconds": 1.5,
    }
    hostler("governor", "set", "--max-global", "4", "--provider", "openai", "--adaptive")
    # Without --adaptive it is off again, on that pool only.
    hostler("governor", "set", "--max-global", "5")
    assert content(home) == {
        "anthropic": {"max_global_agents": 5},
        "openai": {"max_global_agents": 4, "adaptive": True},
    }


def anew(state):
    """Without the moment from which it grows; it must be there."""
    assert state.last_probe_at is not None
    return replace(state, last_probe_at=None)


def test_a_cap_that_is_set_starts_anew_and_keeps_what_was_met(hostler, stable):
    learn(stable, MET)
    hostler("governor", "set", "--max-global", "6", "--adaptive")
    assert anew(known(stable)) == replace(MET, dynamic_cap=6)


def test_accounts_that_have_their_cap_from_a_provider_start_anew_with_it(hostler, stable):
    for pool in ("openai", "openai:work", "openai:own", "openaint:x"):
        learn(stable, MET, pool)
    hostler("governor", "set", "--provider", "openai:own", "--max-global", "5", "--adaptive")
    hostler("governor", "set", "--provider", "openai", "--max-global", "6", "--adaptive")
    caps = {pool: known(stable, pool).dynamic_cap for pool in ("openai", "openai:work")}
    assert caps == {"openai": 6, "openai:work": 6}
    assert known(stable, "openai:own").dynamic_cap == 5
    assert known(stable, "openaint:x") == MET
    assert anew(known(stable, "openai:work")) == replace(MET, dynamic_cap=6)


def test_setting_moves_state_out_of_an_older_file(hostler, stable):
    old = {"max_global_agents": 3, "dynamic_cap": 2, "rate_limit_events": 4, "theirs": 1}
    (stable / "governor.json").write_text(json.dumps(old))
    hostler("governor", "set", "--max-global", "5", "--provider", "openai")
    assert content(stable)["anthropic"] == {"max_global_agents": 3, "theirs": 1}
    assert known(stable) == PoolState(dynamic_cap=2, rate_limit_events=4)


@pytest.mark.parametrize(
    "argv",
    [
        "set --max-global 2 --policy best",
        "set --max-global 9 --hard-max 3",
        "set --max-global 2 --settle-sec -1",
        "park --for 1 --until 2026-05-01T12:00Z",
        "park --until tomorrow",
        "park --until 2026-05-01T12:00",
        "show --watch --json",
    ],
)
def test_more_bad_input_gets_a_line_and_changes_nothing(hostler, stable, argv):
    done = hostler("governor", *argv.split())
    assert done.code == 2
    assert done.err and "Traceback" not in done.err
    assert not (stable / "governor.json").exists()


def test_options_that_contradict_each_other_are_named_as_they_were_given(hostler, home):
    done = hostler("governor", "set", "--max-global", "9", "--hard-max", "3")
    assert "--hard-max 3 is below --max-global 9" in done.err and "governor.json" not in done.err


def test_what_was_learned_is_forgotten(hostler, stable):
    learn(stable, MET)
    assert hostler("governor", "reset").out == "Pool anthropic: adaptive state was reset.\n"
    assert known(stable) == PoolState()
    done = hostler("governor", "reset", "--provider", "openai", "--json")
    assert json.loads(done.out) == {"pool": "openai", "was_known": False}


def test_a_pool_is_closed_by_hand_for_a_time_or_until_it_is_resumed(hostler, stable):
    done = hostler("governor", "park", "--provider", "openai", "--for", "2", "--why", "A new key.")
    assert done.out.startswith("Pool openai is parked until 2")
    done = hostler("governor", "park")
    assert done.out == "Pool anthropic is parked until an operator resumes it.\n"
    out = hostler("governor").out
    assert "(A new key.)" in out and "parked until an operator resumes it (Parked by" in out
    done = hostler("governor", "park", "--until", "2020-01-01T00:00Z", "--provider", "google")
    assert done.out == "Pool google is not parked: that time has passed.\n"
    told = json.loads(hostler("governor", "park", "--json").out)
    assert told == {"pool": "anthropic", "parked": True, "until": None}
    for pool in ("anthropic", "openai"):
        assert hostler("governor", "resume", "--provider", pool).out == f"Resumed pool {pool}.\n"


def test_show_says_all_that_is_known_of_a_pool(hostler, busy, stable):
    hostler("governor", "set", "--max-global", "6", "--adaptive", "--hard-max", "12")
    now = SystemClock().now()
    at = now.replace(microsecond=0)
    learn(
        stable,
        replace(
            MET,
            last_decrease_at=at - timedelta(minutes=1),
            settle_until=at + timedelta(minutes=1),
            probe_admitted_at=at,
        ),
    )
    out = hostler("governor").out
    assert "anthropic: 1 of 2 agents, 1 free" in out
    assert "operator cap 6, adaptive on (aimd), dynamic cap 2, hard max 12" in out
    assert f"last decrease {at - timedelta(minutes=1):%Y-%m-%d %H:%M:%S} UTC" in out
    assert f"7 rate-limit events, settle window until {at + timedelta(minutes=1):%Y-%m-%d}" in out
    assert "breaker half-open, probing with ant t1 since" in out
    assert "opened 3 times in a row" in out
    assert "starts about 3 s apart" in out
    assert "bee: 0 in use, 3 more wanted, share 2" in out
    assert "next one waits (breaker): Starts in pool anthropic are on hold" in out
    assert "operator cap 8, adaptive off" in out
    (told, _) = json.loads(hostler("governor", "--json").out)["pools"]
    state = told["overlay"]
    assert (told["max_global_agents"], told["cap"], told["policy"]) == (6, 2, "aimd")
    assert (state["dynamic_cap"], state["hard_max"]) == (2, 12)
    assert state["breaker"]["state"] == "half-open"
    assert state["breaker"]["probe"]["task"] == "t1"
    (bee,) = told["projects"]
    assert (bee["project"], bee["holds"], bee["wants"], bee["share"]) == ("bee", 0, 3, 2)
    assert bee["waits"]["gate"] == "breaker"


def test_show_says_when_an_open_breaker_lets_somebody_try(hostler, stable):
    hostler("governor", "set", "--max-global", "6", "--adaptive")
    at = SystemClock().now().replace(microsecond=0)
    opened = PoolState(
        breaker_state=BreakerState.OPEN, breaker_open_at=at, breaker_break_seconds=300.0
    )
    learn(stable, opened)
    until = at + timedelta(seconds=300)
    assert f"breaker open until {until:%Y-%m-%d %H:%M:%S} UTC" in hostler("governor").out


def test_show_says_that_what_was_learned_is_damaged(hostler, stable):
    hostler("governor", "set", "--max-global", "6", "--adaptive")
    with closing(open_store(stable)) as store, store.write("admission") as tx:
        put_pool_state(tx, "anthropic", dump_state(MET)[:30])
    out = hostler("governor").out
    assert "was damaged; safe defaults are used" in out and "breaker open until" in out
    (told,) = json.loads(hostler("governor", "--json").out)["pools"]
    assert told["overlay"]["damaged_at"] and told["cap"] == 1


def test_showing_changes_nothing(hostler, busy, stable):
    hostler("governor", "set", "--max-global", "6", "--adaptive")
    old = content(stable) | {"google": {"dynamic_cap": 2, "adaptive": True}}
    (stable / "governor.json").write_text(json.dumps({"pools": old}))
    # Much that time alone would change, in a pool that learns.
    learn(stable, replace(MET, last_probe_at=SystemClock().now() - timedelta(hours=9), probe=None))
    with closing(open_store(stable)) as store, store.read() as tx:
        rows = all_pool_states(tx)
    files = {path.name: path.read_bytes() for path in stable.glob("governor.*")}
    data = (stable / "hostler.db").read_bytes()
    for argv in ([], ["show"], ["--json"], ["show", "--provider", "google"]):
        assert hostler("governor", *argv).code == 0
    assert {path.name: path.read_bytes() for path in stable.glob("governor.*")} == files
    assert (stable / "hostler.db").read_bytes() == data
    with closing(open_store(stable)) as store, store.read() as tx:
        assert all_pool_states(tx) == rows


def test_without_a_database_a_cap_starts_anew_too(hostler, home):
    old = {"MaxGlobalAgents": 3, "DynamicCap": 2, "LastProbeAt": "2026-01-01T00:00:00Z"}
    home.mkdir()
    (home / "governor.json").write_text(json.dumps({**old, "breaker_state": "open", "theirs": 1}))
    hostler("governor", "set", "--max-global", "10", "--adaptive")
    kept = {"max_global_agents": 10, "adaptive": True, "breaker_state": "open", "theirs": 1}
    assert content(home)["anthropic"] == kept
    assert hostler("db", "upgrade").code == 0
    shown = json.loads(hostler("governor", "set", "--max-global", "10", "--adaptive", "--json").out)
    assert (shown["hard_max"], shown["settle_seconds"], shown["break_seconds"]) == (20, 120, 300)
    state = known(home)
    assert state.dynamic_cap == 10 and state.breaker_state is BreakerState.OPEN


@pytest.mark.parametrize(
    "words",
    [
        ("set", "--max-global", "2", "--settle-sec", "86401"),
        ("set", "--max-global", "2", "--break-sec", "999999999999999"),
        ("set", "--max-global", "2", "--min-dispatch-interval", "1e15"),
        ("park", "--for", "0"),
    ],
)
def test_pauses_that_nobody_means_are_refused(hostler, stable, words):
    done = hostler("governor", *words)
    assert done.code == 2 and "Traceback" not in done.err
    assert not (stable / "governor.json").exists()


def test_a_pause_in_the_file_that_has_no_end_is_told(hostler, stable):
    caps = {"max_global_agents": 2, "adaptive": True, "min_dispatch_interval_seconds": 1e15}
    (stable / "governor.json").write_text(json.dumps({"pools": {"anthropic": caps}}))
    done = hostler("governor", "show")
    assert done.code != 0 and "min_dispatch_interval_seconds" in done.err
    assert "Traceback" not in done.err and "defect" not in done.err
