"""Rows of tasks, pull requests and remarks, on both databases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.clock import FakeClock
from hostler.errors import StoreConflict
from hostler.model import RepoName
from hostler.store.dependencies import CLOSED, MISSING, OPEN, issues_seen, note_issue
from hostler.store.inbox import (
    FeedbackEvent,
    InboxRow,
    add_inbox_row,
    is_newest,
    record_feedback_event,
    rows_by_key,
    rows_of_thread,
    supersede,
    waiting_keys,
)
from hostler.store.pull_requests import (
    Floors,
    PullRow,
    PullStatus,
    add_pull,
    change_pull,
    comment_floors,
    find_pull,
    pulls_in,
    raise_floors,
    watched_heads,
)
from hostler.store.repositories import add_repository, rename_repository
from hostler.store.tasks import (
    Flow,
    Task,
    TaskState,
    add_task,
    change_task,
    children_of,
    find_task,
    hand_task_id,
    next_order,
    note_gate,
    require_task,
    task_id,
    tasks_in,
    tasks_of_issue,
)

REPO = RepoName("octo", "stable")


def task(tx, issue: int | None = 7, flow: Flow = Flow.BUGFIX, **more) -> Task:
    made = Task(
        id=task_id(tx.now(), "stable", issue or 0, flow),
        project="stable",
        repo_full_name=str(REPO) if issue else None,
        issue_number=issue,
        flow=flow,
        title="Crash",
        author="ann",
        state=TaskState.QUEUED,
        state_since=tx.stamp(),
        order=next_order(tx),
    )
    return replace(made, **more)


def test_a_task_comes_back_as_it_was_stored(store):
    with store.write("tasks") as tx:
        made = task(tx, turn_keys=("a", "b"), finishing=True, pr_number=2**40)
        add_task(tx, made)
        found = require_task(tx, made.id)
    assert replace(found, created_at="", updated_at="") == made
    assert found.created_at and found.repo == REPO and found.number == 7


def test_an_issue_has_one_task_per_flow(store):
    with store.write("tasks") as tx:
        add_task(tx, task(tx))
    with pytest.raises(StoreConflict), store.write("tasks") as tx:
        add_task(tx, task(tx, id="other"))
    with store.write("tasks") as tx:
        add_task(tx, task(tx, flow=Flow.IMPLEMENTATION))
        found = tasks_of_issue(tx, REPO, 7)
    assert [(one.flow, one.order) for one in found] == [
        (Flow.BUGFIX, 1),
        (Flow.IMPLEMENTATION, 2),
    ]


def test_tasks_by_hand_have_no_issue_and_may_be_many(store):
    with store.write("tasks") as tx:
        for name in ("one", "two"):
            add_task(tx, task(tx, issue=None, id=name))
        assert [one.id for one in tasks_in(tx, [TaskState.QUEUED])] == ["one", "two"]
        assert tasks_in(tx, [TaskState.QUEUED], REPO) == []


def test_a_task_by_hand_keeps_what_was_asked(store):
    with store.write("tasks") as tx:
        asked = task(
            tx,
            issue=None,
            flow=Flow.TASK,
            prompt="Tidy\nup \u2028 and \U0001f40e",
            cwd="/somewhere",
            env=("API_KEY",),
            depends_on=("one", "octo/stable#7"),
            wall_limit_minutes=5,
            max_restarts=0,
            gate="pool",
            gate_since=tx.stamp(),
        )
        add_task(tx, asked)
        found = require_task(tx, asked.id)
    assert replace(found, created_at="", updated_at="") == asked
    assert found.by_hand


def test_names_of_tasks_by_hand_are_readable_and_never_taken_twice(store):
    names = []
    with store.write("tasks") as tx:
        for _ in range(3):
            name = hand_task_id(tx, "My Stable", "Tidy up, please! And more than thirty letters")
            add_task(tx, task(tx, issue=None, id=name))
            names.append(name)
        assert hand_task_id(tx, "!", "?").endswith("-project-task")
    first = names[0]
    assert first.endswith("-my-stable-tidy-up-please-and-more-than-t")
    assert names == [first, f"{first}-2", f"{first}-3"]


def test_children_are_found_by_their_parent(store):
    with store.write("tasks") as tx:
        for name, parent in (("a", None), ("b", "a"), ("c", "a"), ("d", "b")):
            add_task(tx, task(tx, issue=None, id=name, parent_task=parent))
        assert [one.id for one in children_of(tx, "a")] == ["b", "c"]


def test_what_is_known_of_an_issue_is_its_last_state(store):
    with store.write("tasks") as tx:
        note_issue(tx, REPO, 7, OPEN, "Crash")
        note_issue(tx, REPO, 7, CLOSED, "Crash!")
        note_issue(tx, RepoName("octo", "barn"), 7, MISSING)
        wanted = [("octo/stable", 7), ("octo/barn", 7), ("octo/barn", 8)]
        seen = issues_seen(tx, wanted)
        assert issues_seen(tx, []) == {}
    assert {key: (one.state, one.title) for key, one in seen.items()} == {
        ("octo/stable", 7): ("closed", "Crash!"),
        ("octo/barn", 7): ("missing", ""),
    }


def test_a_change_says_what_it_expects(store, clock: FakeClock):
    with store.write("tasks") as tx:
        add_task(tx, task(tx))
        (before,) = tasks_in(tx, [TaskState.QUEUED])
    clock.advance(5)
    with store.write("tasks") as tx:
        after = change_task(tx, before, replace(before, state=TaskState.RUNNING, attempt=1))
        same = change_task(tx, after, replace(after, reason="still"))
    assert after.state_since > before.state_since and same.state_since == after.state_since
    with pytest.raises(StoreConflict), store.write("tasks") as tx:
        change_task(tx, before, replace(before, state=TaskState.STOPPED))


def test_rows_follow_a_renamed_repository(store):
    new = RepoName("octo", "barn")
    with store.write("tasks") as tx:
        add_repository(tx, REPO, 1)
        made = task(tx)
        add_task(tx, made)
        rename_repository(tx, REPO, new)
        assert tasks_of_issue(tx, new, 7)[0].id == made.id
        assert find_task(tx, "nobody") is None


def test_pull_requests_and_their_statuses(store):
    row = PullRow(str(REPO), 12, 7, "t", "agent/x", PullStatus.AWAITING_FEEDBACK)
    with store.write("tasks") as tx:
        assert add_pull(tx, row) and not add_pull(tx, replace(row, branch="other"))
        assert find_pull(tx, REPO, 12) == row and pulls_in(tx, REPO) == [row]
        assert watched_heads(tx, REPO) == [(12, PullStatus.AWAITING_FEEDBACK, "")]
        change_pull(tx, row, replace(row, status=PullStatus.MERGED))
        assert pulls_in(tx, REPO) == [] == watched_heads(tx, REPO)
        assert find_pull(tx, REPO, 12).final
    with pytest.raises(StoreConflict), store.write("tasks") as tx:
        change_pull(tx, row, replace(row, status=PullStatus.CLOSED))


def test_floors_never_sink(store):
    with store.write("tasks") as tx:
        assert comment_floors(tx, REPO, 7) == Floors()
        raise_floors(tx, REPO, 7, Floors(2**40, 5))
        raise_floors(tx, REPO, 7, Floors(3, 9))
        assert comment_floors(tx, REPO, 7) == Floors(2**40, 9)


def said(key: str, second: int, comment: int = 1) -> InboxRow:
    moment = f"2026-01-01T00:00:{second:02}.000Z"
    return InboxRow(str(REPO), key, "issue_comment", 7, comment, "ann", moment, "{}")


def test_versions_of_one_remark(store):
    with store.write() as tx:
        for row in (said("new", 9), said("old", 1), said("same", 9), said("other", 1, comment=2)):
            add_inbox_row(tx, row)
        rows = {row.event_key: row for row in rows_of_thread(tx, REPO, 7, "issue_comment")}
        newest = {key for key, row in rows.items() if is_newest(tx, row)}
        assert newest == {"same", "other"}
        assert [row.event_key for row in rows_by_key(tx, REPO, ["new", "old", "x"])] == [
            "old",
            "new",
        ]


def test_words_wait_until_they_are_answered_or_replaced(store):
    def event(key: str, pull: int, comment: int) -> FeedbackEvent:
        return FeedbackEvent(key, pull, 7, "issue_comment", comment, "2026")

    with store.write() as tx:
        for one in (event("issue", 0, 1), event("pull", 12, 2), event("another", 13, 3)):
            record_feedback_event(tx, REPO, one)
        assert waiting_keys(tx, REPO, 7, None) == ["issue"]
        assert waiting_keys(tx, REPO, 7, 12) == ["issue", "pull"]
        supersede(tx, REPO, "issue_comment", 2, by_key="newer")
        assert waiting_keys(tx, REPO, 7, 12) == ["issue"]


def test_only_what_waits_for_a_place_has_a_gate(store):
    """One that came to rest is not held by the gate of its last wait, nor noted by a late turn."""
    waiting = {TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED}
    with store.write("tasks") as tx:
        for number, state in enumerate(TaskState, start=1):
            id = f"t{number}"
            add_task(tx, task(tx, number, id=id))
            note_gate(tx, id, "time")
            held = require_task(tx, id)
            after = change_task(tx, held, replace(held, state=state))
            known = (state, after.gate, after.gate_since is not None)
            note_gate(tx, id, "cap")
            later = require_task(tx, id).gate
            expected = ("time", True, "cap") if state in waiting else ("", False, "")
            assert (*known, later) == (state, *expected)


def test_who_read_a_task_before_a_rename_does_not_rename_it_back(store):
    new = RepoName("octo", "meadow")
    with store.write() as tx:
        add_repository(tx, REPO, 1)
        waits = f"{REPO}#9"
        old = task(tx, depends_on=(waits, "another-task", "octo/other#9"))
        by_hand = task(tx, issue=None, flow=Flow.TASK, id="by-hand")
        for made in (old, by_hand):
            add_task(tx, made)
        rename_repository(tx, REPO, new)
        with pytest.raises(StoreConflict):
            change_task(tx, old, replace(old, state=TaskState.RUNNING))
        found = require_task(tx, old.id)
        assert found.repo_full_name == str(new)
        assert found.depends_on == (f"{new}#9", "another-task", "octo/other#9")
        change_task(tx, found, replace(found, state=TaskState.RUNNING))
        change_task(tx, by_hand, replace(by_hand, state=TaskState.RUNNING))
