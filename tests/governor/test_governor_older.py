"""Older files: every shape is read, and the state in them moves to the database once."""

from __future__ import annotations

import json
import os
from contextlib import closing
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.config.pools import load_pools
from hostler.errors import ConfigError, HostlerError
from hostler.governor.adaptive.model import BreakerState, LeaseSlot, PoolState, RateLimitEvent
from hostler.governor.adaptive.state import dump_state, load_state
from hostler.governor.caps_file import move_state, states_in, without_state
from hostler.store import Store
from hostler.store.governor import all_pool_states, put_pool_state

AT, THEN = "2026-03-01T10:00:00Z", datetime(2026, 3, 1, 10, tzinfo=UTC)
CAPS = {"max_global_agents": 6, "adaptive": True, "hard_max": 20, "settle_seconds": 90}
STATE = {
    "dynamic_cap": 3,
    "last_decrease_at": AT,
    "last_rate_limit_at": AT,
    "last_probe_at": "0001-01-01T00:00:00Z",
    "rate_limit_events": 7,
    "settle_until": AT,
    "recent_rate_limit_events": [{"at": AT, "project": "ant", "bead": "t1"}],
    "recent_decreases": [AT],
    "breaker_state": "half-open",
    "breaker_open_at": AT,
    "breaker_break_seconds": 600,
    "breaker_reopen_count": 1,
    "probe_project": "ant",
    "probe_bead": "t2",
    "probe_admitted_at": AT,
    "last_dispatch_at": AT,
}
MOVED = PoolState(
    dynamic_cap=3,
    settle_until=THEN,
    last_decrease_at=THEN,
    last_rate_limit_at=THEN,
    rate_limit_events=7,
    recent_rate_limit_events=(RateLimitEvent(THEN, LeaseSlot("ant", "t1")),),
    recent_decreases=(THEN,),
    breaker_state=BreakerState.HALF_OPEN,
    breaker_open_at=THEN,
    breaker_break_seconds=600.0,
    breaker_reopen_count=1,
    probe=LeaseSlot("ant", "t2"),
    probe_admitted_at=THEN,
    last_dispatch_at=THEN,
)
SPELT = {"".join(word.title() for word in key.split("_")): value for key, value in STATE.items()}


@pytest.mark.parametrize("state", [STATE, SPELT], ids=["snake", "camel"])
@pytest.mark.parametrize("flat", [True, False])
def test_every_older_shape_is_read_with_its_state(state, flat):
    table = {**CAPS, **state, "theirs": [1]}
    content = table if flat else {"note": 1, "pools": {"": table, "openai": {**CAPS}}}
    assert states_in(content) == {"anthropic": MOVED}
    left = without_state(content)["pools"]
    assert left["anthropic" if flat else ""] == {**CAPS, "theirs": [1]}
    assert not states_in(without_state(content))


def test_a_file_before_any_of_this_has_no_state():
    assert states_in({}) == states_in({"max_global_agents": 4}) == states_in({"pools": {}}) == {}


@given(st.dictionaries(st.sampled_from(sorted(STATE)), st.none() | st.integers() | st.text()))
def test_damaged_state_breaks_nothing_and_widens_nothing(state):
    for known in states_in({**CAPS, **state}).values():
        assert load_state(dump_state(known)) == known
        if type(state.get("dynamic_cap")) is str:
            assert known.dynamic_cap == 1


@pytest.fixture
def old_home(sqlite_database):
    path = sqlite_database.home / "governor.json"
    path.write_text(json.dumps({**CAPS, **STATE, "theirs": 1}))
    return sqlite_database


def states(database):
    with closing(database.open()) as store, store.read() as tx:
        return {pool: load_state(text) for pool, text in all_pool_states(tx).items()}


def test_a_legacy_file_migrates_into_the_anthropic_pool_with_every_field(old_home):
    path = old_home.home / "governor.json"
    with closing(old_home.open()) as store:
        assert move_state(old_home.home, store)
        assert not move_state(old_home.home, store)
    assert states(old_home) == {"anthropic": MOVED}
    assert json.loads(path.read_text()) == {"pools": {"anthropic": {**CAPS, "theirs": 1}}}
    assert load_pools(path)["anthropic"].hard_max == 20


def test_what_the_database_knows_already_is_newer(old_home):
    newer = PoolState(dynamic_cap=5)
    with closing(old_home.open()) as store:
        with store.write("admission") as tx:
            put_pool_state(tx, "anthropic", dump_state(newer))
        assert move_state(old_home.home, store)
    assert states(old_home) == {"anthropic": newer}


def test_a_crash_between_both_loses_nothing_and_repeats_nothing(old_home, monkeypatch):
    before = (old_home.home / "governor.json").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    with closing(old_home.open()) as store:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", full)
            patch.setattr(os, "rename", full)
            with pytest.raises((HostlerError, OSError)):
                move_state(old_home.home, store)
        assert (old_home.home / "governor.json").read_bytes() == before
        assert move_state(old_home.home, store)
    assert states(old_home) == {"anthropic": MOVED}


def test_what_somebody_wrote_meanwhile_is_left_for_the_next_look(old_home, monkeypatch):
    path = old_home.home / "governor.json"
    written = json.dumps({**CAPS, "dynamic_cap": 9})
    once = Store.write

    def write(store, *scopes, **more):
        path.write_text(written)
        return once(store, *scopes, **more)

    with closing(old_home.open()) as store:
        monkeypatch.setattr(Store, "write", write)
        assert move_state(old_home.home, store)
    assert path.read_text() == written
    assert states(old_home) == {"anthropic": MOVED}


def test_a_damaged_file_is_an_error_and_stays(old_home):
    path = old_home.home / "governor.json"
    path.write_text('{"dynamic_cap": 3, "max_global_agents": "many"}')
    with closing(old_home.open()) as store, pytest.raises(ConfigError):
        move_state(old_home.home, store)
    assert "many" in path.read_text()
    assert states(old_home) == {}
