"""Conditional lists: the stub and the real client behave alike."""

from __future__ import annotations

from datetime import timedelta

import pytest
from test_forge_contract import Fake, Real

from hostler.errors import NotFound
from hostler.forge.port import ItemKind, SurfaceFeed

REPO_LISTS = (SurfaceFeed.ISSUES, SurfaceFeed.ISSUE_COMMENTS, SurfaceFeed.REVIEW_COMMENTS)


class RealCi(Real):
    def head(self, number):
        return self.sandbox_repo.do("GET", f"pulls/{number}")["head"]["sha"]

    def run(self, sha):
        jobs = [{"name": "build", "conclusion": None}]
        where = {"repo": str(self.sandbox_repo.name), "sha": sha}
        return self.sandbox_repo.control("POST", "/actions/runs", jobs=jobs, **where)["id"]

    def finish(self, run):
        where = {"repo": str(self.sandbox_repo.name), "run_id": run}
        self.sandbox_repo.control("POST", "/actions/finish", conclusion="failure", **where)


class FakeCi(Fake):
    def head(self, number):
        return self.forge.pulls[number]["head"]["sha"]

    def run(self, sha):
        return self.forge.run(sha, by="alice")

    def finish(self, run):
        self.forge.end_run(run, "failure")


@pytest.fixture(params=["real", "stub"])
def place(request):
    if request.param == "stub":
        return FakeCi()
    return RealCi(request.getfixturevalue("sandbox_repo"))


@pytest.fixture
def git_place(place):
    """The place, with branches and pull requests."""
    return place


def read(place, feed, number=0, known=(), since=None, **how):
    return place.forge.changes(feed, since, number=number, known=known, **how)


def test_a_list_that_is_as_it_was_says_so_and_gives_nothing(git_place):
    number = git_place.pull()
    git_place.say(number, "one")
    git_place.remark(number, "two")
    for feed in REPO_LISTS:
        first = read(git_place, feed)
        assert first.items and first.chain and (first.asked, first.pages) == (1, 1)
        again = read(git_place, feed, known=first.chain)
        assert again.unchanged and again.items == () and again.complete
        assert (again.asked, again.pages, again.chain) == (1, 0, first.chain)


def test_a_list_that_has_changed_is_given_whole_with_its_new_chain(place):
    number = place.issue()
    comment = place.say(number, "one")
    first = read(place, SurfaceFeed.ISSUE_COMMENTS)
    place.edit(comment, "two")
    again = read(place, SurfaceFeed.ISSUE_COMMENTS, known=first.chain)
    assert [item.body for item in again.items] == ["two"] and not again.unchanged
    assert read(place, SurfaceFeed.ISSUE_COMMENTS, known=again.chain).unchanged
    place.delete(comment)
    assert read(place, SurfaceFeed.ISSUE_COMMENTS, known=again.chain).items == ()


def test_a_chain_of_another_since_is_of_no_use(place):
    place.say(place.issue(), "one")
    first = read(place, SurfaceFeed.ISSUE_COMMENTS)
    since = place.forge.now() - timedelta(days=1)
    again = read(place, SurfaceFeed.ISSUE_COMMENTS, known=first.chain, since=since)
    assert [item.body for item in again.items] == ["one"]


def test_a_thread_is_read_alone(git_place):
    one, other = git_place.pull("topic"), git_place.pull("other")
    git_place.say(one, "on one")
    git_place.say(other, "on other")
    git_place.remark(one, "on a line")
    found = read(git_place, SurfaceFeed.THREAD_COMMENTS, one)
    assert [item.body for item in found.items] == ["on one"]
    assert read(git_place, SurfaceFeed.THREAD_COMMENTS, one, found.chain).unchanged
    found = read(git_place, SurfaceFeed.THREAD_REVIEW_COMMENTS, one)
    assert [item.body for item in found.items] == ["on a line"]
    assert read(git_place, SurfaceFeed.THREAD_REVIEW_COMMENTS, one, found.chain).unchanged
    assert read(git_place, SurfaceFeed.THREAD_REVIEW_COMMENTS, other).items == ()


def test_single_things_are_lists_of_one(git_place):
    number = git_place.pull()
    git_place.forge.pull(number)  # whether it can be merged is found out when somebody asks
    for feed, kind in ((SurfaceFeed.ISSUE, ItemKind.ISSUE), (SurfaceFeed.PULL, ItemKind.PULL)):
        first = read(git_place, feed, number)
        assert [(item.kind, item.number) for item in first.items] == [(kind, number)]
        assert read(git_place, feed, number, first.chain).unchanged
    git_place.pass_time(1)
    git_place.merge(number)
    first = read(git_place, SurfaceFeed.PULL, number, first.chain)
    assert first.items[0].content.merged_at


def test_reviews_are_read_from_a_page_on(git_place):
    number = git_place.pull()
    assert read(git_place, SurfaceFeed.REVIEWS, number).items == ()
    git_place.review(number, "Not yet.")
    first = read(git_place, SurfaceFeed.REVIEWS, number)
    assert [(item.number, item.body) for item in first.items] == [(number, "Not yet.")]
    assert read(git_place, SurfaceFeed.REVIEWS, number, first.chain, one_page=True).unchanged
    git_place.review(number, "Now.")
    again = read(git_place, SurfaceFeed.REVIEWS, number, first.chain)
    assert [item.body for item in again.items] == ["Not yet.", "Now."]


def test_workflow_runs_are_read_by_their_creation(git_place):
    sha = git_place.head(git_place.pull())
    old = git_place.run(sha)
    git_place.pass_time(100)
    since = git_place.forge.now() - timedelta(seconds=50)
    assert read(git_place, SurfaceFeed.WORKFLOW_RUNS, since=since).items == ()
    run = git_place.run(sha)
    found = read(git_place, SurfaceFeed.WORKFLOW_RUNS, since=since)
    assert [(one.kind, one.id) for one in found.items] == [(ItemKind.WORKFLOW_RUN, run)]
    assert found.items[0].content.head_sha == sha
    assert read(git_place, SurfaceFeed.WORKFLOW_RUNS, known=found.chain, since=since).unchanged
    git_place.finish(run)
    (done,) = read(git_place, SurfaceFeed.WORKFLOW_RUNS, known=found.chain, since=since).items
    assert (done.content.status, done.content.conclusion) == ("completed", "failure")
    assert {one.id for one in read(git_place, SurfaceFeed.WORKFLOW_RUNS).items} == {old, run}


@pytest.mark.parametrize(
    "feed",
    [
        SurfaceFeed.PULL,
        SurfaceFeed.ISSUE,
        SurfaceFeed.REVIEWS,
        SurfaceFeed.THREAD_COMMENTS,
        SurfaceFeed.THREAD_REVIEW_COMMENTS,
    ],
)
def test_what_is_not_there_is_not_found(place, feed):
    with pytest.raises(NotFound):
        read(place, feed, 999)
