"""Damage of a pool's file, and of what was learned of it, reaches people once and in words."""

from __future__ import annotations

import json
from contextlib import closing
from io import StringIO

import pytest

from hostler.clock import FakeClock
from hostler.config.settings import Settings
from hostler.governor.adaptive.controller import reset
from hostler.service.pool_admin import AdaptivePoolReporter, PolicyCache
from hostler.service.service_log import ServiceLog
from hostler.store.governor import put_pool_state
from hostler.telemetry.logs import LogDestinations

LEARNS = {"pools": {"anthropic": {"max_global_agents": 4, "adaptive": True}}}


@pytest.fixture
def house(sqlite_database):
    """A store, its policies, a journal, and what both say."""
    told, lines, clock = [], StringIO(), FakeClock()
    (sqlite_database.home / "governor.json").write_text(json.dumps(LEARNS))
    journal = ServiceLog(LogDestinations(clock, None, terminal=lines).log, told.append)
    with closing(sqlite_database.open(clock)) as store:
        policies = PolicyCache(sqlite_database.home, Settings(), journal.broke, store)
        yield store, policies, journal, told, lines


def learn(store, text):
    with store.write("admission") as tx:
        reset(tx, "anthropic")
        put_pool_state(tx, "anthropic", text)


def test_a_service_tells_of_damage_once_and_again_after_it_was_mended(house):
    store, policies, journal, told, lines = house
    caps = AdaptivePoolReporter(store, policies, journal)
    for times in (1, 2):
        learn(store, '{"dynamic_cap":')
        caps.report_changes()
        caps.report_changes()
        assert sum("is damaged" in line for line in told) == times
        assert lines.getvalue().count("governor_damaged") == times
        learn(store, '{"dynamic_cap":3}')
        caps.report_changes()


def test_mistakes_in_the_file_are_named_with_the_file(house, sqlite_database):
    _, policies, _, told, _ = house
    path = sqlite_database.home / "governor.json"
    path.write_text('{"max_global_agents": "many"}')
    assert policies.current().cap("anthropic") == 4
    (said,) = told
    assert str(path) in said and 'max_global_agents: expected a whole number, found "many"' in said
