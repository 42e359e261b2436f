"""`hostler governor`: show, set, reset, park and resume."""

from __future__ import annotations

import json
import os
from contextlib import closing
from datetime import timedelta

import pytest

from hostler.governor import Ask, Policy, acquire, demand, look_around, park
from hostler.store import open_store


@pytest.fixture
def stable(hostler, home):
    """A home with a database."""
    assert hostler("db", "upgrade").code == 0
    return home


@pytest.fixture
def busy(stable):
    """A lease of ours, a wish of ours, and a closed pool."""
    here = look_around()
    with closing(open_store(stable)) as store, store.write("admission") as tx:
        ask = Ask("run-1", "ant", task_id="t1", model="m")
        assert acquire(tx, ask, Policy(memory_floor_mb=0), here)
        demand(tx, "", "bee", here, wanted=3)
        park(tx, "openai", tx.now() + timedelta(hours=1), "The window is spent.")


def test_without_anything_the_default_pool_is_shown(hostler):
    done = hostler("governor")
    assert done.code == 0
    assert "anthropic: 0 of 8 agents, 8 free\n" in done.out
    assert "no database yet" in done.err


def test_alone_it_shows(hostler, busy):
    done = hostler("governor")
    # But for the last line, which says how much memory is free.
    assert done.out.splitlines()[:-1] == hostler("governor", "show").out.splitlines()[:-1]
    assert "anthropic: 1 of 8 agents, 7 free" in done.out
    assert f"ant  t1  run-1  pid {os.getpid()}" in done.out
    assert "bee holds 0 and wants 3 more; its share is 3" in done.out
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
    assert hostler("governor", "resume", "--provider", "openai").out == "Pool openai is open.\n"
    done = hostler("governor", "resume", "--provider", "openai", "--json")
    assert json.loads(done.out) == {"pool": "openai", "was_parked": False}
    assert "The window" not in hostler("governor").out


def test_leases_of_the_dead_are_named(hostler, stable):
    pid = os.fork()
    if pid == 0:
        with closing(open_store(stable)) as store, store.write("admission") as tx:
            acquire(tx, Ask("run-1", "ant"), Policy(memory_floor_mb=0), look_around())
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    done = hostler("governor")
    assert "0 of 8 agents" in done.out
    assert "their holders are dead: run-1" in done.out
