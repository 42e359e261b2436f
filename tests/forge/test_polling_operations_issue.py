"""The operations issue: its history is never news, and what is said later always is."""

from __future__ import annotations

import pytest
from polling_fixture import PolledRepo, chatter
from test_polling_threads import work_on

from hostler.model import Surface
from hostler.store.inbox import pending_inbox_rows

DAY = 86_400
SURFACE = Surface.ISSUE_OPERATOR_COMMANDS
MODES = [
    {"feeds": "repository"},
    {"feeds": "threads"},
    {"incremental": False},
    {"incremental": "shadow"},
]


def unheard(polled_repo, number):
    """What waits to be heard on the issue."""
    with polled_repo.store.read() as tx:
        rows = pending_inbox_rows(tx, polled_repo.sandbox_repo.name, number)
    return [row.event_key.split(":")[1] for row in rows if row.kind == "issue_comment"]


@pytest.mark.parametrize("mode", MODES)
def test_history_is_not_news_and_what_follows_is(sandbox_repo, store, mode):
    number = sandbox_repo.issue("Operations")
    chatter(sandbox_repo, number, 120, seconds=3 * DAY)
    sandbox_repo.say(number, "/hostler stop")
    polled_repo = PolledRepo(sandbox_repo, store, operations=number, **mode)
    polled_repo.poll()
    assert unheard(polled_repo, number) == []
    newest = polled_repo.cursor(SURFACE, number)
    sandbox_repo.pass_time(30)
    polled_repo.poll()
    assert unheard(polled_repo, number) == []
    sandbox_repo.pass_time(30)
    said = sandbox_repo.say(number, "/hostler status")
    polled_repo.poll()
    assert unheard(polled_repo, number) == [str(said)]
    sandbox_repo.pass_time(30)
    sandbox_repo.do("PATCH", f"issues/comments/{said}", body="/hostler help")
    polled_repo.wake()
    polled_repo.poll()
    assert unheard(polled_repo, number) == [str(said), str(said)]
    assert polled_repo.cursor(SURFACE, number).last_updated_at >= newest.last_updated_at


def test_in_repository_feeds_the_issue_is_read_once(sandbox_repo, store):
    number = sandbox_repo.issue("Operations")
    polled_repo = PolledRepo(sandbox_repo, store, operations=number)
    assert (f"issues/{number}/comments", 200) in polled_repo.asked()
    sandbox_repo.pass_time(30)
    assert all(path != f"issues/{number}/comments" for path, _ in polled_repo.asked())


def test_an_issue_that_was_followed_before_keeps_what_waits_there(sandbox_repo, store):
    """It is a task's own: its words are for the task."""
    number = sandbox_repo.issue("Operations")
    polled_repo = PolledRepo(sandbox_repo, store, operations=number)
    work_on(polled_repo, number)
    sandbox_repo.say(number, "words for the agent")
    polled_repo.poll()
    assert len(unheard(polled_repo, number)) == 1


def test_history_that_other_feeds_have_shown_before_is_history_too(sandbox_repo, store):
    """The issue is named in the settings later, while something of it waits."""
    number = sandbox_repo.issue("Operations")
    sandbox_repo.say(number, "/hostler stop")
    PolledRepo(sandbox_repo, store).poll()
    polled_repo = PolledRepo(sandbox_repo, store, operations=number)
    assert len(unheard(polled_repo, number)) == 1
    polled_repo.poll()
    assert unheard(polled_repo, number) == []


def test_a_missing_issue_is_named_and_keeps_nothing_from_being_read(sandbox_repo, store):
    issue = sandbox_repo.issue()
    polled_repo = PolledRepo(sandbox_repo, store, operations=999)
    scanned = polled_repo.poll()
    assert scanned.gone == (999,)
    assert any(key.startswith("issue:") for key in polled_repo.keys("issue"))
    polled_repo.settle()
    quiet = polled_repo.asked()
    assert all("999" not in path for path, _ in quiet)
    sandbox_repo.say(issue, "hello")
    polled_repo.poll()
    assert polled_repo.bodies("issue_comment") == ["hello"]
    assert "issues/999/comments" in [path for path, _ in polled_repo.asked()]


def test_a_failing_first_reading_is_repeated(sandbox_repo, store):
    number = sandbox_repo.issue("Operations")
    sandbox_repo.say(number, "/hostler stop")
    sandbox_repo.fault("status", status=500, route=f"*/issues/{number}/comments", count=3)
    polled_repo = PolledRepo(sandbox_repo, store, operations=number)
    assert polled_repo.poll().error is not None
    # Everything else was read; the issue's history is there, and waits for the first reading.
    assert polled_repo.cursor(SURFACE, number) is None
    assert len(unheard(polled_repo, number)) == 1
    polled_repo.poll()
    assert unheard(polled_repo, number) == []
