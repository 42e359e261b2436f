"""The edge, on both databases: rows become blockers, graphs, queues and notes."""

from __future__ import annotations

import json

import pytest
from planner_yard import SCOPES, Yard, add, starting

from hostler.model import RepoName
from hostler.planner.dependencies import DependencyCycle, DependencyState, require_no_cycle
from hostler.planner.queue import (
    BlockerChange,
    SubmissionResult,
    SubmissionStatus,
    read_blockers,
    read_graph,
    read_hopeless,
    read_occupied,
    read_queue,
    store_blockers,
    submission_result,
)
from hostler.store import Transaction
from hostler.store.dependencies import CLOSED, MISSING, OPEN, repository_spellings
from hostler.store.runs import open_runs
from hostler.store.tasks import Flow, TaskState, require_task, tasks_in


def held(yard: Yard, name: str) -> list[tuple[str, DependencyState, bool]]:
    with yard.store.read() as tx:
        found = read_blockers(tx, [require_task(tx, name)]).get(name, ())
    return [(one.name, one.state, one.hopeless) for one in found]


def test_a_task_waits_until_all_that_it_names_is_done(yard: Yard):
    yard.add("a")
    yard.add("b")
    yard.add("c", "a", "b")
    assert [name for name, *_ in held(yard, "c")] == ["a", "b"]
    yard.set("a", state=TaskState.DONE)
    assert held(yard, "c") == [("b", DependencyState.QUEUED, False)]
    yard.set("b", state=TaskState.DONE)
    assert held(yard, "c") == []


@pytest.mark.parametrize(
    ("outcome", "state", "pull", "ready"),
    [
        ("success", TaskState.AWAITING_FEEDBACK, 7, True),
        ("success", TaskState.QUEUED, 7, True),
        ("success", TaskState.RETRYING, None, False),
        ("success", TaskState.BLOCKED, 7, False),
        ("success", TaskState.STOPPED, 7, False),
        ("crash", TaskState.AWAITING_FEEDBACK, 7, False),
        (None, TaskState.AWAITING_FEEDBACK, 7, False),
    ],
)
def test_a_good_run_stands_for_its_task_while_nothing_of_it_is_open(
    yard: Yard, outcome, state, pull, ready
):
    yard.add("a", issue=1)
    yard.run("a", "crash", state=TaskState.RETRYING)
    yard.run("a", outcome, state=state, pr_number=pull)
    yard.add("b", "a")
    assert (held(yard, "b") == []) is ready


def test_a_later_run_counts_and_not_an_earlier_one(yard: Yard):
    yard.add("a", issue=1)
    yard.add("b", "a")
    yard.run("a", "success", state=TaskState.AWAITING_FEEDBACK, pr_number=7)
    assert held(yard, "b") == []
    yard.run("a", None)
    assert held(yard, "b") == [("a", DependencyState.RUNNING, False)]


def test_an_issue_stands_for_all_its_tasks_however_its_repository_is_spelled(yard: Yard):
    yard.add("design", issue=7, flow=Flow.DESIGN, repo_full_name="Octo/Stable")
    yard.add("waiting", "octo/stable#7")
    assert held(yard, "waiting") == [("octo/stable#7", DependencyState.QUEUED, False)]
    yard.set("design", state=TaskState.DONE)
    assert held(yard, "waiting") == []
    yard.add("following", issue=7, flow=Flow.IMPLEMENTATION, repo_full_name="octo/stable")
    assert held(yard, "waiting") == [("octo/stable#7", DependencyState.QUEUED, False)]


def test_repositories_are_found_in_every_spelling(yard: Yard):
    for number, name in enumerate(("b/r", "B/r", "a/R", "c/r", "c/r")):
        yard.add(f"t{number}", issue=number + 1, repo_full_name=name)
    yard.add("none")
    with yard.store.read() as tx:
        found = {key: sorted(names) for key, names in repository_spellings(tx).items()}
    assert found == {"a/r": ["a/R"], "b/r": ["B/r", "b/r"], "c/r": ["c/r"]}


def test_an_issue_without_a_task_is_ready_when_it_is_closed(yard: Yard):
    yard.add("a", "octo/stable#1", "octo/barn#2")
    assert [standing for _, standing, _ in held(yard, "a")] == [DependencyState.UNKNOWN] * 2
    yard.see(1, OPEN)
    yard.see(2, MISSING, RepoName("octo", "barn"))
    assert held(yard, "a") == [
        ("octo/stable#1", DependencyState.OPEN, False),
        ("octo/barn#2", DependencyState.MISSING, True),
    ]
    yard.see(1, CLOSED)
    yard.see(2, CLOSED, RepoName("octo", "barn"))
    assert held(yard, "a") == []


def test_who_has_begun_is_held_by_nobody_until_it_begins_anew(yard: Yard):
    yard.add("a", "nobody")
    yard.run("a", "crash", state=TaskState.RETRYING)
    assert held(yard, "a") == []
    yard.set("a", state=TaskState.QUEUED, attempt=0)
    assert held(yard, "a") == [("nobody", DependencyState.MISSING, True)]


def test_chains_that_can_never_proceed_are_reported_whole(yard: Yard):
    yard.add("root", state=TaskState.FAILED, reason="It fell.")
    yard.add("one", "root")
    yard.add("two", "octo/stable#5")
    yard.add("issue", "one", issue=5)
    yard.add("fine", "two-not")
    yard.add("two-not")
    with yard.store.read() as tx:
        stuck = read_hopeless(tx)
    assert set(stuck) == {"one", "two", "issue"}
    assert stuck["two"][0].sentence == "octo/stable#5 waits for root. root has failed: It fell."
    yard.set("root", state=TaskState.DONE)
    with yard.store.read() as tx:
        assert read_hopeless(tx) == {}


