"""The grace after which a running task without a run counts as lost is the configured one."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from hostler.clock import FakeClock
from hostler.config.settings import Settings, Tasks
from hostler.model import format_timestamp
from hostler.service.scheduling import dispatch
from hostler.service.scheduling.dispatch import RunMonitor
from hostler.store.tasks import Flow, Task, TaskState

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Rows:
    """A store whose only rows are running tasks that began ten minutes ago."""

    def __init__(self, *names: str) -> None:
        since = format_timestamp(NOW - timedelta(minutes=10))
        first = Task("t", "p", None, None, Flow.TASK, "Tidy", "ann", TaskState.RUNNING, since, 1)
        self.tasks = [replace(first, id=name) for name in names]

    @contextmanager
    def read(self):
        yield SimpleNamespace(now=lambda: NOW)


@pytest.mark.parametrize("grace", [0.5, 5.0, 60.0])
def test_a_running_task_without_a_run_is_lost_after_the_grace(monkeypatch, grace):
    rows, clock = Rows("lost"), FakeClock()
    monkeypatch.setattr(dispatch, "tasks_in", lambda tx, states: rows.tasks)
    monkeypatch.setattr(dispatch, "open_runs", lambda tx: [])
    settings = Settings(tasks=Tasks(planner_grace_seconds=grace))
    app = SimpleNamespace(store=rows, settings=settings)
    workers = SimpleNamespace(names=lambda: set())
    monitor = RunMonitor(app, None, None, None, workers, clock)
    assert monitor.find_lost_tasks() == [] and monitor.seconds_left() == grace
    clock.advance(grace - 0.1)
    assert monitor.find_lost_tasks() == []
    clock.advance(0.1)
    assert monitor.find_lost_tasks() == rows.tasks


def test_without_a_grace_the_monitor_does_not_spin(monkeypatch):
    rows, clock = Rows("lost"), FakeClock()
    monkeypatch.setattr(dispatch, "tasks_in", lambda tx, states: rows.tasks)
    monkeypatch.setattr(dispatch, "open_runs", lambda tx: [])
    settings = Settings(tasks=Tasks(planner_grace_seconds=0))
    app = SimpleNamespace(store=rows, settings=settings)
    workers = SimpleNamespace(names=lambda: set())
    monitor = RunMonitor(app, None, None, None, workers, clock)
    assert monitor.find_lost_tasks() == rows.tasks and (monitor.seconds_left() or 0.0) > 0
