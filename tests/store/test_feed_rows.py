"""What the feeds remember, on both databases: chains, moved pull requests, threads and scans."""

from __future__ import annotations

import pytest

from hostler.model import RepoName, ScopeKind, Surface, TokenStatus
from hostler.store.inbox import (
    FeedbackScan,
    InboxRow,
    Observed,
    Watermark,
    known_events,
    pending_inbox_rows,
)
from hostler.store.repositories import (
    clear_changed_pull_request,
    find_feed_pages,
    forget_threads,
    lapse_threads,
    list_changed_pull_requests,
    mark_pull_requests_changed,
    save_feed_pages,
    threads_in_step,
)

HERE = RepoName("octo", "stable")
MOMENT = "2026-01-01T00:00:00.000Z"
LINES, TALK = Surface.PR_REVIEW_COMMENTS, Surface.PR_ISSUE_COMMENTS


def row(key, kind="issue_comment"):
    return InboxRow(str(HERE), key, kind, 7, 1, "alice", MOMENT, "{}")


def scanned(number=7, *keys, observed=(), at=MOMENT, last=5):
    mark = Watermark(at, last)
    return FeedbackScan(number, tuple(map(row, keys)), observed, mark, mark)


def test_a_chain_is_kept_replaced_and_dropped(store):
    with store.write() as tx:
        assert find_feed_pages(tx, HERE, "repo_issues", 0) == ""
        save_feed_pages(tx, HERE, "repo_issues", 0, "one")
        save_feed_pages(tx, HERE, "pull", 2**40, "other")
        save_feed_pages(tx, HERE, "repo_issues", 0, "two")
        assert find_feed_pages(tx, HERE, "repo_issues", 0) == "two"
        save_feed_pages(tx, HERE, "repo_issues", 0, "")
    with store.read() as tx:
        assert find_feed_pages(tx, HERE, "repo_issues", 0) == ""
        assert find_feed_pages(tx, HERE, "pull", 2**40) == "other"


def test_pull_requests_that_moved_are_kept_until_they_were_fetched(store):
    with store.write() as tx:
        mark_pull_requests_changed(tx, HERE, [9, 7, 9])
        mark_pull_requests_changed(tx, RepoName("octo", "barn"), [1])
    with store.write() as tx:
        assert list_changed_pull_requests(tx, HERE) == [7, 9]
        clear_changed_pull_request(tx, HERE, 9)
        clear_changed_pull_request(tx, HERE, 1000)
        assert list_changed_pull_requests(tx, HERE) == [7]
        assert list_changed_pull_requests(tx, RepoName("octo", "barn")) == [1]


def test_a_scan_is_stored_whole_with_both_cursors(store):
    repo = store.repo(HERE)
    with store.write() as tx:
        repo.record_action_token_planned(
            tx, "t1", scope_kind=ScopeKind.PR, scope_number=7, source="feedback"
        )
        seen = (Observed("t1", 3, MOMENT), Observed("pasted", 4, MOMENT))
        stored = repo.seed_feedback_cursors_from_full_scan(tx, scanned(7, "a", "b", observed=seen))
    assert (stored.new, stored.deduped) == (("a", "b"), ())
    with store.read() as tx:
        assert repo.get_action_token(tx, "t1").status is TokenStatus.OBSERVED
        assert threads_in_step(tx, HERE) == {7}
        for surface in (LINES, TALK):
            found = repo.get_poll_cursor(tx, surface, 7)
            assert (found.last_updated_at, found.last_comment_id) == (MOMENT, 5)
            assert found.bootstrap_complete


def test_a_batch_moves_the_cursors_and_leaves_the_rest_as_it_was(store):
    repo, later = store.repo(HERE), "2026-01-02T00:00:00.000Z"
    with store.write() as tx:
        repo.ingest_feedback_scan_batch(tx, scanned(7, "a"))
        assert not repo.get_poll_cursor(tx, TALK, 7).bootstrap_complete
        repo.seed_feedback_cursors_from_full_scan(tx, scanned(8))
    with store.write() as tx:
        stored = repo.ingest_feedback_scan_batch(tx, scanned(8, "a", "b", at=later, last=9))
        assert (stored.new, stored.deduped) == (("b",), ("a",))
        found = repo.get_poll_cursor(tx, LINES, 8)
        assert (found.last_updated_at, found.bootstrap_complete) == (later, True)


def test_a_batch_that_is_cut_off_has_left_nothing(store):
    repo = store.repo(HERE)
    with pytest.raises(ZeroDivisionError), store.write() as tx:
        repo.ingest_feedback_scan_batch(tx, scanned(7, "a"))
        raise ZeroDivisionError
    with store.read() as tx:
        assert known_events(tx, HERE, ["a"]) == set()
        assert repo.get_poll_cursor(tx, TALK, 7) is None


def test_threads_lapse_or_are_forgotten(store):
    repo = store.repo(HERE)
    with store.write() as tx:
        for number in (7, 8, 9):
            repo.seed_feedback_cursors_from_full_scan(tx, scanned(number))
        forget_threads(tx, HERE, [7])
        lapse_threads(tx, HERE, [8])
        forget_threads(tx, HERE, [])
    with store.read() as tx:
        assert threads_in_step(tx, HERE) == {9}
        assert repo.get_poll_cursor(tx, TALK, 7) is None
        assert repo.get_poll_cursor(tx, TALK, 8).last_updated_at == MOMENT


def test_a_rename_takes_it_all_along(store):
    repo, new = store.repo(HERE), RepoName("octo", "meadow")
    with store.write() as tx:
        repo.add(tx)
        save_feed_pages(tx, HERE, "pull", 7, "pages")
        mark_pull_requests_changed(tx, HERE, [7])
        repo.rename(tx, new)
        assert list_changed_pull_requests(tx, new) == [7]
        assert find_feed_pages(tx, new, "pull", 7) == "pages"


def test_events_are_asked_for_by_key_and_without_some_kinds(store):
    with store.write() as tx:
        scan = FeedbackScan(7, (row("a"), row("run", "workflow_run")))
        store.repo(HERE).ingest_feedback_scan_batch(tx, scan)
        assert known_events(tx, HERE, ["a", "b", "run"]) == {"a", "run"}
        heard = pending_inbox_rows(tx, HERE, without=["workflow_run"])
        assert [found.event_key for found in heard] == ["a"]
