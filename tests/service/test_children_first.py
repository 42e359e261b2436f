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
from hostler.service.running import run_hooks
from hostler.store.tasks import Flow, Task, TaskState
from hostler.workflows import commands, finish
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


LIMITS = Tasks(child_wait_timeout_seconds=90)


@pytest.fixture
def store():
    return SimpleNamespace(read=lambda: nullcontext(TX))


@pytest.fixture
def children(monkeypatch):
    """The children with a running agent, as the database says."""
    found = ["child"]

    def active(tx, task):
        assert (tx, task) == (TX, "t1")
        return found

    monkeypatch.setattr(finish, "active_children", active)
    return found


def test_a_task_that_is_done_waits_for_its_running_children(store, children):
    plan = finish.wait_for_children(store, PARENT, DONE, LIMITS)
    assert plan is not None and plan.task_id == "t1"
    after = plan.decide(TX, PARENT, RunEndFacts(NOW)).task
    assert is_waiting_for_children(after) and after.state is TaskState.PARKED
    assert after.wake_at == format_timestamp(NOW + timedelta(seconds=90))
    assert after.reason == "Done; waiting for 1 child task."


def test_children_are_counted_when_the_plan_is_applied(store, children):
    plan = finish.wait_for_children(store, PARENT, DONE, LIMITS)
    children.append("another")
    assert "2 child tasks" in plan.decide(TX, PARENT, RunEndFacts(NOW)).task.reason


def test_a_done_task_without_running_children_does_not_wait(store, children):
    children.clear()
    assert finish.wait_for_children(store, PARENT, DONE, LIMITS) is None


def test_a_task_that_is_not_done_waits_for_no_child(store, children):
    assert finish.wait_for_children(store, PARENT, FAILED, LIMITS) is None


def test_a_task_waits_only_once_for_its_children(store, children):
    waited = replace(PARENT, blockers=CHILDREN_BLOCKER)
    assert finish.wait_for_children(store, waited, DONE, LIMITS) is None


def hooks_of(store):
    hooks = object.__new__(run_hooks.RunHooks)
    hooks._app = SimpleNamespace(store=store, settings=SimpleNamespace(tasks=LIMITS))
    return hooks


def test_a_finished_run_waits_for_children_before_anything_else(store, monkeypatch):
    """Whatever else would follow from the run: nothing is finished or pushed."""
    waiting = object()
    monkeypatch.setattr(run_hooks, "wait_for_children", lambda *given: given and waiting)
    assert hooks_of(store)._plan_finish(PARENT, DONE, None) is waiting


def test_without_children_a_done_file_without_a_run_finishes_the_task(store, monkeypatch):
    monkeypatch.setattr(run_hooks, "wait_for_children", lambda *_: None)
    plan = hooks_of(store)._plan_finish(PARENT, DONE, None)
    assert plan.cause == finish.FolderRun(DONE)
    assert plan.decide(TX, PARENT, RunEndFacts(NOW)).task.state is TaskState.DONE


def test_children_with_an_open_run_are_at_work(monkeypatch):
    runs = [SimpleNamespace(task_id=name) for name in ("busy", "stranger")]
    below = {"t1": [SimpleNamespace(id=name) for name in ("busy", "idle")]}
    monkeypatch.setattr(commands, "open_runs", lambda tx: runs)
    monkeypatch.setattr(commands, "children_of", lambda tx, task: below[task])
    assert [child.id for child in commands.active_children(TX, "t1")] == ["busy"]
