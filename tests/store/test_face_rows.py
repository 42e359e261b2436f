"""What faces ask for, on both databases: histories, pages, marks of tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.store.runs import Run, RunState, Sums, add_run, ended_since, newest_end
from hostler.store.tasks import (
    Flow,
    Task,
    TaskState,
    add_task,
    change_task,
    marks_of,
    newest_in,
    newest_order,
    note_gate,
    require_task,
    task_page,
    tasks_by_id,
    titles_of,
)

RUN = Run("r", "t", "barn", 1, 1, "work", "helper", "command", "p", "f", "2026-01-01")
TASK = Task("a", "barn", None, None, Flow.TASK, "Tidy", "ann", TaskState.QUEUED, "2026-01-01", 1)
LONG_AGO = "2000-01-01T00:00:00.000Z"
MOMENTS = ["2026-01-02T09:00:00.000Z", "2026-01-01T00:00:00.000Z"]


def put_run(tx, number, exited, running="2026-01-02T09:59:00.000Z", **more):
    values = {"state": RunState.ENDED, "outcome": "success", **more}
    run = replace(
        RUN, run=str(number), fence=number, running_at=running, exited_at=exited, **values
    )
    add_run(tx, run)


def test_ended_runs_are_summed_by_project_and_window(store):
    with store.write() as tx:
        put_run(tx, 1, "2026-01-02T10:00:00.500Z")
        put_run(tx, 2, "2026-01-02T10:00:00.500Z", outcome="crash")
        put_run(tx, 3, "2026-01-01T05:00:10.000Z", running="2026-01-01T05:00:00.000Z")
        put_run(tx, 4, "2025-12-31T05:00:10.000Z")
        put_run(tx, 5, "2026-01-02T10:00:00.000Z", project="stable", counted=False)
        put_run(tx, 6, "2026-01-02T09:30:00.000Z", project="stable")
        put_run(tx, 7, "2026-01-02T10:00:00.000Z", running=None, project="field")
    with store.read() as tx:
        found = ended_since(tx, MOMENTS, ["success"])
        assert newest_end(tx) == "2026-01-02T10:00:00.500Z"
    assert set(found) == {("barn", 0), ("barn", 1), ("stable", 0)}
    near = found["barn", 0]
    assert (near.count, near.failed) == (2, 1)
    assert near.seconds == pytest.approx(121.0, abs=0.01)
    assert near.squares == pytest.approx(2 * 60.5**2, abs=1.0)
    assert found["barn", 1].seconds == pytest.approx(10.0, abs=0.01)
    # It ended before it began, by a clock that was set back.
    assert found["stable", 0] == Sums(1, 0, 0.0, 0.0)


def test_without_runs_there_is_no_history(store):
    with store.read() as tx:
        assert ended_since(tx, MOMENTS, ["success"]) == {} and newest_end(tx) == ""


def put_tasks(tx):
    for order, (name, state) in enumerate(
        [("a", "queued"), ("b", "done"), ("c", "failed"), ("d", "failed")], start=1
    ):
        add_task(tx, replace(TASK, id=name, state=TaskState(state), order=order, title=f"T {name}"))


def test_pages_go_back_in_time_and_end(store):
    with store.write("tasks") as tx:
        put_tasks(tx)
    with store.read() as tx:
        assert [one.id for one in task_page(tx, 3)] == ["d", "c", "b"]
        assert [one.id for one in task_page(tx, 3, before="b")] == ["a"]
        failed = task_page(tx, 9, states=[TaskState.FAILED], project="barn")
        assert [one.id for one in failed] == ["d", "c"]
        assert task_page(tx, 9, project="stable") == [] == task_page(tx, 9, parent="a")
        assert [one.id for one in newest_in(tx, TaskState.FAILED, 1)] == ["d"]
        assert titles_of(tx, ["a", "d", "x"]) == {"a": "T a", "d": "T d"}


def test_marks_show_what_is_unfinished_what_is_new_and_every_change(store):
    def age(*names):
        with store.write("tasks") as tx:
            for name in names:
                tx.constant("UPDATE tasks SET updated_at = ? WHERE id = ?", (LONG_AGO, name))

    with store.write("tasks") as tx:
        put_tasks(tx)
    age("a", "b", "c", "d")
    with store.read() as tx:
        before = marks_of(tx, newest_order(tx), tx.now())
    assert (set(before.tasks), before.order) == ({"a"}, 4)
    with store.write("tasks") as tx:
        add_task(tx, replace(TASK, id="e", state=TaskState.DONE, order=5))
        note_gate(tx, "a", "cap")
    age("e")
    with store.read() as tx:
        after = marks_of(tx, before.order, before.read_at)
        assert set(tasks_by_id(tx, after.tasks)) == {"a", "e"}
    assert (set(after.tasks), after.order) == ({"a", "e"}, 5)
    assert after.tasks["a"] != before.tasks["a"]
    with store.write("tasks") as tx:
        task = require_task(tx, "a")
        change_task(tx, task, replace(task, state=TaskState.DONE))
    with store.read() as tx:
        assert set(marks_of(tx, after.order, after.read_at).tasks) == {"a"}
    age("a")
    with store.read() as tx:
        assert marks_of(tx, after.order, after.read_at).tasks == {}
