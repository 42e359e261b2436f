"""GitHub into the inbox: every version once, nothing lost, nothing of ours."""

from __future__ import annotations

import random
from datetime import timedelta
from unittest.mock import patch

import pytest

from hostler.errors import GitHubPollingError, StoreConflict
from hostler.forge.events import decode_content, event_key
from hostler.forge.github.client.pagination import ListedPages, page_items
from hostler.forge.github.polling import cursors
from hostler.forge.github.polling.cursors import PollWindow
from hostler.forge.github.polling.ingest import (
    ingest_items,
)
from hostler.forge.port import CommentContent, ItemKind, SurfaceFeed
from hostler.model import EPOCH, Surface, format_timestamp
from hostler.store.inbox import consume_inbox_rows, pending_inbox_rows

COMMENTS = Surface.REPO_ISSUE_COMMENTS


def edit(sandbox_repo, comment, body):
    sandbox_repo.do("PATCH", f"issues/comments/{comment}", body=body)


def test_what_people_say_arrives_once_in_our_own_form(sandbox_repo, scan, events, store):
    number = sandbox_repo.issue("title", body="text")
    comment = sandbox_repo.say(number, "hello")
    first = scan()
    assert (
        events() == [("issue", 1, "text"), ("issue_comment", comment, "hello")]
        or len(events()) == 2
    )
    assert first.ingested.new == 2
    again = scan()
    assert (again.ingested.new, again.ingested.replayed) == (0, 2)
    assert len(events()) == 2
    with store.read() as tx:
        row = next(
            row for row in pending_inbox_rows(tx, sandbox_repo.name) if row.kind == "issue_comment"
        )
    assert (row.scope_number, row.author) == (number, "alice")
    told = sandbox_repo.do("GET", f"issues/comments/{comment}")
    stored = CommentContent(
        "hello",
        thread=comment,
        url=told["html_url"],
        author_association=told["author_association"],
    )
    assert decode_content(row.kind, row.payload) == stored


def test_an_edit_is_a_new_event(sandbox_repo, scan, events):
    comment = sandbox_repo.say(sandbox_repo.issue(), "one")
    scan()
    sandbox_repo.pass_time(10)
    edit(sandbox_repo, comment, "two")
    scan()
    assert [body for _, _, body in events("issue_comment")] == ["one", "two"]


def test_an_edit_in_the_very_same_second_is_a_new_event(sandbox_repo, scan, events):
    comment = sandbox_repo.say(sandbox_repo.issue(), "one")
    scan()
    edit(sandbox_repo, comment, "two")
    scan()
    assert [body for _, _, body in events("issue_comment")] == ["one", "two"]


def test_an_edit_of_a_lower_id_in_the_cursors_second_is_not_dropped(sandbox_repo, scan, events):
    number = sandbox_repo.issue()
    lower, higher = sandbox_repo.say(number, "lower"), sandbox_repo.say(number, "higher")
    sandbox_repo.pass_time(100)
    edit(sandbox_repo, higher, "higher again")
    scan()
    edit(sandbox_repo, lower, "lower again")
    scan()
    assert ("issue_comment", lower, "lower again") in events()


def test_a_comment_that_is_shown_late_is_not_lost(sandbox_repo, scan, events):
    number = sandbox_repo.issue()
    sandbox_repo.fault("hide", seconds=280, method="POST", route="*/comments")
    late = sandbox_repo.say(number, "late")
    sandbox_repo.pass_time(5)
    for _ in range(5):
        sandbox_repo.say(number, "prompt")
        scan()
        sandbox_repo.pass_time(10)
    assert late not in {found for _, found, _ in events()}
    sandbox_repo.pass_time(280)
    scan()
    assert ("issue_comment", late, "late") in events()


def test_the_first_scan_reads_what_is_open_however_old_it_is(sandbox_repo, scan, events):
    old, closed = sandbox_repo.issue("old", body="old"), sandbox_repo.issue("closed", body="closed")
    sandbox_repo.do("PATCH", f"issues/{closed}", state="closed")
    comment = sandbox_repo.say(old, "an old word")
    sandbox_repo.pass_time(30 * 86_400)
    fresh = sandbox_repo.say(old, "a fresh word")
    sandbox_repo.pass_time(60)
    scan()
    assert [body for _, _, body in events("issue")] == ["old"]
    found = {found for _, found, _ in events("issue_comment")}
    assert found == {fresh} and comment not in found


