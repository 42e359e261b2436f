"""Lines about tasks: each change once, and no row is read while nobody commits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from intake_yard import database
from why_stage import Stage

from hostler.clock import FakeClock
from hostler.errors import StoreBusy
from hostler.service.tasks import summary
from hostler.service.tasks.summary import TaskFollower
from hostler.store.tasks import TaskState, change_task, require_task


class Watched:
    """A store that counts how often it is read."""

    def __init__(self, store):
        self._store = store
        self.reads = 0
        self.busy = False

    def change_mark(self):
        return self._store.change_mark()

    def read(self):
        self.reads += 1
        if self.busy:
            raise StoreBusy("the database", 5.0)
        return self._store.read()


@pytest.fixture
def stage():
    clock = FakeClock()
    with database(clock) as store:
        yield Stage(store, clock)


def become(stage, name, state):
    with stage.store.write("tasks") as tx:
        task = require_task(tx, name)
        change_task(tx, task, replace(task, state=state))


def test_without_a_commit_no_row_is_read(stage):
    told, store = [], Watched(stage.store)
    follower = TaskFollower(store, told.append)
    task = stage.put()
    for _ in range(5):
        follower.report_changes()
    assert store.reads == 1 and len(told) == 1 and task.id in told[0]
    become(stage, task.id, TaskState.RUNNING)
    for _ in range(5):
        follower.report_changes()
    assert store.reads == 2 and "running" in told[1]


def test_a_look_that_failed_is_made_again(stage):
    told, store = [], Watched(stage.store)
    follower = TaskFollower(store, told.append)
    stage.put()
    store.busy = True
    with pytest.raises(StoreBusy):
        follower.report_changes()
    store.busy = False
    follower.report_changes()
    assert len(told) == 1


def test_the_end_of_a_task_is_told_once(stage):
    told = []
    follower = TaskFollower(stage.store, told.append)
    task, other = stage.put(), stage.put()
    follower.report_changes()
    become(stage, task.id, TaskState.DONE)
    follower.report_changes()
    become(stage, other.id, TaskState.RUNNING)
    follower.report_changes()
    assert told[2:] == [f"{task.id}  task: done", f"{other.id}  task: running"]


def test_only_those_that_are_named_are_told_of(stage):
    told = []
    task, other = stage.put(), stage.put()
    follower = TaskFollower(stage.store, told.append, {task.id})
    follower.report_changes()
    become(stage, other.id, TaskState.DONE)
    become(stage, task.id, TaskState.DONE)
    follower.report_changes()
    assert len(told) == 2 and all(line.startswith(f"{task.id} ") for line in told)


def test_what_is_not_told_is_no_news(stage):
    told = []
    follower = TaskFollower(stage.store, told.append)
    task = stage.put()
    become(stage, task.id, TaskState.RUNNING)
    follower.report_changes()
    with stage.store.write("tasks") as tx:
        before = require_task(tx, task.id)
        # While an agent is at work, its line has no reason in it.
        change_task(tx, before, replace(before, reason="Tried again.", note="Something else."))
    follower.report_changes()
    assert told == [f"{task.id}  task: running"]


def test_only_what_has_changed_is_read_whole(stage, monkeypatch):
    read = []
    named = summary.tasks_named
    monkeypatch.setattr(
        summary, "tasks_named", lambda tx, names: read.append(list(names)) or named(tx, names)
    )
    follower = TaskFollower(stage.store, lambda _: None)
    task, *others = [stage.put() for _ in range(5)]
    follower.report_changes()
    become(stage, task.id, TaskState.RUNNING)
    follower.report_changes()
    assert sorted(read[0]) == sorted(one.id for one in (task, *others)) and read[1] == [task.id]
