"""The repository's feeds: full pages, moved pull requests, the sweep, cursors, workflow runs."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

import pytest
from polling_fixture import PolledRepo, chatter

from hostler.clock import FakeClock
from hostler.forge.github.polling.context import PollContext
from hostler.forge.github.polling.cursors import decode_chains
from hostler.forge.github.polling.poller import Poller
from hostler.model import Surface
from hostler.sandbox.pulls.entities import Review
from hostler.store.inbox import pending_inbox_rows
from hostler.store.pull_requests import PullStatus
from hostler.store.repositories import find_feed_pages, list_changed_pull_requests
from hostler.telemetry.logs import LogDestinations

COMMENTS = Surface.REPO_ISSUE_COMMENTS


@pytest.fixture
def polled_repo(sandbox_repo, store):
    return PolledRepo(sandbox_repo, store)


def chain(polled_repo, surface=COMMENTS, number=0):
    with polled_repo.store.read() as tx:
        return decode_chains(find_feed_pages(tx, polled_repo.sandbox_repo.name, surface, number))


def moved(polled_repo):
    with polled_repo.store.read() as tx:
        return list_changed_pull_requests(tx, polled_repo.sandbox_repo.name)


def test_what_lands_behind_a_full_page_is_found(sandbox_repo, polled_repo):
    """The first page keeps its ETag: a 304 of it proves nothing."""
    number = sandbox_repo.issue()
    polled_repo.settle()
    chatter(sandbox_repo, number, 100)
    polled_repo.settle()
    *pages, last = chain(polled_repo)
    assert pages and all(page.full for page in pages) and not last.full
    sandbox_repo.say(number, "behind it all")
    asked = polled_repo.asked()
    assert asked.count(("issues/comments", 304)) >= 1
    assert asked.count(("issues/comments", 200)) >= 1
    assert "behind it all" in polled_repo.bodies("issue_comment")


def look_again(polled_repo):
    """Some polls within a second: anything may still turn up late."""
    for _ in range(4):
        polled_repo.poll()


def test_a_page_that_is_exactly_full_within_one_second_hides_nothing(sandbox_repo, polled_repo):
    number = sandbox_repo.issue()
    chatter(sandbox_repo, number, 200)
    look_again(polled_repo)
    assert [page.full for page in chain(polled_repo)] == [True, True, True, False]
    sandbox_repo.say(number, "in the very same second")
    polled_repo.settle()
    assert "in the very same second" in polled_repo.bodies("issue_comment")


@pytest.mark.long
def test_a_list_of_too_many_pages_has_no_chain_and_loses_nothing(sandbox_repo, polled_repo):
    number = sandbox_repo.issue()
    chatter(sandbox_repo, number, 1150)
    look_again(polled_repo)
    assert chain(polled_repo) == ()
    sandbox_repo.say(number, "one more")
    polled_repo.settle()
    assert "one more" in polled_repo.bodies("issue_comment")
    assert len(polled_repo.keys("issue_comment")) == 1151


def test_a_pull_request_that_moved_is_fetched_with_its_reviews(
    sandbox_git_repo, sandbox_repo, polled_repo
):
    number = sandbox_repo.pull()
    polled_repo.follow(number)
    polled_repo.settle()
    sandbox_repo.pass_time(60)
    sandbox_repo.do(
        "POST", f"pulls/{number}/reviews", "bob", body="Not yet.", event="REQUEST_CHANGES"
    )
    asked = [path for path, _ in polled_repo.asked()]
    assert asked.count(f"pulls/{number}") == 1 and f"pulls/{number}/reviews" in asked
    assert polled_repo.bodies("review") == ["Not yet."]
    assert moved(polled_repo) == []
    sandbox_repo.do("PUT", f"pulls/{number}/merge", "bob")
    polled_repo.poll()
    with polled_repo.store.read() as tx:
        states = [
            json.loads(r.payload)
            for r in pending_inbox_rows(tx, sandbox_repo.name)
            if r.kind == "pull"
        ]
    assert states[-1]["merged_at"]


def test_that_one_has_moved_is_stored_with_the_cursor(sandbox_git_repo, sandbox_repo, polled_repo):
    number = sandbox_repo.pull()
    polled_repo.follow(number)
    polled_repo.settle()
    sandbox_repo.pass_time(60)
    sandbox_repo.do("POST", f"pulls/{number}/reviews", "bob", body="Hm.", event="COMMENT")
    sandbox_repo.fault("status", status=500, route=f"*/pulls/{number}", count=3)
    assert polled_repo.poll().error is not None
    assert moved(polled_repo) == [number]
    polled_repo.wake()
    polled_repo.poll()
    assert moved(polled_repo) == [] and polled_repo.bodies("review") == ["Hm."]


def test_one_that_is_gone_is_not_asked_for_again(sandbox_git_repo, sandbox_repo, polled_repo):
    number = sandbox_repo.pull()
    polled_repo.follow(number)
    polled_repo.settle()
    sandbox_repo.pass_time(60)
    sandbox_repo.say(number, "last words")
    sandbox_repo.fault("status", status=404, route=f"*/pulls/{number}", count=1)
    assert number in polled_repo.poll().gone
    assert moved(polled_repo) == []


def test_the_sweep_finds_a_review_that_was_edited_without_a_sign(
    sandbox_git_repo, sandbox_repo, polled_repo
):
    pulls = [sandbox_repo.pull(f"topic{place}") for place in range(3)]
    for number in pulls:
        polled_repo.follow(number)
    path = f"pulls/{pulls[1]}/reviews"
    review = sandbox_repo.do("POST", path, "bob", body="one", event="COMMENT")["id"]
    polled_repo.settle()
    sandbox_repo.pass_time(600)
    polled_repo.settle()
    world = sandbox_repo.sandbox.app.world
    world.put(replace(world.truth.get(Review, review), body="two"))
    for _ in range(2 * len(pulls)):
        polled_repo.poll()
    assert polled_repo.bodies("review") == ["one", "two"]


def test_a_review_that_is_shown_later_than_its_change_is_met_soon(
    sandbox_git_repo, sandbox_repo, polled_repo
):
    pulls = [sandbox_repo.pull(f"topic{place}") for place in range(6)]
    for number in pulls:
        polled_repo.follow(number)
    for _ in range(20):
        polled_repo.poll()
    sandbox_repo.pass_time(600)
    sandbox_repo.fault("hide", seconds=40, method="POST", route="*/reviews")
    late = pulls[4]
    sandbox_repo.do("POST", f"pulls/{late}/reviews", "bob", body="late", event="COMMENT")
    sandbox_repo.say(late, "and a word that is seen at once")
    polled_repo.poll()
    assert polled_repo.bodies("review") == []
    sandbox_repo.pass_time(41)
    for _ in range(3):
        polled_repo.poll()
    assert polled_repo.bodies("review") == ["late"]


def test_reviews_beyond_a_page_cost_one_request(sandbox_git_repo, sandbox_repo, polled_repo):
    number = sandbox_repo.pull()
    polled_repo.follow(number)
    for place in range(101):
        sandbox_repo.do("POST", f"pulls/{number}/reviews", "bob", body=f"{place}", event="COMMENT")
    polled_repo.settle()
    assert len(polled_repo.bodies("review")) == 101
    sandbox_repo.pass_time(600)
    polled_repo.settle()
    assert len(polled_repo.asked()) == 4
    sandbox_repo.do("POST", f"pulls/{number}/reviews", "bob", body="the last", event="COMMENT")
    asked = polled_repo.asked()
    assert len(asked) <= 6
    assert "the last" in polled_repo.bodies("review")


def test_a_rest_that_failed_is_made_up_for(sandbox_repo, store):
    # Its rhythm alone would never come to the rest.
    polled_repo = PolledRepo(sandbox_repo, store, idle_every=10_000)
    number = sandbox_repo.issue()
    polled_repo.settle()
    sandbox_repo.pass_time(60)
    sandbox_repo.say(number, "heard late")
    sandbox_repo.fault("status", status=500, route="*/issues/comments", count=6)
    for _ in range(2):
        assert polled_repo.poll().error.surface == COMMENTS
    # The tripwire is silent now; what it was touched for is still owed.
    asked = dict(polled_repo.asked())
    assert asked["issues"] == 304 and asked["issues/comments"] == 200
    assert "heard late" in polled_repo.bodies("issue_comment")


@pytest.mark.parametrize("column", ["last_updated_at", "last_comment_id"])
@pytest.mark.parametrize("broken", ["damaged", "2999-01-01T00:00:00.000Z"])
def test_a_cursor_that_cannot_be_believed_is_set_back_and_told(sandbox_repo, store, column, broken):
    lines = StringIO()
    log = LogDestinations(FakeClock(), None, terminal=lines).log
    poller = Poller(PollContext(store, sandbox_repo.forge, sandbox_repo.name, log=log))
    number = sandbox_repo.issue()
    poller.poll()
    sandbox_repo.say(number, "hello")
    with store.write() as tx:
        tx.constant(f"UPDATE github_comment_poll_cursors SET {column} = ?", [broken])
    found = poller.poll()
    assert set(found.reset) >= {Surface.REPO_ISSUES, COMMENTS}
    assert "cursor_invalid" in lines.getvalue()
    assert "incremental_scan_backfill" in lines.getvalue()
    with store.read() as tx:
        kinds = [row.kind for row in pending_inbox_rows(tx, sandbox_repo.name)]
    assert "issue_comment" in kinds
    assert poller.poll().reset == ()


def test_completed_runs_of_our_heads_wait_in_the_inbox(sandbox_git_repo, sandbox_repo, store):
    polled_repo = PolledRepo(sandbox_repo, store, runs=True)
    number, other = sandbox_repo.pull("topic"), sandbox_repo.pull("other")
    polled_repo.follow(number)
    sha = sandbox_repo.do("GET", f"pulls/{number}")["head"]["sha"]
    foreign = sandbox_repo.do("GET", f"pulls/{other}")["head"]["sha"]
    where = {"repo": str(sandbox_repo.name), "jobs": [{"name": "build", "conclusion": None}]}
    runs = [
        sandbox_repo.control("POST", "/actions/runs", sha=s, **where)["id"] for s in (sha, foreign)
    ]
    polled_repo.settle()
    assert polled_repo.keys("workflow_run") == set()
    sandbox_repo.pass_time(4000)
    # Others' runs move on; ours is still waited for.
    for _ in range(3):
        sandbox_repo.control("POST", "/actions/runs", sha=foreign, **where)
        sandbox_repo.pass_time(1000)
        polled_repo.poll()
    for run in runs:
        ended = {"repo": str(sandbox_repo.name), "run_id": run, "conclusion": "failure"}
        sandbox_repo.control("POST", "/actions/finish", **ended)
    polled_repo.poll()
    with store.read() as tx:
        rows = [
            row for row in pending_inbox_rows(tx, sandbox_repo.name) if row.kind == "workflow_run"
        ]
    assert [(row.scope_number, row.object_id) for row in rows] == [(number, runs[0])]
    polled_repo.settle()
    assert len(polled_repo.keys("workflow_run")) == 1


def test_runs_are_not_asked_for_where_nobody_needs_them(sandbox_git_repo, sandbox_repo, store):
    polled_repo = PolledRepo(sandbox_repo, store)
    polled_repo.follow(sandbox_repo.pull())
    assert "actions/runs" not in [path for _ in range(3) for path, _ in polled_repo.asked()]


def test_what_is_said_on_a_blocked_pull_request_waits_in_the_inbox(
    sandbox_git_repo, sandbox_repo, polled_repo
):
    number = sandbox_repo.pull()
    polled_repo.follow(number, PullStatus.BLOCKED)
    polled_repo.settle()
    sandbox_repo.pass_time(60)
    sandbox_repo.say(number, "while it is blocked")
    polled_repo.poll()
    with polled_repo.store.read() as tx:
        rows = [
            row
            for row in pending_inbox_rows(tx, sandbox_repo.name, number)
            if row.kind == "issue_comment"
        ]
    assert len(rows) == 1


def test_an_empty_first_poll_takes_githubs_clock_not_ours(sandbox_repo, polled_repo):
    sandbox_repo.clock.jump(9 * 86_400)
    polled_repo.poll()
    for surface in (Surface.REPO_ISSUES, COMMENTS, Surface.REPO_REVIEW_COMMENTS):
        found = polled_repo.cursor(surface)
        assert found.bootstrap_complete
        assert found.last_updated_at[:10] < sandbox_repo.clock.now().isoformat()[:10]
    number = sandbox_repo.issue()
    sandbox_repo.say(number, "while we were away")
    sandbox_repo.pass_time(20 * 86_400)
    polled_repo.poll()
    assert "while we were away" in polled_repo.bodies("issue_comment")
