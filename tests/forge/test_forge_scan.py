"""GitHub into the inbox: every version once, nothing lost, nothing of ours."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from unittest.mock import patch

import pytest

from hostler.errors import GitHubPollingError, StoreConflict
from hostler.forge.github.client.pagination import ListedPages, page_items
from hostler.forge.github.polling import cursors
from hostler.forge.github.polling.cursors import PollWindow
from hostler.forge.github.polling.ingest import (
    event_key,
    ingest_items,
    list_pending_events,
    mark_events_processed,
)
from hostler.forge.port import ItemKind, SurfaceFeed
from hostler.model import EPOCH, Surface, format_timestamp

COMMENTS = Surface.REPO_ISSUE_COMMENTS


def edit(house, comment, body):
    house.do("PATCH", f"issues/comments/{comment}", body=body)


def test_what_people_say_arrives_once_with_its_whole_payload(house, scan, events, store):
    number = house.issue("title", body="text")
    comment = house.say(number, "hello")
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
            row for row in list_pending_events(tx, house.name) if row.kind == "issue_comment"
        )
    assert (row.scope_number, row.author) == (number, "alice")
    assert json.loads(row.payload) == house.do("GET", f"issues/comments/{comment}")


def test_an_edit_is_a_new_event(house, scan, events):
    comment = house.say(house.issue(), "one")
    scan()
    house.pass_time(10)
    edit(house, comment, "two")
    scan()
    assert [body for _, _, body in events("issue_comment")] == ["one", "two"]


def test_an_edit_in_the_very_same_second_is_a_new_event(house, scan, events):
    comment = house.say(house.issue(), "one")
    scan()
    edit(house, comment, "two")
    scan()
    assert [body for _, _, body in events("issue_comment")] == ["one", "two"]


def test_an_edit_of_a_lower_id_in_the_cursors_second_is_not_dropped(house, scan, events):
    number = house.issue()
    lower, higher = house.say(number, "lower"), house.say(number, "higher")
    house.pass_time(100)
    edit(house, higher, "higher again")
    scan()
    edit(house, lower, "lower again")
    scan()
    assert ("issue_comment", lower, "lower again") in events()


def test_a_comment_that_is_shown_late_is_not_lost(house, scan, events):
    number = house.issue()
    house.fault("hide", seconds=280, method="POST", route="*/comments")
    late = house.say(number, "late")
    house.pass_time(5)
    for _ in range(5):
        house.say(number, "prompt")
        scan()
        house.pass_time(10)
    assert late not in {found for _, found, _ in events()}
    house.pass_time(280)
    scan()
    assert ("issue_comment", late, "late") in events()


def test_the_first_scan_reads_what_is_open_however_old_it_is(house, scan, events):
    old, closed = house.issue("old", body="old"), house.issue("closed", body="closed")
    house.do("PATCH", f"issues/{closed}", state="closed")
    comment = house.say(old, "an old word")
    house.pass_time(30 * 86_400)
    fresh = house.say(old, "a fresh word")
    house.pass_time(60)
    scan()
    assert [body for _, _, body in events("issue")] == ["old"]
    found = {found for _, found, _ in events("issue_comment")}
    assert found == {fresh} and comment not in found


def test_an_empty_first_scan_takes_githubs_clock_not_ours(house, scan, events, cursor):
    house.clock.jump(9 * 86_400)
    scan()
    assert (
        cursor().last_updated_at
        == format_timestamp(house.clock.now() - timedelta(days=10))[:-5] + ".000Z"
    )
    assert cursor().bootstrap_complete
    # Weeks of downtime later, everything since is still read.
    number = house.issue()
    comment = house.say(number, "while we were away")
    house.pass_time(20 * 86_400)
    scan()
    assert ("issue_comment", comment, "while we were away") in events()


def test_an_idle_repository_is_asked_for_the_same_address_each_time(house, scan):
    house.say(house.issue())
    scan()
    house.pass_time(60)
    scan()
    house.sandbox.app.pipeline.ledger.clear()
    asked = []
    for _ in range(2):
        house.pass_time(60)
        scan()
        asked.append({r["path"] + r["query"] for r in house.ledger() if r["path"] != "/rate_limit"})
        house.sandbox.app.pipeline.ledger.clear()
    assert asked[0] == asked[1]
    assert len(asked[0]) == 3


def test_a_scan_says_what_it_asked(house, scan):
    scan()
    assert scan().requests == 3


def test_a_scan_that_dies_before_its_commit_has_read_nothing(house, scan, events, cursor, store):
    comment = house.say(house.issue(), "hello")
    house.fault("status", status=500, route="*/issues/comments", count=3)
    with pytest.raises(GitHubPollingError) as caught:
        scan()
    assert caught.value.surface == COMMENTS
    assert cursor() is None
    items = house.forge.changes(SurfaceFeed.ISSUE_COMMENTS, None).items
    with pytest.raises(ZeroDivisionError), store.write() as tx:
        ingest_items(tx, house.name, "bot", items, lambda tx, row: None)
        raise ZeroDivisionError
    assert events("issue_comment") == []
    scan()
    assert events("issue_comment") == [("issue_comment", comment, "hello")]


@pytest.mark.parametrize("limit", ["primary", "secondary"])
def test_a_limit_in_a_scan_says_until_when(house, scan, limit):
    house.fault("limit", limit=limit, route="*/issues")
    with pytest.raises(GitHubPollingError) as caught:
        scan()
    assert caught.value.until > house.clock.now()


def test_consuming_is_part_of_the_effect_and_happens_once(house, scan, events, store):
    house.say(house.issue(), "hello")
    scan()
    with store.read() as tx:
        keys = [row.event_key for row in list_pending_events(tx, house.name)]
    with pytest.raises(ZeroDivisionError), store.write() as tx:
        mark_events_processed(tx, house.name, keys)
        raise ZeroDivisionError
    assert len(events()) == 2
    with store.write() as tx:
        mark_events_processed(tx, house.name, keys)
    assert events() == []
    with pytest.raises(StoreConflict), store.write() as tx:
        mark_events_processed(tx, house.name, keys[:1])
    scan()
    assert events() == []


def test_events_can_be_asked_for_by_thread(house, scan, events):
    one, other = house.issue(), house.issue()
    house.say(one, "on one")
    house.say(other, "on other")
    scan()
    assert [body for _, _, body in events("issue_comment", one)] == ["on one"]


def test_a_deleted_comment_is_seen_to_be_gone(house, scan, events):
    comment = house.say(house.issue(), "hello")
    scan()
    house.do("DELETE", f"issues/comments/{comment}")
    scan()
    (event,) = events("issue_comment")
    assert house.forge.get_comment(ItemKind.ISSUE_COMMENT, event[1]) is None


def test_a_repository_without_issues_is_scanned_for_the_rest(house, scan):
    house.do("PATCH", f"/repos/{house.name}", has_issues=False)
    assert scan().ingested.new == 0


@pytest.mark.parametrize("broken", ["damaged", "2999-01-01T00:00:00.000Z"])
def test_a_cursor_that_cannot_be_believed_is_set_back_by_a_day(
    house, scan, events, cursor, store, broken
):
    number = house.issue()
    scan()
    comment = house.say(number, "hello")
    with store.write() as tx:
        tx.constant("UPDATE github_comment_poll_cursors SET last_updated_at = ?", [broken])
    found = scan()
    assert COMMENTS in found.reset
    assert ("issue_comment", comment, "hello") in events()
    assert cursor().last_updated_at < format_timestamp(house.clock.now() + timedelta(days=1))
    assert scan().reset == ()


def test_our_clock_does_not_judge_a_cursor(house, scan):
    house.say(house.issue())
    scan()
    house.clock.jump(-30 * 86_400)
    assert scan().reset == ()


def test_a_first_reading_that_is_cut_short_goes_on_where_it_stopped(house, scan, events, cursor):
    for number in range(5):
        house.issue(body=f"issue {number}")
        house.pass_time(10)
    house.pass_time(30 * 86_400)

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


def test_scans_at_random_moments_find_what_one_full_reading_finds(house, scan, events):
    """Creates, edits and late ones in any order: the set of keys is that of the whole history."""
    chance, number, ids, expected = random.Random(7), house.issue(), [], set()
    for turn in range(60):
        if not ids or chance.random() < 0.5:
            if chance.random() < 0.3:
                house.fault("hide", seconds=chance.randint(1, 250), method="POST")
            ids.append(house.say(number, f"comment {turn}"))
            expected.add((ids[-1], f"comment {turn}"))
        elif chance.random() < 0.5:
            house.pass_time(chance.choice([0, 1, 3, 40]))
        else:
            scan()
    house.pass_time(251)
    scan()
    seen = {(found, body) for _, found, body in events("issue_comment")}
    everything = house.forge.changes(SurfaceFeed.ISSUE_COMMENTS, None).items
    assert seen == expected == {(item.id, item.body) for item in everything}
    assert len({event_key(item) for item in everything}) == len(expected)


def test_since_reaches_behind_the_mark_and_never_before_the_epoch():
    window = PollWindow(timedelta(seconds=5), timedelta(seconds=300))
    mark = cursors.CursorState(EPOCH + timedelta(days=1))
    assert cursors.read_since(mark, window) == mark.at - timedelta(seconds=305)
    assert cursors.read_since(cursors.CursorState(EPOCH), window) == EPOCH
    assert cursors.start_cursor(None, EPOCH, window).at == EPOCH