def test_an_empty_first_scan_takes_githubs_clock_not_ours(sandbox_repo, scan, events, cursor):
    sandbox_repo.clock.jump(9 * 86_400)
    scan()
    assert (
        cursor().last_updated_at
        == format_timestamp(sandbox_repo.clock.now() - timedelta(days=10))[:-5] + ".000Z"
    )
    assert cursor().bootstrap_complete
    # Weeks of downtime later, everything since is still read.
    number = sandbox_repo.issue()
    comment = sandbox_repo.say(number, "while we were away")
    sandbox_repo.pass_time(20 * 86_400)
    scan()
    assert ("issue_comment", comment, "while we were away") in events()


def test_an_idle_repository_is_asked_for_the_same_address_each_time(sandbox_repo, scan):
    sandbox_repo.say(sandbox_repo.issue())
    scan()
    sandbox_repo.pass_time(60)
    scan()
    sandbox_repo.sandbox.app.pipeline.ledger.clear()
    asked = []
    for _ in range(2):
        sandbox_repo.pass_time(60)
        scan()
        asked.append(
            {r["path"] + r["query"] for r in sandbox_repo.ledger() if r["path"] != "/rate_limit"}
        )
        sandbox_repo.sandbox.app.pipeline.ledger.clear()
    assert asked[0] == asked[1]
    assert len(asked[0]) == 3


def test_a_scan_says_what_it_asked(sandbox_repo, scan):
    scan()
    assert scan().requests == 3


def test_a_scan_that_dies_before_its_commit_has_read_nothing(
    sandbox_repo, scan, events, cursor, store
):
    comment = sandbox_repo.say(sandbox_repo.issue(), "hello")
    sandbox_repo.fault("status", status=500, route="*/issues/comments", count=3)
    with pytest.raises(GitHubPollingError) as caught:
        scan()
    assert caught.value.surface == COMMENTS
    assert cursor() is None
    items = sandbox_repo.forge.changes(SurfaceFeed.ISSUE_COMMENTS, None).items
    with pytest.raises(ZeroDivisionError), store.write() as tx:
        ingest_items(tx, sandbox_repo.name, "bot", items, lambda tx, row: None)
        raise ZeroDivisionError
    assert events("issue_comment") == []
    scan()
    assert events("issue_comment") == [("issue_comment", comment, "hello")]


@pytest.mark.parametrize("limit", ["primary", "secondary"])
def test_a_limit_in_a_scan_says_until_when(sandbox_repo, scan, limit):
    sandbox_repo.fault("limit", limit=limit, route="*/issues")
    with pytest.raises(GitHubPollingError) as caught:
        scan()
    assert caught.value.until > sandbox_repo.clock.now()


def test_consuming_is_part_of_the_effect_and_happens_once(sandbox_repo, scan, events, store):
    sandbox_repo.say(sandbox_repo.issue(), "hello")
    scan()
    with store.read() as tx:
        keys = [row.event_key for row in pending_inbox_rows(tx, sandbox_repo.name)]
    with pytest.raises(ZeroDivisionError), store.write() as tx:
        consume_inbox_rows(tx, sandbox_repo.name, keys)
        raise ZeroDivisionError
    assert len(events()) == 2
    with store.write() as tx:
        consume_inbox_rows(tx, sandbox_repo.name, keys)
    assert events() == []
    with pytest.raises(StoreConflict), store.write() as tx:
        consume_inbox_rows(tx, sandbox_repo.name, keys[:1])
    scan()
    assert events() == []


def test_events_can_be_asked_for_by_thread(sandbox_repo, scan, events):
    one, other = sandbox_repo.issue(), sandbox_repo.issue()
    sandbox_repo.say(one, "on one")
    sandbox_repo.say(other, "on other")
    scan()
    assert [body for _, _, body in events("issue_comment", one)] == ["on one"]


