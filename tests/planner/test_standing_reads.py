"""What the planner reads of the database, and what it leaves unread and unwritten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.planner import queue
from hostler.planner.dependencies import Blocker, DependencyState
from hostler.planner.queue import (
    UNFINISHED_STATES,
    BlockerChange,
    TaskQueue,
    read_blockers,
    read_graph,
    read_hopeless,
    read_queue,
    store_blockers,
)
from hostler.store.dependencies import TaskFacts
from hostler.store.tasks import OVER, Flow, IssueRef, Task, TaskState


class Rows:
    """Tasks and issues without a database, and what was asked of them."""

    def __init__(self, monkeypatch):
        self.tasks, self.issues, self.dependents, self.queued = {}, {}, [], []
        self.named, self.refs, self.runs_of, self.reads = [], [], [], 0
        for name, answer in {
            "tasks_named": self._named,
            "tasks_of_issues": self._of_issues,
            "issues_known": self._known,
            "last_runs": self._last_runs,
            "waiting_dependents": lambda tx, states: self.dependents,
            "tasks_in": lambda tx, states: self.queued if TaskState.QUEUED in states else [],
            "open_runs": lambda tx: [],
        }.items():
            monkeypatch.setattr(queue, name, answer)

    def _named(self, tx, names):
        self.named.append(set(names))
        assert len(self.named) < 50, "It goes round in a circle."
        return {name: self.tasks[name] for name in names if name in self.tasks}

    def _of_issues(self, tx, refs):
        self.refs.append([str(ref) for ref in refs])
        return {ref: [self.tasks[name] for name in self.issues.get(str(ref), ())] for ref in refs}

    def _known(self, tx, refs):
        self.reads += 1
        return {}

    def _last_runs(self, tx, names):
        self.runs_of.append(sorted(names))
        return {}

    def put(self, name, *depends_on, state=TaskState.QUEUED, attempt=0):
        self.tasks[name] = TaskFacts(name, state, attempt=attempt, depends_on=depends_on)


def task(name="a", *depends_on, **more):
    made = Task(name, "p", None, None, Flow.TASK, "T", "ann", TaskState.QUEUED, "2026", 1)
    return replace(made, depends_on=depends_on, **more)


@pytest.fixture
def rows(monkeypatch):
    return Rows(monkeypatch)


def test_a_task_that_nothing_can_hold_is_read_no_further(rows):
    assert read_blockers("tx", [task("a"), task("b", "c", attempt=1)]) == {}
    assert not rows.named and not rows.reads and not rows.runs_of


def test_tasks_that_nothing_holds_are_left_out(rows):
    rows.put("done", state=TaskState.DONE)
    rows.put("open")
    found = read_blockers("tx", [task("a", "done"), task("b", "open"), task("c")])
    assert [*found] == ["b"] and [one.name for one in found["b"]] == ["open"]


def test_a_begun_task_beside_a_waiting_one_is_not_looked_at(rows):
    rows.put("open")
    read_blockers("tx", [task("a", "open"), task("b", "other", attempt=1)])
    assert rows.named == [{"open"}]


def test_without_a_dependent_task_nothing_is_hopeless_and_nothing_is_read(rows):
    assert read_hopeless("tx") == {} and not rows.reads and not rows.runs_of
    rows.dependents = [TaskFacts("a", TaskState.QUEUED, depends_on=("gone",))]
    assert [*read_hopeless("tx")] == ["a"]


def test_unfinished_tasks_are_those_that_are_not_over():
    assert not {*UNFINISHED_STATES} & {*OVER} and {*UNFINISHED_STATES} | {*OVER} == {*TaskState}


def test_names_are_followed_once_each_also_around_a_circle(rows):
    rows.put("b", "c")
    rows.put("c", "b", "d")
    assert read_graph("tx", ["b"]) == {"b": ("c",), "c": ("b", "d")}
    assert rows.named == [{"b"}, {"c"}, {"d"}]


def test_whoever_has_begun_or_is_done_ends_the_way(rows):
    rows.put("begun", "far", attempt=1)
    rows.put("done", "far", state=TaskState.DONE)
    read_graph("tx", ["begun", "done"])
    assert rows.named == [{"begun", "done"}]


def test_issues_are_read_in_the_order_of_their_names(rows):
    names = [f"o/r#{number}" for number in (31, 2, 17, 9, 24, 5, 12, 40)]
    read_graph("tx", names)
    assert rows.refs == [sorted(names)]
    assert str(IssueRef.parse("o/r#2")) == "o/r#2"


def test_last_runs_are_read_only_of_tasks_for_which_they_can_stand(rows):
    rows.put("review", state=TaskState.AWAITING_FEEDBACK)
    rows.put("queued")
    rows.put("running", state=TaskState.RUNNING)
    rows.put("failed", state=TaskState.FAILED)
    read_blockers("tx", [task("a", "review", "queued", "running", "failed")])
    assert rows.runs_of == [["a", "queued", "review"]]


def test_a_queue_has_no_cap_unless_one_is_given(rows):
    rows.queued = [task("a"), task("kid", parent_task="a")]
    found = read_queue("tx")
    assert found.cap == 0 and [one.id for one in found.waiting] == ["a"]
    assert read_queue("tx", 3).cap == 3 and TaskQueue((), {}, {}, frozenset()).cap == 0


def test_what_is_no_news_is_not_written(monkeypatch):
    written = []
    monkeypatch.setattr(
        queue, "change_task", lambda tx, before, after: written.append(after) or after
    )
    held = (Blocker("b", DependencyState.QUEUED, "b is queued."),)
    noted = task("a", "b", blockers='[["b", false]]')
    assert store_blockers("tx", noted, held) == (noted, BlockerChange.NONE) and not written
    after, news = store_blockers("tx", task("a", "b"), held)
    assert (after, news) == (noted, BlockerChange.CHANGED) and written == [noted]


def test_the_first_unfinished_task_of_an_issue_is_told(rows):
    rows.issues = {"o/r#1": ("one", "two")}
    rows.put("one", state=TaskState.RUNNING)
    rows.put("two", state=TaskState.BLOCKED)
    (held,) = read_blockers("tx", [task("a", "o/r#1")])["a"]
    assert held.state is DependencyState.RUNNING
