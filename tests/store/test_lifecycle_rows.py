"""Rows of words that wait for a block, of takeovers, and of pull requests by number."""

from __future__ import annotations

from dataclasses import replace

from hostler.model import RepoName, Surface
from hostler.store.inbox import (
    FeedbackEvent,
    InboxRow,
    add_inbox_row,
    blocked_threads,
    consume_inbox_rows,
    count_held,
    hold,
    is_first,
    pending_inbox_rows,
    record_feedback_event,
    rows_to_look_at,
    was_told,
)
from hostler.store.pull_requests import (
    Floors,
    PullRow,
    PullStatus,
    add_pull,
    ask_for_scan,
    comment_floors,
    hear_from,
    pulls_numbered,
    raise_floors,
)
from hostler.store.repositories import Repo
from hostler.store.tasks import (
    Flow,
    Task,
    TaskState,
    add_task,
    change_task,
    next_order,
    require_task,
)

REPO, OTHER = RepoName("octo", "stable"), RepoName("octo", "barn")
STAMP = "2026-01-01T00:00:00.000Z"
KINDS = ("issue_comment",)


def said(key: str, number: int = 7, repo: RepoName = REPO, kind: str = "issue_comment") -> InboxRow:
    return InboxRow(str(repo), key, kind, number, 1, "ann", STAMP, "{}")


def work(tx, state: TaskState = TaskState.BLOCKED, issue: int = 7, pull: int | None = 9) -> Task:
    made = Task(
        id=f"{issue}-{state}",
        project="stable",
        repo_full_name=str(REPO),
        issue_number=issue,
        flow=Flow.BUGFIX,
        title="Crash",
        author="ann",
        state=state,
        state_since=tx.stamp(),
        order=next_order(tx),
        pr_number=pull,
    )
    add_task(tx, made)
    return made


def keys(tx, repo: RepoName = REPO) -> list[str]:
    return [row.event_key for row in rows_to_look_at(tx, repo, KINDS)]


def held(tx, *names: str) -> None:
    for row in pending_inbox_rows(tx, REPO):
        if row.event_key in names:
            hold(tx, row)


def test_what_waits_for_a_block_is_passed_over_until_the_block_ends(store):
    with store.write() as tx:
        task = work(tx)
        for row in (said("issue"), said("pull", 9), said("other", 8), said("far", repo=OTHER)):
            add_inbox_row(tx, row)
        assert keys(tx) == ["issue", "pull", "other"]
        held(tx, "issue", "pull")
        assert (keys(tx), keys(tx, OTHER)) == (["other"], ["far"])
        assert blocked_threads(tx, REPO) == {7, 9}
        # What comes later has not been looked at.
        add_inbox_row(tx, said("later", 9))
        assert keys(tx) == ["other", "later"]
    for state in (TaskState.QUEUED, TaskState.STOPPED):
        with store.write() as tx:
            present = require_task(tx, task.id)
            change_task(tx, present, replace(present, state=state))
            assert keys(tx) == ["issue", "pull", "other", "later"]
    with store.write() as tx:
        consume_inbox_rows(tx, REPO, ["issue", "other"])
        assert keys(tx) == ["pull", "later"]


def test_held_words_are_counted_by_thread_until_they_are_consumed(store):
    with store.write() as tx:
        work(tx)
        for row in (said("a"), said("b", 9), said("c", 9), said("d", 8)):
            add_inbox_row(tx, row)
        held(tx, "a", "b", "c", "d")
        assert count_held(tx, REPO, {7, 9}) == 3
        consume_inbox_rows(tx, REPO, ["b"])
        assert count_held(tx, REPO, {7, 9}) == 2
        assert count_held(tx, REPO, set()) == 0
        assert count_held(tx, OTHER, {7, 9}) == 0


def test_holding_twice_keeps_the_first_moment_and_other_kinds_are_not_ours(store, clock):
    with store.write() as tx:
        add_inbox_row(tx, said("a"))
        add_inbox_row(tx, said("run", kind="workflow_run"))
        held(tx, "a")
        (first,) = rows_to_look_at(tx, REPO, KINDS)
    clock.advance(5)
    with store.write() as tx:
        hold(tx, first)
        (again,) = rows_to_look_at(tx, REPO, KINDS)
    assert again.deferred_at == first.deferred_at is not None


def test_from_when_on_words_are_heard_is_apart_from_the_floors(store):
    with store.write() as tx:
        hear_from(tx, REPO, 7, STAMP)
        raise_floors(tx, REPO, 7, Floors(5, 6))
        assert comment_floors(tx, REPO, 7) == Floors(5, 6, STAMP)
        hear_from(tx, REPO, 7, "")
        assert comment_floors(tx, REPO, 7) == Floors(5, 6)


def test_pull_requests_by_number_alone(store):
    with store.write() as tx:
        for repo, number in ((REPO, 9), (OTHER, 9), (REPO, 10)):
            row = PullRow(str(repo), number, 7, "task", "branch", PullStatus.CLOSED)
            add_pull(tx, row)
        assert [one.repo_full_name for one in pulls_numbered(tx, 9)] == [str(OTHER), str(REPO)]
        assert pulls_numbered(tx, 11) == []


def test_asking_for_a_scan_makes_known_cursors_incomplete_and_invents_none(store):
    pull = PullRow(str(REPO), 9, 7, "task", "branch", PullStatus.CLOSED)
    surfaces = (Surface.PR_ISSUE_COMMENTS, Surface.PR_REVIEW_COMMENTS)
    with store.write() as tx:
        ask_for_scan(tx, pull)
        assert [Repo(REPO).get_poll_cursor(tx, one, 9) for one in surfaces] == [None, None]
        for one in surfaces:
            Repo(REPO).upsert_poll_cursor(
                tx, one, 9, last_updated_at=STAMP, last_comment_id=3, bootstrap_complete=True
            )
        ask_for_scan(tx, pull)
        found = [Repo(REPO).get_poll_cursor(tx, one, 9) for one in surfaces]
    assert [(one.last_comment_id, one.bootstrap_complete) for one in found] == [(3, False)] * 2


def test_what_became_of_other_versions_of_a_remark(store, clock):
    with store.write() as tx:
        add_inbox_row(tx, said("one"))
        (row,) = pending_inbox_rows(tx, REPO)
        assert is_first(tx, row) and not was_told(tx, REPO, 7, row)
        add_inbox_row(tx, said("two"))
        add_inbox_row(tx, replace(said("another"), object_id=2))
        rows = {one.event_key: one for one in pending_inbox_rows(tx, REPO)}
        # What is heard together is heard together.
        assert all(is_first(tx, one) for one in rows.values())
        consume_inbox_rows(tx, REPO, ["one"])
        assert all(is_first(tx, one) for one in rows.values())
    clock.advance(1)
    with store.write() as tx:
        heard = [is_first(tx, rows[key]) for key in ("one", "two", "another")]
        assert heard == [True, False, True]
        record_feedback_event(tx, REPO, FeedbackEvent("one", 0, 7, "issue_comment", 1, STAMP))
        assert was_told(tx, REPO, 7, rows["two"]) and not was_told(tx, REPO, 8, rows["two"])
        assert not was_told(tx, REPO, 7, rows["another"])
