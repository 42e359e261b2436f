"""A service whose pools learn: its cap follows, its starts keep a distance, people hear of it."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from io import StringIO

import pytest
from intake_yard import lay_database
from service_town import Town
from test_service_limits import PLAY, explained
from test_service_tasks import order, put, reach

from hostler.clock import FakeClock
from hostler.config.settings import Settings
from hostler.governor.adaptive.model import BreakerState, PoolState
from hostler.governor.adaptive.state import dump_state, load_state
from hostler.service.context import open_or_create_store
from hostler.service.pool_admin import AdaptivePoolReporter, PolicyCache
from hostler.service.service_log import ServiceLog
from hostler.store.governor import find_pool_state, put_pool_state
from hostler.store.tasks import TaskState
from hostler.telemetry import names
from hostler.telemetry.logs import LogDestinations
from hostler.telemetry.metrics import metrics


def allow(home, **caps):
    home.mkdir(exist_ok=True)
    pool = {"max_global_agents": 4, "adaptive": True, **caps}
    (home / "governor.json").write_text(json.dumps({"pools": {"anthropic": pool}}))


def known(service):
    with service.app.store.read() as tx:
        return load_state(find_pool_state(tx, "anthropic"))


def test_an_agent_that_dies_of_a_burst_lowers_the_cap_and_parks_nobody(found_town):
    play = PLAY.format(reason="rate_limited", time="retry_after_seconds = 3600.0")
    town: Town = found_town(play=play)
    allow(town.home, min_dispatch_interval_seconds=0.001)
    with town.service() as service:
        reach(service, put(service, order(town, "Spend it.")), TaskState.PARKED)
        # It was refused once while it lived, and once for good.
        assert (known(service).dynamic_cap, known(service).rate_limit_events) == (2, 2)
        service.until(lambda: metrics.value(names.GOVERNOR_CAP, pool="anthropic") == 2)
        reach(service, put(service, order(town, "Tidy up.")), TaskState.DONE)


def test_the_next_start_waits_for_its_distance_and_comes_by_itself(found_town):
    play = PLAY.format(reason="quota", time="status = 429")
    town: Town = found_town(play=play)
    allow(town.home, min_dispatch_interval_seconds=3.0)
    with town.service() as service:
        first, second = (put(service, order(town, f"Tidy up {n}.")) for n in range(2))
        service.until(lambda: any(task.gate == "spacing" for task in service.all_tasks()))
        held = [explained(service, task).denial for task in (first, second)]
        assert "spacing" in {one.gate for one in held if one}
        for task in (first, second):
            reach(service, task, TaskState.DONE)


@pytest.fixture
def app(tmp_path):
    """A store, its policies, a journal, and what both say."""
    home, told, lines = tmp_path / "home", [], StringIO()
    allow(home, hard_max=8)
    clock = FakeClock()
    service_log = ServiceLog(LogDestinations(clock, None, terminal=lines).log, told.append)
    lay_database(home)
    with closing(open_or_create_store(home, None, clock)) as store:
        policies = PolicyCache(home, Settings(), told.append, store)
        yield store, policies, AdaptivePoolReporter(store, policies, service_log), told, lines


def learn(store, state):
    with store.write("admission") as tx:
        put_pool_state(tx, "anthropic", dump_state(state))


def test_caps_and_breakers_are_told_when_they_change(app):
    store, _, caps, told, lines = app
    met = PoolState(dynamic_cap=4, rate_limit_events=1)
    learn(store, met)
    caps.report_changes()
    assert (told, lines.getvalue()) == ([], "")
    learn(store, replace(met, dynamic_cap=2, breaker_state=BreakerState.OPEN))
    caps.report_changes()
    caps.report_changes()
    assert len(told) == 1 and "refuses too often" in told[0]
    assert lines.getvalue().count("governor_cap_changed") == 1
    assert metrics.value(names.GOVERNOR_BREAKER, pool="anthropic") == 2
    learn(store, met)
    caps.report_changes()
    assert "answers" in told[1]
    assert metrics.value(names.GOVERNOR_BREAKER, pool="anthropic") == 0
    assert metrics.value(names.GOVERNOR_RATE_LIMIT_EVENTS, pool="anthropic") == 1


def test_a_service_moves_older_state_when_it_starts_and_when_it_looks(app, tmp_path):
    store, policies, *_ = app
    path = tmp_path / "home" / "governor.json"
    path.write_text(json.dumps({"max_global_agents": 4, "dynamic_cap": 3, "adaptive": True}))
    assert policies.current().cap("anthropic") == 4
    policies.tidy()
    with store.read() as tx:
        assert load_state(find_pool_state(tx, "anthropic")) == PoolState(dynamic_cap=3)
    caps = {"max_global_agents": 4, "adaptive": True}
    assert json.loads(path.read_text()) == {"pools": {"anthropic": caps}}


def test_a_file_that_cannot_be_written_is_told_and_left_alone(app, tmp_path, monkeypatch):
    _, policies, _, told, _ = app
    path = tmp_path / "home" / "governor.json"
    text = json.dumps({"max_global_agents": 4, "dynamic_cap": 3})
    path.write_text(text)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    policies.tidy()
    assert len(told) == 1 and path.read_text() == text
    assert policies.current().cap("anthropic") == 4
