"""Threads: when they begin to be followed, are blocked, resumed or gone; and all at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from feeds_yard import Yard, chatter

from hostler.forge.github.polling.poller import MAX_THREAD_SCANS, Poller
from hostler.forge.port import SurfaceFeed
from hostler.model import Surface
from hostler.store.pull_requests import PullStatus
from hostler.store.repositories import threads_in_step
from hostler.store.tasks import Flow, Task, TaskState, add_task

DAY = 86_400
TALK, LINES = Surface.PR_ISSUE_COMMENTS, Surface.PR_REVIEW_COMMENTS


@pytest.fixture
def yard(house, store):
    return Yard(house, store)


def in_step(yard):
    with yard.store.read() as tx:
        return threads_in_step(tx, yard.house.name)


def work_on(yard, number, pull=None, state=TaskState.QUEUED):
    """A task of an issue."""
    task = Task(
        id=f"task-{number}",
        project="stable",
        repo_full_name=str(yard.house.name),
        issue_number=number,
        flow=Flow.BUGFIX,
        title="",
        author="alice",
        state=state,
        state_since="2026-01-01T00:00:00.000Z",
        order=number,
        pr_number=pull,
    )
    with yard.store.write() as tx:
        add_task(tx, task)


class ShortBreath:
    """A forge that gives up after a few review comments of a thread, as after so many pages."""

    def __init__(self, forge, most):
        self._forge, self._most = forge, most

    def __getattr__(self, name):
        return getattr(self._forge, name)

    def changes(self, feed, *args, **more):
        found = self._forge.changes(feed, *args, **more)
        if feed is not SurfaceFeed.THREAD_REVIEW_COMMENTS or len(found.items) <= self._most:
            return found
        return replace(found, items=found.items[: self._most], complete=False, chain=())


@pytest.mark.parametrize("apart", [600, 0], ids=["apart", "in one moment"])
def test_a_first_scan_that_is_cut_short_goes_on_to_the_end(git_house, house, yard, apart):
    number = house.pull()
    for place in range(8):
        house.remark(number, f"line {place}")
        house.pass_time(apart)
    house.pass_time(30 * DAY)
    yard.follow(number)
    yard.tap = replace(yard.tap, forge=ShortBreath(house.forge, 3))
    yard.poller = Poller(yard.tap, yard.plan)
    yard.poll()
    read = yard.bodies("review_comment")
    assert sorted(read) == [f"line {place}" for place in range(8 if apart else 3)]
    house.pass_time(60)
    house.remark(number, "a new line")
    yard.settle()
    assert "a new line" in yard.bodies("review_comment")


def test_a_thread_that_begins_to_be_followed_is_read_whole(git_house, house, yard):
    number = house.pull()
    house.say(number, "long ago")
    house.remark(number, "on a line, long ago")
    house.do("POST", f"pulls/{number}/reviews", "bob", body="Not yet.", event="COMMENT")
    house.pass_time(30 * DAY)
    yard.poll()
    assert yard.bodies("issue_comment") == []
    yard.follow(number)
    yard.poll()
    assert yard.bodies("issue_comment") == ["long ago"]
    assert yard.bodies("review_comment") == ["on a line, long ago"]
    assert "Not yet." in yard.bodies("review")
    assert len(yard.keys("pull")) == 1
    for surface in (TALK, LINES):
        assert yard.cursor(surface, number).bootstrap_complete
    assert f"issues/{number}/comments" not in [path for path, _ in yard.asked()]


def test_many_threads_are_begun_a_few_at_a_time(git_house, house, yard):
    numbers = [house.pull(f"topic{place}") for place in range(2 * MAX_THREAD_SCANS + 1)]
    for number in numbers:
        chatter(house, number, 5, seconds=100)
        yard.follow(number)
    house.pass_time(2 * DAY)
    for polls in range(1, 4):
        yard.poll()
        assert len(in_step(yard)) == min(polls * MAX_THREAD_SCANS, len(numbers))
    assert len(yard.keys("issue_comment")) == 5 * len(numbers)


def test_an_unblocked_thread_is_read_whole_again(git_house, house, yard):
    number = house.pull()
    yard.follow(number)
    yard.settle()
    yard.now_is(number, PullStatus.BLOCKED)
    yard.poll()
    assert in_step(yard) == set() and yard.cursor(TALK, number) is None
    house.pass_time(3 * DAY)
    house.say(number, "while blocked")
    yard.poll()
    assert yard.bodies("issue_comment") == ["while blocked"]
    yard.now_is(number, PullStatus.AWAITING_FEEDBACK)
    asked = [path for path, _ in yard.asked()]
    assert f"issues/{number}/comments" in asked and f"pulls/{number}/comments" in asked
    assert in_step(yard) == {number}
    assert yard.bodies("issue_comment") == ["while blocked"]


def test_a_resumed_thread_is_read_a_bounded_way_back(git_house, house, yard):
    number = house.pull()
    yard.follow(number)
    yard.settle()
    yard.now_is(number, PullStatus.CLOSED)
    yard.poll()
    assert not yard.cursor(TALK, number).bootstrap_complete
    house.pass_time(10 * DAY)
    house.say(number, "days before")
    house.pass_time(3 * DAY)
    house.say(number, "just now")
    # A home that did not look meanwhile: its repository feeds begin with the last day.
    with yard.store.write() as tx:
        tx.constant("DELETE FROM github_comment_poll_cursors WHERE scope_number = 0")
    yard.now_is(number, PullStatus.AWAITING_FEEDBACK)
    house.sandbox.app.pipeline.ledger.clear()
    yard.poll()
    (row,) = [r for r in house.ledger() if r["path"].endswith(f"/issues/{number}/comments")]
    assert "since=" in row["query"]
    assert yard.bodies("issue_comment") == ["just now"]
    assert in_step(yard) == {number}


def test_a_thread_that_is_not_there_is_not_asked_for_again(git_house, house, yard):
    number = house.pull()
    yard.follow(number)
    house.fault("status", status=404, route=f"*/pulls/{number}", count=1)
    assert yard.poll().gone[0] == number
    assert in_step(yard) == {number}


def test_one_that_moved_and_begins_is_fetched_once(git_house, house, yard):
    yard.poll()
    number = house.pull()
    yard.follow(number)
    asked = [path for path, _ in yard.asked()]
    assert asked.count(f"pulls/{number}") <= 2  # the scan, and perhaps the sweep


# -- feeds = "threads" ------------------------------------------------------------------------


@pytest.fixture
def walker(house, store):
    return Yard(house, store, feeds="threads")


def test_threads_are_read_from_their_own_cursors(git_house, house, walker):
    number, issue = house.pull(), house.issue()
    walker.follow(number)
    work_on(walker, issue)
    walker.settle()
    house.pass_time(600)
    walker.settle()
    quiet = walker.asked()
    assert {status for _, status in quiet} == {304}
    assert sorted(path for path, _ in quiet) == sorted(
        [
            "issues",
            f"pulls/{number}",
            f"pulls/{number}/reviews",
            f"pulls/{number}/comments",
            f"issues/{number}/comments",
            f"issues/{issue}/comments",
        ]
    )
    house.say(number, "on the pull request")
    house.remark(number, "on a line")
    house.say(issue, "on the issue")
    walker.poll()
    assert set(walker.bodies("issue_comment")) == {"on the pull request", "on the issue"}
    assert walker.bodies("review_comment") == ["on a line"]
    assert walker.cursor(Surface.ISSUE_PRE_PR_FOLLOWUPS, issue).bootstrap_complete
    assert walker.cursor(Surface.REPO_ISSUE_COMMENTS) is None


def test_the_issue_of_a_pull_request_has_a_cursor_of_its_own(house, walker):
    before, after, done = house.issue(), house.issue(), house.issue()
    work_on(walker, before)
    work_on(walker, after, pull=99)
    work_on(walker, done, state=TaskState.DONE)
    walker.poll()
    assert walker.cursor(Surface.ISSUE_PRE_PR_FOLLOWUPS, before)
    assert walker.cursor(Surface.ISSUE_POST_PR_REDIRECTS, after)
    assert not walker.cursor(Surface.ISSUE_PRE_PR_FOLLOWUPS, done)


def test_blocked_threads_are_read_too(git_house, house, walker):
    number = house.pull()
    walker.follow(number, PullStatus.BLOCKED)
    walker.poll()
    house.say(number, "while blocked")
    walker.poll()
    assert walker.bodies("issue_comment") == ["while blocked"]


def test_a_long_thread_loses_nothing(git_house, house, walker):
    number = house.pull()
    walker.follow(number)
    chatter(house, number, 230)
    walker.poll()
    house.say(number, "the last")
    walker.poll()
    assert len(walker.keys("issue_comment")) == 231


def test_an_issue_that_is_gone_stops_no_other(house, walker):
    here = house.issue()
    work_on(walker, 999)
    work_on(walker, here)
    house.say(here, "still here")
    assert walker.poll().gone == (999,)
    assert walker.bodies("issue_comment") == ["still here"]


# -- enable_incremental_comment_fetch = false -------------------------------------------------


def test_a_full_scan_reads_every_followed_thread_and_all_open_issues(git_house, house, store):
    yard = Yard(house, store, incremental=False)
    number, issue, other = house.pull(), house.issue(body="mine"), house.issue(body="open")
    yard.follow(number)
    work_on(yard, issue)
    house.say(number, "long ago")
    house.say(issue, "on the issue")
    house.say(other, "elsewhere")
    house.do("PATCH", f"issues/{issue}", state="closed")
    house.pass_time(30 * DAY)
    yard.poll()
    assert set(yard.bodies("issue_comment")) == {"long ago", "on the issue"}
    assert {"mine", "open"} <= set(yard.bodies("issue"))
    assert yard.poll().ingested.new == 0
    assert yard.cursor(Surface.REPO_ISSUES) is None
    assert yard.poll().requests == 1 + 5 + 2
