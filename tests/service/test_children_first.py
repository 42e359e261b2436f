"""A task whose agent is done waits for its children with an agent at work."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import DecidedBy, RunVerdict
from hostler.config.settings import Tasks
from hostler.model import format_timestamp
from hostler.service.running import folder_runs, run_hooks
from hostler.store.tasks import Flow, Task, TaskState
from hostler.workflows import commands
from hostler.workflows.manual_tasks import CHILDREN_BLOCKER, is_waiting_for_children
from hostler.workflows.outcomes import RunEndFacts

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DONE = RunVerdict(Outcome.SUCCESS, DecidedBy.DONE, "It marked its task as done.")
FAILED = RunVerdict(Outcome.CRASH, DecidedBy.EXIT_CODE, "It crashed.")
PARENT = Task(
    "t1",
    "stable",
    None,
    None,
    Flow.TASK,
    "Tidy",
    "ann",
    TaskState.RUNNING,
    format_timestamp(NOW),
    1,
)
TX = object()


@pytest.fixture
def app():
    store = SimpleNamespace(read=lambda: nullcontext(TX))
    settings = SimpleNamespace(tasks=Tasks(child_wait_timeout_seconds=90))
    return SimpleNamespace(store=store, settings=settings)


@pytest.fixture
def children(monkeypatch):
    """The children with an agent at work, by what the database says."""
    found = ["child"]

    def active(tx, task):
        assert (tx, task) == (TX, "t1")
        return found

    monkeypatch.setattr(folder_runs, "active_children", active)
    return found


def test_a_task_that_is_done_waits_for_its_children_at_work(app, children):
    ending = folder_runs.wait_for_children_first(app, PARENT, DONE)
    assert ending is not None and ending.task == "t1"
    after = ending.rule(TX, PARENT, RunEndFacts(NOW)).task
    assert is_waiting_for_children(after) and after.state is TaskState.PARKED
    assert after.wake_at == format_timestamp(NOW + timedelta(seconds=90))
    assert after.reason == "It is done; 1 child task of it still at work."


def test_children_are_counted_when_the_end_is_stored(app, children):
    ending = folder_runs.wait_for_children_first(app, PARENT, DONE)
    children.append("another")
    assert "2 child tasks" in ending.rule(TX, PARENT, RunEndFacts(NOW)).task.reason


def test_without_children_at_work_nothing_is_waited_for(app, children):
    children.clear()
    assert folder_runs.wait_for_children_first(app, PARENT, DONE) is None


def test_a_task_that_is_not_done_waits_for_no_child(app, children):
    assert folder_runs.wait_for_children_first(app, PARENT, FAILED) is None


def test_a_task_waits_once_for_its_children(app, children):
    assert (
        folder_runs.wait_for_children_first(app, replace(PARENT, blockers=CHILDREN_BLOCKER), DONE)
        is None
    )


def test_a_finished_run_waits_for_children_before_anything_else(app, monkeypatch):
    """Whatever would follow from the run: nothing is closed, and nothing brought in."""
    waiting = object()
    monkeypatch.setattr(run_hooks, "wait_for_children_first", lambda *given: given and waiting)
    worker = object.__new__(run_hooks.RunHooks)
    worker._app = app
    assert worker._ending(PARENT, DONE, None) is waiting


def test_without_a_wait_a_run_in_a_folder_is_closed_there(app, monkeypatch):
    closed = object()
    monkeypatch.setattr(run_hooks, "wait_for_children_first", lambda *_: None)
    monkeypatch.setattr(run_hooks, "finish_in_folder", lambda *given: (closed, *given))
    worker = object.__new__(run_hooks.RunHooks)
    worker._app = app
    assert worker._ending(PARENT, DONE, None) == (closed, app, PARENT, DONE, None)


def test_children_with_an_open_run_are_at_work(monkeypatch):
    runs = [SimpleNamespace(task_id=name) for name in ("busy", "stranger")]
    below = {"t1": [SimpleNamespace(id=name) for name in ("busy", "idle")]}
    monkeypatch.setattr(commands, "open_runs", lambda tx: runs)
    monkeypatch.setattr(commands, "children_of", lambda tx, task: below[task])
    assert [child.id for child in commands.active_children(TX, "t1")] == ["busy"]
