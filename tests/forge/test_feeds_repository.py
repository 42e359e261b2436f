"""The repository's feeds: full pages, moved pull requests, the sweep, cursors, workflow runs."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

import pytest
from feeds_yard import Yard, chatter

from hostler.clock import FakeClock
from hostler.forge.github.polling.context import PollContext
from hostler.forge.github.polling.cursors import decode_chains
from hostler.forge.github.polling.ingest import list_pending_events
from hostler.forge.github.polling.poller import Poller
from hostler.model import Surface
from hostler.sandbox.pulls.entities import Review
from hostler.store.pull_requests import PullStatus
from hostler.store.repositories import find_chain, pulls_moved
from hostler.telemetry.logs import LogDestinations

COMMENTS = Surface.REPO_ISSUE_COMMENTS


@pytest.fixture
def yard(house, store):
    return Yard(house, store)


def chain(yard, surface=COMMENTS, number=0):
    with yard.store.read() as tx:
        return decode_chains(find_chain(tx, yard.house.name, surface, number))


def moved(yard):
    with yard.store.read() as tx:
        return pulls_moved(tx, yard.house.name)


def test_what_lands_behind_a_full_page_is_found(house, yard):
    """The first page keeps its ETag: a 304 of it proves nothing."""
    number = house.issue()
    yard.settle()
    chatter(house, number, 100)
    yard.settle()
    *pages, last = chain(yard)
    assert pages and all(page.full for page in pages) and not last.full
    house.say(number, "behind it all")
    asked = yard.asked()
    assert asked.count(("issues/comments", 304)) >= 1
    assert asked.count(("issues/comments", 200)) >= 1
    assert "behind it all" in yard.bodies("issue_comment")


def look_again(yard):
    """Some polls within a second: anything may still turn up late."""
    for _ in range(4):
        yard.poll()


def test_a_page_that_is_exactly_full_within_one_second_hides_nothing(house, yard):
    number = house.issue()
    chatter(house, number, 200)
    look_again(yard)
    assert [page.full for page in chain(yard)] == [True, True, True, False]
    house.say(number, "in the very same second")
    yard.settle()
    assert "in the very same second" in yard.bodies("issue_comment")


@pytest.mark.long
def test_a_list_of_too_many_pages_has_no_chain_and_loses_nothing(house, yard):
    number = house.issue()
    chatter(house, number, 1150)
    look_again(yard)
    assert chain(yard) == ()
    house.say(number, "one more")
    yard.settle()
    assert "one more" in yard.bodies("issue_comment")
    assert len(yard.keys("issue_comment")) == 1151


def test_a_pull_request_that_moved_is_fetched_with_its_reviews(git_house, house, yard):
    number = house.pull()
    yard.follow(number)
    yard.settle()
    house.pass_time(60)
    house.do("POST", f"pulls/{number}/reviews", "bob", body="Not yet.", event="REQUEST_CHANGES")
    asked = [path for path, _ in yard.asked()]
    assert asked.count(f"pulls/{number}") == 1 and f"pulls/{number}/reviews" in asked
    assert yard.bodies("review") == ["Not yet."]
    assert moved(yard) == []
    house.do("PUT", f"pulls/{number}/merge", "bob")
    yard.poll()
    with yard.store.read() as tx:
        states = [
            json.loads(r.payload) for r in list_pending_events(tx, house.name) if r.kind == "pull"
        ]
    assert states[-1]["merged_at"]


def test_that_one_has_moved_is_stored_with_the_cursor(git_house, house, yard):
    number = house.pull()
    yard.follow(number)
    yard.settle()
    house.pass_time(60)
    house.do("POST", f"pulls/{number}/reviews", "bob", body="Hm.", event="COMMENT")
    house.fault("status", status=500, route=f"*/pulls/{number}", count=3)
    assert yard.poll().error is not None
    assert moved(yard) == [number]
    yard.wake()
    yard.poll()
    assert moved(yard) == [] and yard.bodies("review") == ["Hm."]


def test_one_that_is_gone_is_not_asked_for_again(git_house, house, yard):
    number = house.pull()
    yard.follow(number)
    yard.settle()
    house.pass_time(60)
    house.say(number, "last words")
    house.fault("status", status=404, route=f"*/pulls/{number}", count=1)
    assert number in yard.poll().gone
    assert moved(yard) == []


def test_the_sweep_finds_a_review_that_was_edited_without_a_sign(git_house, house, yard):
    pulls = [house.pull(f"topic{place}") for place in range(3)]
    for number in pulls:
        yard.follow(number)
    path = f"pulls/{pulls[1]}/reviews"
    review = house.do("POST", path, "bob", body="one", event="COMMENT")["id"]
    yard.settle()
    house.pass_time(600)
    yard.settle()
    world = house.sandbox.app.world
    world.put(replace(world.truth.get(Review, review), body="two"))
    for _ in range(2 * len(pulls)):
        yard.poll()
    assert yard.bodies("review") == ["one", "two"]


def test_a_review_that_is_shown_later_than_its_change_is_met_soon(git_house, house, yard):
    pulls = [house.pull(f"topic{place}") for place in range(6)]
    for number in pulls:
        yard.follow(number)
    for _ in range(20):
        yard.poll()
    house.pass_time(600)
    house.fault("hide", seconds=40, method="POST", route="*/reviews")
    late = pulls[4]
    house.do("POST", f"pulls/{late}/reviews", "bob", body="late", event="COMMENT")
    house.say(late, "and a word that is seen at once")
    yard.poll()
    assert yard.bodies("review") == []
    house.pass_time(41)
    for _ in range(3):
        yard.poll()
    assert yard.bodies("review") == ["late"]


def test_reviews_beyond_a_page_cost_one_request(git_house, house, yard):
    number = house.pull()
    yard.follow(number)
    for place in range(101):
        house.do("POST", f"pulls/{number}/reviews", "bob", body=f"{place}", event="COMMENT")
    yard.settle()
    assert len(yard.bodies("review")) == 101
    house.pass_time(600)
    yard.settle()
    assert len(yard.asked()) == 4
    house.do("POST", f"pulls/{number}/reviews", "bob", body="the last", event="COMMENT")
    asked = yard.asked()
    assert len(asked) <= 6
    assert "the last" in yard.bodies("review")


def test_a_rest_that_failed_is_made_up_for(house, store):
    # Its rhythm alone would never come to the rest.
    yard = Yard(house, store, idle_every=10_000)
    number = house.issue()
    yard.settle()
    house.pass_time(60)
    house.say(number, "heard late")
    house.fault("status", status=500, route="*/issues/comments", count=6)
    for _ in range(2):
        assert yard.poll().error.surface == COMMENTS
    # The tripwire is silent now; what it was touched for is still owed.
    asked = dict(yard.asked())
    assert asked["issues"] == 304 and asked["issues/comments"] == 200
    assert "heard late" in yard.bodies("issue_comment")


@pytest.mark.parametrize("column", ["last_updated_at", "last_comment_id"])
@pytest.mark.parametrize("broken", ["damaged", "2999-01-01T00:00:00.000Z"])
def test_a_cursor_that_cannot_be_believed_is_set_back_and_told(house, store, column, broken):
    lines = StringIO()
    log = LogDestinations(FakeClock(), None, terminal=lines).log
    poller = Poller(PollContext(store, house.forge, house.name, log=log))
    number = house.issue()
    poller.poll()
    house.say(number, "hello")
    with store.write() as tx:
        tx.constant(f"UPDATE github_comment_poll_cursors SET {column} = ?", [broken])
    found = poller.poll()
    assert set(found.reset) >= {Surface.REPO_ISSUES, COMMENTS}
    assert "cursor_invalid" in lines.getvalue()
    assert "incremental_scan_backfill" in lines.getvalue()
    with store.read() as tx:
        kinds = [row.kind for row in list_pending_events(tx, house.name)]
    assert "issue_comment" in kinds
    assert poller.poll().reset == ()


def test_completed_runs_of_our_heads_wait_in_the_inbox(git_house, house, store):
    yard = Yard(house, store, runs=True)
    number, other = house.pull("topic"), house.pull("other")
    yard.follow(number)
    sha = house.do("GET", f"pulls/{number}")["head"]["sha"]
    foreign = house.do("GET", f"pulls/{other}")["head"]["sha"]
    where = {"repo": str(house.name), "jobs": [{"name": "build", "conclusion": None}]}
    runs = [house.control("POST", "/actions/runs", sha=s, **where)["id"] for s in (sha, foreign)]
    yard.settle()
    assert yard.keys("workflow_run") == set()
    house.pass_time(4000)
    # Others' runs move on; ours is still waited for.
    for _ in range(3):
        house.control("POST", "/actions/runs", sha=foreign, **where)
        house.pass_time(1000)
        yard.poll()
    for run in runs:
        ended = {"repo": str(house.name), "run_id": run, "conclusion": "failure"}
        house.control("POST", "/actions/finish", **ended)
    yard.poll()
    with store.read() as tx:
        rows = [row for row in list_pending_events(tx, house.name) if row.kind == "workflow_run"]
    assert [(row.scope_number, row.object_id) for row in rows] == [(number, runs[0])]
    yard.settle()
    assert len(yard.keys("workflow_run")) == 1


def test_runs_are_not_asked_for_where_nobody_needs_them(git_house, house, store):
    yard = Yard(house, store)
    yard.follow(house.pull())
    assert "actions/runs" not in [path for _ in range(3) for path, _ in yard.asked()]


def test_what_is_said_on_a_blocked_pull_request_waits_in_the_inbox(git_house, house, yard):
    number = house.pull()
    yard.follow(number, PullStatus.BLOCKED)
    yard.settle()
    house.pass_time(60)
    house.say(number, "while it is blocked")
    yard.poll()
    with yard.store.read() as tx:
        rows = [
            row
            for row in list_pending_events(tx, house.name, number)
            if row.kind == "issue_comment"
        ]
    assert len(rows) == 1


def test_an_empty_first_poll_takes_githubs_clock_not_ours(house, yard):
    house.clock.jump(9 * 86_400)
    yard.poll()
    for surface in (Surface.REPO_ISSUES, COMMENTS, Surface.REPO_REVIEW_COMMENTS):
        found = yard.cursor(surface)
        assert found.bootstrap_complete
        assert found.last_updated_at[:10] < house.clock.now().isoformat()[:10]
    number = house.issue()
    house.say(number, "while we were away")
    house.pass_time(20 * 86_400)
    yard.poll()
    assert "while we were away" in yard.bodies("issue_comment")
