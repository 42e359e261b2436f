"""The stub and the real client behave alike."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fake_forge import FakeForge
from github_fixture import US, SandboxRepo

from hostler.clock import FakeClock
from hostler.errors import Invalid, NotFound
from hostler.forge.actions import (
    AddLabel,
    CloseIssue,
    CreateComment,
    CreateLabel,
    EditComment,
    OpenIssue,
    OpenPull,
    RemoveLabel,
    ReplyToReviewComment,
    UpdatePull,
    format_marker,
)
from hostler.forge.events import content_as, event_key
from hostler.forge.port import ItemKind, Pull, SurfaceFeed
from hostler.model import RepoName


class Real:
    """People in the sandbox."""

    def __init__(self, sandbox_repo):
        self.sandbox_repo = sandbox_repo
        self.forge = sandbox_repo.forge
        self.issue = sandbox_repo.issue
        self.say = sandbox_repo.say
        self.remark = sandbox_repo.remark
        self.pull = sandbox_repo.pull
        self.branch = sandbox_repo.branch
        self.pass_time = sandbox_repo.pass_time
        self.others = []

    def edit(self, comment, body):
        self.sandbox_repo.do("PATCH", f"issues/comments/{comment}", body=body)

    def delete(self, comment):
        self.sandbox_repo.do("DELETE", f"issues/comments/{comment}")

    def label(self, number, label):
        self.sandbox_repo.do("POST", f"issues/{number}/labels", "bob", labels=[label])

    def review(self, number, body):
        self.sandbox_repo.do("POST", f"pulls/{number}/reviews", "bob", body=body, event="COMMENT")

    def merge(self, number):
        self.sandbox_repo.do("PUT", f"pulls/{number}/merge", "bob")

    def another(self):
        self.others.append(SandboxRepo(self.sandbox_repo.sandbox))
        return Real(self.others[-1])

    def block(self, number, blocker, place):
        found = place.sandbox_repo.do("GET", f"issues/{blocker}")
        path = f"issues/{number}/dependencies/blocked_by"
        self.sandbox_repo.do("POST", path, "bob", issue_id=found["id"])

    def unblock(self, number):
        path = f"issues/{number}/dependencies/blocked_by"
        for found in self.sandbox_repo.do("GET", path):
            self.sandbox_repo.do("DELETE", f"{path}/{found['id']}", "bob")


class Fake:
    """People in memory."""

    def __init__(self):
        self.clock = FakeClock()
        self.forge = FakeForge(self.clock, login=US)
        self.pass_time = self.clock.advance

    def issue(self, title="something", who="alice"):
        return self.forge.file_issue(title, by=who)

    def say(self, number, body="hello", who="alice"):
        return self.forge.say(number, body, by=who)

    def branch(self, name="topic"):
        self.forge.branches[name] = "1" * 40
        return name

    def pull(self, name="topic", who="alice"):
        return self.forge.open_pull(self.branch(name), "main", f"Add {name}", by=who)

    def remark(self, pull, body="hm", who="bob"):
        return self.forge.review_line(pull, body, by=who)

    def edit(self, comment, body):
        self.forge.edit(ItemKind.ISSUE_COMMENT, comment, body)

    def delete(self, comment):
        self.forge.delete(ItemKind.ISSUE_COMMENT, comment)

    def label(self, number, label):
        self.forge.put_labels(number, (label,), by="bob")

    def review(self, number, body):
        self.forge.review(number, "COMMENTED", body, by="bob")

    def merge(self, number):
        self.forge.merge(number)

    def another(self):
        made = Fake()
        made.forge.name = RepoName("octo", "barn")
        return made

    def block(self, number, blocker, place):
        self.forge.block(number, blocker, place.forge)

    def unblock(self, number):
        self.forge.unblock(number)


@pytest.fixture(params=["real", "stub"])
def place(request):
    if request.param == "stub":
        yield Fake()
        return
    made = Real(request.getfixturevalue("sandbox_repo"))
    yield made
    for other in made.others:
        other.close()


@pytest.fixture
def git_place(request, place):
    """The place, with branches and pull requests."""
    return place


def look(place, deed, key="k1"):
    since = place.forge.now() - timedelta(seconds=5)
    return place.forge.find_performed(deed, token=key, since=since)


def bodies(place, number):
    return [item.body for item in place.forge.thread(number)]


def test_we_have_a_name_and_a_repository(place):
    assert place.forge.own_login() == US
    found = place.forge.repository()
    assert (found.default_branch, found.can_push, found.private) == ("main", True, False)
    assert not place.forge.was_renamed()


def test_a_comment_is_made_marked_and_found(place):
    number = place.issue()
    deed = CreateComment(number, "On it.")
    assert look(place, deed) is None
    made = place.forge.perform(deed, token="k1")
    assert made.id and made.url and made.updated_at
    assert bodies(place, number) == [f"On it.\n\n{format_marker('k1')}"]
    assert look(place, deed) == made
    assert look(place, deed, "k2") is None


def test_a_marker_pasted_by_somebody_else_is_not_found(place):
    number = place.issue()
    place.say(number, f"look: {format_marker('k1')}")
    assert look(place, CreateComment(number, "x")) is None


def test_what_was_written_before_since_is_not_found(place):
    number = place.issue()
    place.forge.perform(CreateComment(number, "x"), token="k1")
    place.pass_time(60)
    assert look(place, CreateComment(number, "x")) is None


def test_nothing_can_be_done_on_an_issue_that_is_not_there(place):
    with pytest.raises(NotFound):
        place.forge.perform(CreateComment(999, "x"), token="k1")
    with pytest.raises(NotFound):
        place.forge.issue(999)
    with pytest.raises(NotFound):
        place.forge.pull(999)


def test_a_comment_is_edited_and_the_edit_is_found(place):
    number = place.issue()
    made = place.forge.perform(CreateComment(number, "one"), token="k1")
    edit = EditComment(number, made.id, "two")
    assert look(place, edit, "k2") is None
    place.forge.perform(edit, token="k2")
    assert bodies(place, number) == [f"two\n\n{format_marker('k2')}"]
    assert look(place, edit, "k2").id == made.id


def test_a_reply_joins_the_thread_of_a_remark(git_place):
    number = git_place.pull()
    remark = git_place.remark(number)
    deed = ReplyToReviewComment(number, remark, "Mended.")
    assert look(git_place, deed) is None
    made = git_place.forge.perform(deed, token="k1")
    assert look(git_place, deed) == made
    found = git_place.forge.get_comment(ItemKind.REVIEW_COMMENT, made.id)
    assert (found.content.thread, found.number) == (remark, number)


def test_a_pull_request_is_opened_once_for_a_branch(git_place):
    number = git_place.issue()
    deed = OpenPull(number, git_place.branch(), "main", "Add it", "Fixes it.")
    assert look(git_place, deed) is None
    made = git_place.forge.perform(deed, token="k1")
    assert made.number != number
    assert look(git_place, deed).number == made.number
    assert git_place.forge.perform(deed, token="k1").number == made.number
    assert git_place.forge.perform(deed, token="other").number == made.number
    pull = content_as(git_place.forge.pull(made.number), Pull)
    assert (pull.head, pull.base, pull.state, pull.author) == ("topic", "main", "open", US)


def test_our_merged_pull_request_is_still_found_by_its_marker(git_place):
    deed = OpenPull(git_place.issue(), git_place.branch(), "main", "Add it", "x")
    made = git_place.forge.perform(deed, token="k1")
    git_place.merge(made.number)
    assert look(git_place, deed).number == made.number
    assert look(git_place, deed, "k2") is None
    assert content_as(git_place.forge.pull(made.number), Pull).merged


def test_a_pull_request_without_a_branch_is_invalid(git_place):
    with pytest.raises(Invalid) as caught:
        git_place.forge.perform(
            OpenPull(git_place.issue(), "nowhere", "main", "t", "b"), token="k1"
        )
    assert caught.value.fields[0][0] == "head"


def test_a_pull_request_is_changed_and_the_change_is_found(git_place):
    number = git_place.pull(who=US) if isinstance(git_place, Real) else git_place.pull()
    for deed in (
        UpdatePull(number, title="Better"),
        UpdatePull(number, body="More."),
        UpdatePull(number, state="closed"),
    ):
        assert look(git_place, deed) is None
        git_place.forge.perform(deed, token="k1")
        assert look(git_place, deed) is not None
    pull = content_as(git_place.forge.pull(number), Pull)
    assert (pull.title, pull.state) == ("Better", "closed")


def test_an_issue_is_opened_and_found(place):
    deed = OpenIssue("Follow-up", "Later.", ("later",))
    assert look(place, deed) is None
    made = place.forge.perform(deed, token="k1")
    assert look(place, deed).number == made.number
    assert place.forge.issue(made.number).labels == {"later"}


def test_an_issue_is_closed_and_found_closed(place):
    deed = CloseIssue(place.issue())
    assert look(place, deed) is None
    place.forge.perform(deed, token="k1")
    assert look(place, deed) is not None
    assert place.forge.issue(deed.number).state == "closed"


def test_labels_come_and_go_and_twice_is_once(place):
    number = place.issue()
    for _ in range(2):
        place.forge.perform(CreateLabel("agent:design"), token="k1")
        place.forge.perform(AddLabel(number, ("agent:design", "more")), token="k2")
    assert place.forge.issue(number).labels == {"agent:design", "more"}
    assert {"agent:design", "more"} <= place.forge.labels()
    assert look(place, AddLabel(number, ("more",))) is not None
    assert look(place, CreateLabel("agent:design")) is not None
    assert look(place, CreateLabel("unknown")) is None
    for _ in range(2):
        place.forge.perform(RemoveLabel(number, "more"), token="k3")
    assert look(place, RemoveLabel(number, "more")) is not None
    assert look(place, AddLabel(number, ("more",))) is None


def test_who_put_a_label_is_known(place):
    number = place.issue()
    place.label(number, "agent:bugfix")
    assert place.forge.labellers(number) == {"agent:bugfix": "bob"}


def test_what_an_issue_waits_for_is_told_with_its_repository(place):
    number, here = place.issue("later"), place.issue("first")
    elsewhere = place.another()
    there = elsewhere.issue("in another house")
    assert place.forge.blocked_by(number) == []
    place.block(number, here, place)
    place.block(number, there, elsewhere)
    elsewhere.forge.perform(CloseIssue(there), token="k1")
    names = {one.title: (one.repo, one.number, one.state) for one in place.forge.blocked_by(number)}
    assert names == {
        "first": (place.forge.repository().name, here, "open"),
        "in another house": (elsewhere.forge.repository().name, there, "closed"),
    }
    assert place.forge.blocked_by(here) == []
    place.unblock(number)
    assert place.forge.blocked_by(number) == []


def test_an_issue_that_is_not_there_waits_for_nothing(place):
    assert place.forge.blocked_by(999) == []


def test_a_new_dependency_is_news_even_in_the_second_of_its_issue(place):
    number, other = place.issue(), place.issue()

    def key():
        found = place.forge.changes(SurfaceFeed.ISSUES, None).items
        return next(event_key(item) for item in found if item.number == number)

    before = key()
    place.block(number, other, place)
    assert key() != before
    place.unblock(number)
    assert key() == before


def test_feeds_show_what_changed_since_with_edits(place):
    number = place.issue()
    first, second = place.say(number, "one"), place.say(number, "two")
    place.pass_time(60)
    mark = place.forge.now()
    assert place.forge.changes(SurfaceFeed.ISSUE_COMMENTS, mark).items == ()
    place.edit(first, "changed")
    (found,) = place.forge.changes(SurfaceFeed.ISSUE_COMMENTS, mark).items
    assert (found.id, found.number, found.body, found.author) == (first, number, "changed", "alice")
    everything = place.forge.changes(SurfaceFeed.ISSUE_COMMENTS, None)
    assert [item.id for item in everything.items] == [second, first]
    assert everything.complete


def test_only_open_issues_are_shown_where_only_they_are_asked_for(place):
    closed, opened = place.issue("closed"), place.issue("open")
    place.forge.perform(CloseIssue(closed), token="k1")
    found = place.forge.changes(SurfaceFeed.ISSUES, None, only_open=True).items
    assert [item.number for item in found] == [opened]
    assert len(place.forge.changes(SurfaceFeed.ISSUES, None).items) == 2


def test_reviews_are_read_with_their_number(git_place):
    number = git_place.pull()
    assert git_place.forge.reviews(number) == []
    git_place.review(number, "Looks fine.")
    (review,) = git_place.forge.reviews(number)
    assert (review.number, review.author, review.body) == (number, "bob", "Looks fine.")
    assert review.kind is ItemKind.REVIEW and review.updated_at


def test_a_deleted_comment_is_gone(place):
    comment = place.say(place.issue())
    assert place.forge.get_comment(ItemKind.ISSUE_COMMENT, comment).body == "hello"
    place.delete(comment)
    assert place.forge.get_comment(ItemKind.ISSUE_COMMENT, comment) is None
