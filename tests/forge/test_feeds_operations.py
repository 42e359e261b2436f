"""The operations issue: its history is never news, and what is said later always is."""

from __future__ import annotations

import pytest
from feeds_yard import Yard, chatter
from test_feeds_threads import work_on

from hostler.forge.github.polling.ingest import list_pending_events
from hostler.model import Surface

DAY = 86_400
SURFACE = Surface.ISSUE_OPERATOR_COMMANDS
MODES = [
    {"feeds": "repository"},
    {"feeds": "threads"},
    {"incremental": False},
    {"incremental": "shadow"},
]


def unheard(yard, number):
    """What waits to be heard on the issue."""
    with yard.store.read() as tx:
        rows = list_pending_events(tx, yard.house.name, number)
    return [row.event_key.split(":")[1] for row in rows if row.kind == "issue_comment"]


@pytest.mark.parametrize("mode", MODES)
def test_history_is_not_news_and_what_follows_is(house, store, mode):
    number = house.issue("Operations")
    chatter(house, number, 120, seconds=3 * DAY)
    house.say(number, "/hostler stop")
    yard = Yard(house, store, operations=number, **mode)
    yard.poll()
    assert unheard(yard, number) == []
    newest = yard.cursor(SURFACE, number)
    house.pass_time(30)
    yard.poll()
    assert unheard(yard, number) == []
    house.pass_time(30)
    said = house.say(number, "/hostler status")
    yard.poll()
    assert unheard(yard, number) == [str(said)]
    house.pass_time(30)
    house.do("PATCH", f"issues/comments/{said}", body="/hostler help")
    yard.wake()
    yard.poll()
    assert unheard(yard, number) == [str(said), str(said)]
    assert yard.cursor(SURFACE, number).last_updated_at >= newest.last_updated_at


def test_in_repository_feeds_the_issue_is_read_once(house, store):
    number = house.issue("Operations")
    yard = Yard(house, store, operations=number)
    assert (f"issues/{number}/comments", 200) in yard.asked()
    house.pass_time(30)
    assert all(path != f"issues/{number}/comments" for path, _ in yard.asked())


def test_an_issue_that_was_followed_before_keeps_what_waits_there(house, store):
    """It is a task's own: its words are for the task."""
    number = house.issue("Operations")
    yard = Yard(house, store, operations=number)
    work_on(yard, number)
    house.say(number, "words for the agent")
    yard.poll()
    assert len(unheard(yard, number)) == 1


def test_history_that_other_feeds_have_shown_before_is_history_too(house, store):
    """The issue is named in the settings later, while something of it waits."""
    number = house.issue("Operations")
    house.say(number, "/hostler stop")
    Yard(house, store).poll()
    yard = Yard(house, store, operations=number)
    assert len(unheard(yard, number)) == 1
    yard.poll()
    assert unheard(yard, number) == []


def test_a_missing_issue_is_named_and_keeps_nothing_from_being_read(house, store):
    issue = house.issue()
    yard = Yard(house, store, operations=999)
    scanned = yard.poll()
    assert scanned.gone == (999,)
    assert any(key.startswith("issue:") for key in yard.keys("issue"))
    yard.settle()
    quiet = yard.asked()
    assert all("999" not in path for path, _ in quiet)
    house.say(issue, "hello")
    yard.poll()
    assert yard.bodies("issue_comment") == ["hello"]
    assert "issues/999/comments" in [path for path, _ in yard.asked()]


def test_a_failing_first_reading_is_repeated(house, store):
    number = house.issue("Operations")
    house.say(number, "/hostler stop")
    house.fault("status", status=500, route=f"*/issues/{number}/comments", count=3)
    yard = Yard(house, store, operations=number)
    assert yard.poll().error is not None
    # Everything else was read; the issue's history is there, and waits for the first reading.
    assert yard.cursor(SURFACE, number) is None
    assert len(unheard(yard, number)) == 1
    yard.poll()
    assert unheard(yard, number) == []
