"""The alarm for writes that GitHub took and that nobody can find there."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pytest

from hostler.clock import FakeClock
from hostler.service import wiring
from hostler.service.service_log import ServiceLog
from hostler.telemetry.names import TOKEN_RECONCILE_TIMEOUT, LogLevel


class Heard:
    """A log that keeps its events."""

    def __init__(self):
        self.events = []

    def event(self, name, **given):
        self.events.append((name, given))


def test_a_write_that_cannot_be_found_is_a_warning_in_the_log():
    log = Heard()
    row = SimpleNamespace(repo_full_name="octo/a", token="reply-1", scope_number=7)
    ServiceLog(log).never_seen(row, 2)
    said = {"repo": "octo/a", "token": "reply-1", "number": 7, "looks": 2}
    assert log.events == [(TOKEN_RECONCILE_TIMEOUT, said)]
    assert TOKEN_RECONCILE_TIMEOUT.name == "token_reconcile_timeout"
    assert TOKEN_RECONCILE_TIMEOUT.level is LogLevel.WARNING


@pytest.fixture
def made(monkeypatch):
    """What the service gives to its reconciler and to its sender."""
    found = {}
    monkeypatch.setattr(wiring, "OutboxSender", lambda *given, **more: found.update(sender=given))
    monkeypatch.setattr(wiring, "WriteReconciler", lambda *given: found.update(reconciler=given))
    return found


def test_the_service_gives_the_alarm_to_the_reconciler_with_its_patience(made):
    clock, service_log = FakeClock(), ServiceLog(Heard())
    hub = SimpleNamespace(urgent=object(), credentials=SimpleNamespace(account=object()))
    settings = SimpleNamespace(
        github=SimpleNamespace(seconds_between_writes=1.0),
        runtime=SimpleNamespace(action_token_unobserved_seconds=321),
    )
    app = SimpleNamespace(store=object(), hub=hub, settings=settings)
    deps = SimpleNamespace(app=app, clock=clock, service_log=service_log, observe=None)
    wiring._build_outbox_thread(deps)
    patience = timedelta(seconds=321)
    assert made["reconciler"] == (app.store, hub.urgent, clock, patience, service_log.never_seen)
