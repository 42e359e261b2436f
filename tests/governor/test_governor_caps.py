"""`governor.json` is written whole or not at all, and what was not named stays as it was."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.config.pools import load_pools
from hostler.config.settings import Settings
from hostler.errors import ConfigError, HostlerError
from hostler.governor.adaptive.controller import POLICIES
from hostler.governor.adaptive.model import PoolState
from hostler.governor.caps_file import changed_caps, set_caps
from hostler.governor.policy import read_policy
from loaded_children import CONTEXT

NUMBER = "max_global_agents"


def content(home):
    return json.loads((home / "governor.json").read_text())


def test_the_first_cap_makes_the_file(home):
    assert set_caps(home, "openai", {NUMBER: 4}).max_global_agents == 4
    assert content(home) == {"pools": {"openai": {NUMBER: 4}}}
    assert (home / "governor.json").stat().st_mode & 0o077 == 0


def test_other_pools_and_keys_of_others_stay_and_our_own_are_written_anew(home):
    home.mkdir()
    before = {
        "note": "ours",
        "pools": {
            "openai": {NUMBER: 2, "their_key": [1], "adaptive": True, "hard_max": 9},
            "google": {"adaptive": True},
        },
    }
    (home / "governor.json").write_text(json.dumps(before))
    set_caps(home, "openai", {NUMBER: 5})
    before["pools"]["openai"] = {NUMBER: 5, "their_key": [1]}
    assert content(home) == before


def test_the_older_flat_shape_becomes_the_default_pool(home):
    home.mkdir()
    (home / "governor.json").write_text(json.dumps({NUMBER: 3, "their_key": 1}))
    set_caps(home, "openai", {NUMBER: 5})
    assert content(home) == {
        "pools": {"anthropic": {NUMBER: 3, "their_key": 1}, "openai": {NUMBER: 5}}
    }


def test_an_empty_name_is_the_default_pool(home):
    home.mkdir()
    (home / "governor.json").write_text(json.dumps({"pools": {"": {NUMBER: 3, "x": 1}}}))
    set_caps(home, "", {NUMBER: 2})
    assert content(home) == {"pools": {"anthropic": {NUMBER: 2, "x": 1}}}


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"pools": 3}', '{"max_global_agents": "8"}'])
def test_a_damaged_file_is_refused_and_stays(home, damaged):
    home.mkdir()
    (home / "governor.json").write_text(damaged)
    with pytest.raises(ConfigError):
        set_caps(home, "", {NUMBER: 2})
    assert (home / "governor.json").read_text() == damaged


def test_caps_that_contradict_each_other_are_refused(home):
    home.mkdir()
    (home / "governor.json").write_text(json.dumps({NUMBER: 3}))
    with pytest.raises(ConfigError):
        set_caps(home, "", {NUMBER: 9, "hard_max": 3})
    assert content(home) == {NUMBER: 3}


def test_a_contradiction_that_an_older_file_holds_stands_in_nobodys_way(home):
    home.mkdir()
    (home / "governor.json").write_text(json.dumps({NUMBER: 9, "hard_max": 3, "adaptive": True}))
    set_caps(home, "openai", {NUMBER: 2})
    config = read_policy(home, Settings()).pool_config("anthropic")
    control = POLICIES[config.policy]
    assert (config.hard_max, control.cap(config, PoolState(dynamic_cap=8))) == (3, 3)
    # It is the ceiling of what is learned alone.
    assert control.cap(replace(config, adaptive=False), PoolState()) == 9


def test_keys_in_an_older_spelling_are_written_anew_like_all_others(home):
    home.mkdir()
    (home / "governor.json").write_text(
        json.dumps({"MaxGlobalAgents": 3, "Adaptive": True, "X": 1})
    )
    set_caps(home, "", {NUMBER: 2})
    assert content(home) == {"pools": {"anthropic": {NUMBER: 2, "X": 1}}}


def test_what_cannot_be_written_whole_leaves_the_old_file(home, monkeypatch):
    set_caps(home, "", {NUMBER: 2})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HostlerError):
        set_caps(home, "", {NUMBER: 3})
    assert content(home) == {"pools": {"anthropic": {NUMBER: 2}}}
    assert sorted(path.name for path in home.iterdir()) == ["governor.json", "governor.lock"]


def test_a_home_that_is_no_folder_is_a_clear_error(tmp_path):
    (tmp_path / "home").write_text("")
    with pytest.raises(HostlerError) as refused:
        set_caps(tmp_path / "home", "", {NUMBER: 3})
    assert refused.value.remedy


def set_many(home, pool):
    for number in range(1, 21):
        set_caps(home, pool, {NUMBER: number})


def test_two_who_write_at_once_lose_nothing(home):
    writers = [CONTEXT.Process(target=set_many, args=(home, f"pool-{n}")) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    pools = load_pools(home / "governor.json")
    assert {name: pool.max_global_agents for name, pool in pools.items()} == {
        f"pool-{n}": 20 for n in range(4)
    }


names = st.sampled_from(["anthropic", "openai", "x:y"])
tables = st.dictionaries(st.sampled_from([NUMBER, "theirs", "note"]), st.integers(0, 9))


@given(
    st.dictionaries(names, tables) | tables.filter(lambda table: table),
    names,
    st.integers(0, 9),
)
def test_only_what_was_named_changes(start, pool, number):
    flat = any(not isinstance(value, dict) for value in start.values())
    before = start if flat else {"top": 1, "pools": start}
    after = changed_caps(before, pool, {NUMBER: number})
    expected = {"anthropic": start} if flat else start
    theirs = {key: value for key, value in expected.get(pool, {}).items() if key != NUMBER}
    assert after["pools"] == {**expected, pool: {NUMBER: number, **theirs}}
    assert after.get("top") == before.get("top")
