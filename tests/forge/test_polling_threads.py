"""Threads: when they begin to be followed, are blocked, resumed or gone; and all at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from polling_fixture import PolledRepo, chatter

from hostler.forge.github.polling.poller import MAX_THREAD_SCANS, Poller
from hostler.forge.port import SurfaceFeed
from hostler.model import Surface
from hostler.store.pull_requests import PullStatus
from hostler.store.repositories import threads_in_step
from hostler.store.tasks import Flow, Task, TaskState, add_task

DAY = 86_400
TALK, LINES = Surface.PR_ISSUE_COMMENTS, Surface.PR_REVIEW_COMMENTS


@pytest.fixture
def polled_repo(sandbox_repo, store):
    return PolledRepo(sandbox_repo, store)


def in_step(polled_repo):
    with polled_repo.store.read() as tx:
        return threads_in_step(tx, polled_repo.sandbox_repo.name)


def work_on(polled_repo, number, pull=None, state=TaskState.QUEUED):
    """A task of an issue."""
    task = Task(
        id=f"task-{number}",
        project="stable",
        repo_full_name=str(polled_repo.sandbox_repo.name),
        issue_number=number,
        flow=Flow.BUGFIX,
        title="",
        author="alice",
        state=state,
        state_since="2026-01-01T00:00:00.000Z",
        order=number,
        pr_number=pull,
    )
    with polled_repo.store.write() as tx:
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
def test_a_first_scan_that_is_cut_short_goes_on_to_the_end(
    sandbox_git_repo, sandbox_repo, polled_repo, apart
):
    number = sandbox_repo.pull()
    for place in range(8):
        sandbox_repo.remark(number, f"line {place}")
        sandbox_repo.pass_time(apart)
    sandbox_repo.pass_time(30 * DAY)
    polled_repo.follow(number)
    polled_repo.tap = replace(polled_repo.tap, forge=ShortBreath(sandbox_repo.forge, 3))
    polled_repo.poller = Poller(polled_repo.tap, polled_repo.plan)
    polled_repo.poll()
    read = polled_repo.bodies("review_comment")
    assert sorted(read) == [f"line {place}" for place in range(8 if apart else 3)]
    sandbox_repo.pass_time(60)
    sandbox_repo.remark(number, "a new line")
    polled_repo.settle()
    assert "a new line" in polled_repo.bodies("review_comment")


def test_a_thread_that_begins_to_be_followed_is_read_whole(
    sandbox_git_repo, sandbox_repo, polled_repo
):
    number = sandbox_repo.pull()
    sandbox_repo.say(number, "long ago")
    sandbox_repo.remark(number, "on a line, long ago")
    sandbox_repo.do("POST", f"pulls/{number}/reviews", "bob", body="Not yet.", event="COMMENT")
    sandbox_repo.pass_time(30 * DAY)
    polled_repo.poll()
    assert polled_repo.bodies("issue_comment") == []
    polled_repo.follow(number)
    polled_repo.poll()
    assert polled_repo.bodies("issue_comment") == ["long ago"]
    assert polled_repo.bodies("review_comment") == ["on a line, long ago"]
    assert "Not yet." in polled_repo.bodies("review")
    assert len(polled_repo.keys("pull")) == 1
    for surface in (TALK, LINES):
        assert polled_repo.cursor(surface, number).bootstrap_complete
    assert f"issues/{number}/comments" not in [path for path, _ in polled_repo.asked()]


def test_many_threads_are_begun_a_few_at_a_time(sandbox_git_repo, sandbox_repo, polled_repo):
    numbers = [sandbox_repo.pull(f"topic{place}") for place in range(2 * MAX_THREAD_SCANS + 1)]
    for number in numbers:
        chatter(sandbox_repo, number, 5, seconds=100)
        polled_repo.follow(number)
    sandbox_repo.pass_time(2 * DAY)
    for polls in range(1, 4):
        polled_repo.poll()
        assert len(in_step(polled_repo)) == min(polls * MAX_THREAD_SCANS, len(numbers))
    assert len(polled_repo.keys("issue_comment")) == 5 * len(numbers)


def test_an_unblocked_thread_is_read_whole_again(sandbox_git_repo, sandbox_repo, polled_repo):
    number = sandbox_repo.pull()
    polled_repo.follow(number)
    polled_repo.settle()
    polled_repo.now_is(number, PullStatus.BLOCKED)
    polled_repo.poll()
    assert in_step(polled_repo) == set() and polled_repo.cursor(TALK, number) is None
    sandbox_repo.pass_time(3 * DAY)
    sandbox_repo.say(number, "while blocked")
    polled_repo.poll()
    assert polled_repo.bodies("issue_comment") == ["while blocked"]
    polled_repo.now_is(number, PullStatus.AWAITING_FEEDBACK)
    asked = [path for path, _ in polled_repo.asked()]
    assert f"issues/{number}/comments" in asked and f"pulls/{number}/comments" in asked
    assert in_step(polled_repo) == {number}
    assert polled_repo.bodies("issue_comment") == ["while blocked"]


def test_a_resumed_thread_is_read_a_bounded_way_back(sandbox_git_repo, sandbox_repo, polled_repo):
    number = sandbox_repo.pull()
    polled_repo.follow(number)
    polled_repo.settle()
    polled_repo.now_is(number, PullStatus.CLOSED)
    polled_repo.poll()
    assert not polled_repo.cursor(TALK, number).bootstrap_complete
    sandbox_repo.pass_time(10 * DAY)
    sandbox_repo.say(number, "days before")
    sandbox_repo.pass_time(3 * DAY)
    sandbox_repo.say(number, "just now")
    # A home that did not look meanwhile: its repository feeds begin with the last day.
    with polled_repo.store.write() as tx:
        tx.constant("DELETE FROM github_comment_poll_cursors WHERE scope_number = 0")
    polled_repo.now_is(number, PullStatus.AWAITING_FEEDBACK)
    sandbox_repo.sandbox.app.pipeline.ledger.clear()
    polled_repo.poll()
    (row,) = [r for r in sandbox_repo.ledger() if r["path"].endswith(f"/issues/{number}/comments")]
    assert "since=" in row["query"]
    assert polled_repo.bodies("issue_comment") == ["just now"]
    assert in_step(polled_repo) == {number}


def test_a_thread_that_is_not_there_is_not_asked_for_again(
    sandbox_git_repo, sandbox_repo, polled_repo
):
    number = sandbox_repo.pull()
    polled_repo.follow(number)
    sandbox_repo.fault("status", status=404, route=f"*/pulls/{number}", count=1)
    assert polled_repo.poll().gone[0] == number
    assert in_step(polled_repo) == {number}


def test_one_that_moved_and_begins_is_fetched_once(sandbox_git_repo, sandbox_repo, polled_repo):
    polled_repo.poll()
    number = sandbox_repo.pull()
    polled_repo.follow(number)
    asked = [path for path, _ in polled_repo.asked()]
    assert asked.count(f"pulls/{number}") <= 2  # the scan, and perhaps the sweep


# -- feeds = "threads" ------------------------------------------------------------------------


@pytest.fixture
def walker(sandbox_repo, store):
    return PolledRepo(sandbox_repo, store, feeds="threads")


def test_threads_are_read_from_their_own_cursors(sandbox_git_repo, sandbox_repo, walker):
    number, issue = sandbox_repo.pull(), sandbox_repo.issue()
    walker.follow(number)
    work_on(walker, issue)
    walker.settle()
    sandbox_repo.pass_time(600)
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
    sandbox_repo.say(number, "on the pull request")
    sandbox_repo.remark(number, "on a line")
    sandbox_repo.say(issue, "on the issue")
    walker.poll()
    assert set(walker.bodies("issue_comment")) == {"on the pull request", "on the issue"}
    assert walker.bodies("review_comment") == ["on a line"]
    assert walker.cursor(Surface.ISSUE_PRE_PR_FOLLOWUPS, issue).bootstrap_complete
    assert walker.cursor(Surface.REPO_ISSUE_COMMENTS) is None


def test_the_issue_of_a_pull_request_has_a_cursor_of_its_own(sandbox_repo, walker):
    before, after, done = sandbox_repo.issue(), sandbox_repo.issue(), sandbox_repo.issue()
    work_on(walker, before)
    work_on(walker, after, pull=99)
    work_on(walker, done, state=TaskState.DONE)
    walker.poll()
    assert walker.cursor(Surface.ISSUE_PRE_PR_FOLLOWUPS, before)
    assert walker.cursor(Surface.ISSUE_POST_PR_REDIRECTS, after)
    assert not walker.cursor(Surface.ISSUE_PRE_PR_FOLLOWUPS, done)


def test_blocked_threads_are_read_too(sandbox_git_repo, sandbox_repo, walker):
    number = sandbox_repo.pull()
    walker.follow(number, PullStatus.BLOCKED)
    walker.poll()
    sandbox_repo.say(number, "while blocked")
    walker.poll()
    assert walker.bodies("issue_comment") == ["while blocked"]


def test_a_long_thread_loses_nothing(sandbox_git_repo, sandbox_repo, walker):
    number = sandbox_repo.pull()
    walker.follow(number)
    chatter(sandbox_repo, number, 230)
    walker.poll()
    sandbox_repo.say(number, "the last")
    walker.poll()
    assert len(walker.keys("issue_comment")) == 231


def test_an_issue_that_is_gone_stops_no_other(sandbox_repo, walker):
    here = sandbox_repo.issue()
    work_on(walker, 999)
    work_on(walker, here)
    sandbox_repo.say(here, "still here")
    assert walker.poll().gone == (999,)
    assert walker.bodies("issue_comment") == ["still here"]


# -- enable_incremental_comment_fetch = false -------------------------------------------------


def test_a_full_scan_reads_every_followed_thread_and_all_open_issues(
    sandbox_git_repo, sandbox_repo, store
):
    polled_repo = PolledRepo(sandbox_repo, store, incremental=False)
    number, issue, other = (
        sandbox_repo.pull(),
        sandbox_repo.issue(body="mine"),
        sandbox_repo.issue(body="open"),
    )
    polled_repo.follow(number)
    work_on(polled_repo, issue)
    sandbox_repo.say(number, "long ago")
    sandbox_repo.say(issue, "on the issue")
    sandbox_repo.say(other, "elsewhere")
    sandbox_repo.do("PATCH", f"issues/{issue}", state="closed")
    sandbox_repo.pass_time(30 * DAY)
    polled_repo.poll()
    assert set(polled_repo.bodies("issue_comment")) == {"long ago", "on the issue"}
    assert {"mine", "open"} <= set(polled_repo.bodies("issue"))
    assert polled_repo.poll().ingested.new == 0
    assert polled_repo.cursor(Surface.REPO_ISSUES) is None
    assert polled_repo.poll().requests == 1 + 5 + 2