def test_a_deleted_comment_is_seen_to_be_gone(sandbox_repo, scan, events):
    comment = sandbox_repo.say(sandbox_repo.issue(), "hello")
    scan()
    sandbox_repo.do("DELETE", f"issues/comments/{comment}")
    scan()
    (event,) = events("issue_comment")
    assert sandbox_repo.forge.get_comment(ItemKind.ISSUE_COMMENT, event[1]) is None


def test_a_repository_without_issues_is_scanned_for_the_rest(sandbox_repo, scan):
    sandbox_repo.do("PATCH", f"/repos/{sandbox_repo.name}", has_issues=False)
    assert scan().ingested.new == 0


@pytest.mark.parametrize("broken", ["damaged", "2999-01-01T00:00:00.000Z"])
def test_a_cursor_that_cannot_be_believed_is_set_back_by_a_day(
    sandbox_repo, scan, events, cursor, store, broken
):
    number = sandbox_repo.issue()
    scan()
    comment = sandbox_repo.say(number, "hello")
    with store.write() as tx:
        tx.constant("UPDATE github_comment_poll_cursors SET last_updated_at = ?", [broken])
    found = scan()
    assert COMMENTS in found.reset
    assert ("issue_comment", comment, "hello") in events()
    assert cursor().last_updated_at < format_timestamp(sandbox_repo.clock.now() + timedelta(days=1))
    assert scan().reset == ()


def test_our_clock_does_not_judge_a_cursor(sandbox_repo, scan):
    sandbox_repo.say(sandbox_repo.issue())
    scan()
    sandbox_repo.clock.jump(-30 * 86_400)
    assert scan().reset == ()


def test_a_first_reading_that_is_cut_short_goes_on_where_it_stopped(
    sandbox_repo, scan, events, cursor
):
    for number in range(5):
        sandbox_repo.issue(body=f"issue {number}")
        sandbox_repo.pass_time(10)
    sandbox_repo.pass_time(30 * 86_400)

    def two_items(read, since, *_known):
        return ListedPages(page_items(read(since, 1))[:2], complete=False)

    with patch("hostler.forge.github.client.repository.read_ascending", two_items):
        found = scan()
    assert Surface.REPO_ISSUES in found.unfinished
    assert not cursor(Surface.REPO_ISSUES).bootstrap_complete
    assert len(events("issue")) == 2
    scan()
    assert len(events("issue")) == 5
    assert cursor(Surface.REPO_ISSUES).bootstrap_complete


def test_scans_at_random_moments_find_what_one_full_reading_finds(sandbox_repo, scan, events):
    """Creates, edits and late ones in any order: the set of keys is that of the whole history."""
    chance, number, ids, expected = random.Random(7), sandbox_repo.issue(), [], set()
    for turn in range(60):
        if not ids or chance.random() < 0.5:
            if chance.random() < 0.3:
                sandbox_repo.fault("hide", seconds=chance.randint(1, 250), method="POST")
            ids.append(sandbox_repo.say(number, f"comment {turn}"))
            expected.add((ids[-1], f"comment {turn}"))
        elif chance.random() < 0.5:
            sandbox_repo.pass_time(chance.choice([0, 1, 3, 40]))
        else:
            scan()
    sandbox_repo.pass_time(251)
    scan()
    seen = {(found, body) for _, found, body in events("issue_comment")}
    everything = sandbox_repo.forge.changes(SurfaceFeed.ISSUE_COMMENTS, None).items
    assert seen == expected == {(item.id, item.body) for item in everything}
    assert len({event_key(item) for item in everything}) == len(expected)


def test_since_reaches_behind_the_mark_and_never_before_the_epoch():
    window = PollWindow(timedelta(seconds=5), timedelta(seconds=300))
    mark = cursors.CursorState(EPOCH + timedelta(days=1))
    assert cursors.read_since(mark, window) == mark.at - timedelta(seconds=305)
    assert cursors.read_since(cursors.CursorState(EPOCH), window) == EPOCH
    assert cursors.start_cursor(None, EPOCH, window).at == EPOCH
