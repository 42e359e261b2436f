"""A task whose agent is done waits for its children with an agent at work."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import DecidedBy, Verdict
from hostler.config.settings import Tasks
from hostler.flows import lineage
from hostler.flows.byhand import CHILDREN, awaits_children
from hostler.flows.outcomes import Facts
from hostler.model import stamp
from hostler.service import hand, work
from hostler.store.tasks import Flow, Task, TaskState

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DONE = Verdict(Outcome.SUCCESS, DecidedBy.DONE, "It marked its task as done.")
FAILED = Verdict(Outcome.CRASH, DecidedBy.EXIT_CODE, "It crashed.")
PARENT = Task(
    "t1", "stable", None, None, Flow.TASK, "Tidy", "ann", TaskState.RUNNING, stamp(NOW), 1
)
TX = object()


@pytest.fixture
def house():
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

    monkeypatch.setattr(hand, "active_children", active)
    return found


def test_a_task_that_is_done_waits_for_its_children_at_work(house, children):
    ending = hand.children_first(house, PARENT, DONE)
    assert ending is not None and ending.task == "t1"
    after = ending.rule(TX, PARENT, Facts(NOW)).task
    assert awaits_children(after) and after.state is TaskState.PARKED
    assert after.wake_at == stamp(NOW + timedelta(seconds=90))
    assert after.reason == "It is done; 1 child task of it still at work."


def test_children_are_counted_when_the_end_is_stored(house, children):
    ending = hand.children_first(house, PARENT, DONE)
    children.append("another")
    assert "2 child tasks" in ending.rule(TX, PARENT, Facts(NOW)).task.reason


def test_without_children_at_work_nothing_is_waited_for(house, children):
    children.clear()
    assert hand.children_first(house, PARENT, DONE) is None


def test_a_task_that_is_not_done_waits_for_no_child(house, children):
    assert hand.children_first(house, PARENT, FAILED) is None


def test_a_task_waits_once_for_its_children(house, children):
    assert hand.children_first(house, replace(PARENT, blockers=CHILDREN), DONE) is None


def test_a_finished_run_waits_for_children_before_anything_else(house, monkeypatch):
    """Whatever would follow from the run: nothing is closed, and nothing brought in."""
    waiting = object()
    monkeypatch.setattr(work, "children_first", lambda *given: given and waiting)
    worker = object.__new__(work.Work)
    worker._house = house
    assert worker._ending(PARENT, DONE, None) is waiting


def test_without_a_wait_a_run_in_a_folder_is_closed_there(house, monkeypatch):
    closed = object()
    monkeypatch.setattr(work, "children_first", lambda *_: None)
    monkeypatch.setattr(work, "close_in_folder", lambda *given: (closed, *given))
    worker = object.__new__(work.Work)
    worker._house = house
    assert worker._ending(PARENT, DONE, None) == (closed, house, PARENT, DONE, None)


def test_children_with_an_open_run_are_at_work(monkeypatch):
    runs = [SimpleNamespace(task_id=name) for name in ("busy", "stranger")]
    below = {"t1": [SimpleNamespace(id=name) for name in ("busy", "idle")]}
    monkeypatch.setattr(lineage, "open_runs", lambda tx: runs)
    monkeypatch.setattr(lineage, "children_of", lambda tx, task: below[task])
    assert [child.id for child in lineage.active_children(TX, "t1")] == ["busy"]