def test_a_circle_is_named_before_anything_changes(yard: Yard):
    yard.add("a", issue=1)
    yard.add("b", "octo/stable#1", issue=2)
    yard.add("c", "b")
    with yard.store.write(*SCOPES) as tx, pytest.raises(DependencyCycle) as caught:
        require_no_cycle(read_graph(tx, ["c"]), "a", ["c"])
    assert caught.value.path == ("octo/stable#1", "c", "b", "octo/stable#1")
    with yard.store.read() as tx:
        assert require_task(tx, "a").depends_on == ()
        # Whoever has begun, or is done, closes no circle.
        require_no_cycle(read_graph(tx, ["c"]), "d", ["c"])
    yard.run("b", None)
    with yard.store.read() as tx:
        require_no_cycle(read_graph(tx, ["c"]), "a", ["c"])


def test_what_holds_a_task_is_noted_and_told_once(yard: Yard):
    yard.add("a")
    yard.add("b")
    yard.add("c", "a", "b")

    def note() -> BlockerChange:
        with yard.store.write(*SCOPES) as tx:
            present = require_task(tx, "c")
            after, news = store_blockers(tx, present, read_blockers(tx, [present]).get("c", ()))
            assert require_task(tx, "c") == after
        return news

    assert [note(), note()] == [BlockerChange.CHANGED, BlockerChange.NONE]
    with yard.store.read() as tx:
        assert json.loads(require_task(tx, "c").blockers) == [["a", False], ["b", False]]
    # Steps of what is waited for are no news; lost hope is.
    yard.run("a", None)
    assert note() is BlockerChange.NONE
    yard.set("b", state=TaskState.FAILED)
    assert [note(), note()] == [BlockerChange.CHANGED, BlockerChange.NONE]
    for name in ("a", "b"):
        yard.set(name, state=TaskState.DONE)
    assert [note(), note()] == [BlockerChange.CLEAR, BlockerChange.NONE]
    with yard.store.read() as tx:
        assert require_task(tx, "c").blockers == ""


def test_the_queue_is_first_come_with_positions_among_those_that_can_start(yard: Yard):
    yard.add("b")
    yard.add("a", "b")
    yard.add("child", parent_task="b")
    yard.add("c")
    yard.add("d", order=0)
    yard.add("over", state=TaskState.DONE)
    with yard.store.read() as tx:
        queue = read_queue(tx, cap=2)
        tasks = {task.id: task for task in tasks_in(tx, list(TaskState))}
    assert [task.id for task in queue.waiting] == ["d", "b", "a", "c"]
    assert queue.positions == {"d": 1, "b": 2, "c": 3} and set(queue.held) == {"a"}
    assert [task.id for task in starting(queue)] == ["d", "b"]
    assert submission_result(queue, tasks["b"]) == SubmissionResult(SubmissionStatus.STARTED)
    assert submission_result(queue, tasks["c"]) == SubmissionResult(SubmissionStatus.QUEUED, 3)
    assert submission_result(queue, tasks["a"]) == SubmissionResult(SubmissionStatus.QUEUED)
    assert submission_result(queue, tasks["child"]) == SubmissionResult(SubmissionStatus.STARTED)


def test_places_are_taken_by_running_roots_and_by_agents_that_are_still_there(yard: Yard):
    yard.add("running")
    yard.run("running", None)
    yard.add("stopped")
    yard.run("stopped", None, state=TaskState.STOPPED)
    yard.add("child", parent_task="running")
    yard.run("child", None)
    yard.add("ours", state=TaskState.RUNNING, finishing=True)
    yard.add("gone")
    yard.run("gone", "success", state=TaskState.DONE)
    with yard.store.write(*SCOPES) as tx:
        tx.constant("DELETE FROM tasks WHERE id = ?", ("stopped",))
    with yard.store.read() as tx:
        assert len(open_runs(tx)) == 3
        assert read_occupied(tx) == {"running", "stopped", "ours"}


def test_any_number_of_names_is_asked_for(yard: Yard):
    names = [f"t{number}" for number in range(30)]
    with yard.store.write(*SCOPES) as tx:
        for batch in range(40):
            add(tx, f"w{batch}", *(f"{name}-{batch}" for name in names))
            add(tx, f"i{batch}", *(f"octo/stable#{30 * batch + n + 1}" for n in range(30)))
    with yard.store.read() as tx:
        found = read_blockers(tx, tasks_in(tx, [TaskState.QUEUED]))
    assert len(found) == 80 and all(len(one) == 30 for one in found.values())


def test_the_number_of_questions_does_not_grow_with_the_queue(yard: Yard, monkeypatch):
    questions: list[object] = []
    execute = Transaction.execute

    def counting(tx: Transaction, statement, values=None):
        questions.append(statement)
        return execute(tx, statement, values)

    monkeypatch.setattr(Transaction, "execute", counting)
    asked = []
    for round_ in range(2):
        with yard.store.write(*SCOPES) as tx:
            for number in range(20):
                add(tx, f"r{round_}-{number}", "octo/stable#1")
                add(tx, f"after-{round_}-{number}", f"r{round_}-{number}")
        questions.clear()
        with yard.store.read() as tx:
            assert len(read_queue(tx).held) == 40 * (round_ + 1)
            read_hopeless(tx)
        asked.append(len(questions))
    assert asked[0] == asked[1]
