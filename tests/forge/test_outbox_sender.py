"""Queueing and sending against a real host: order, lanes, threads, dependencies, distance."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest

from hostler.errors import RateLimited, StoreConflict, Unreachable
from hostler.forge.actions import (
    AddLabel,
    CreateComment,
    EditComment,
    OpenPull,
    ReplyToReviewComment,
    find_tokens,
    format_marker,
)
from hostler.forge.github.polling.poller import scan_repository
from hostler.forge.outbox.queue import build_token, enqueue_action
from hostler.forge.outbox.sender import OutboxSender
from hostler.forge.port import ActionResult
from hostler.model import RepoName, TokenStatus
from hostler.store.outbox import Lane, WriteState, find_write


def sent_tokens(sandbox_repo, number):
    return [find_tokens(comment["body"])[0] for comment in sandbox_repo.comments(number)]


def test_a_queued_comment_is_sent_once_and_its_result_is_stored(sandbox_repo, post):
    number = sandbox_repo.issue()
    post.say(number)
    assert post.token().status is TokenStatus.PLANNED
    post.drain()
    (comment,) = sandbox_repo.comments(number)
    row = post.row()
    assert (row.state, row.result_id, row.attempts) == (WriteState.SENT, comment["id"], 1)
    assert row.result_url == comment["html_url"]
    assert comment["body"] == f"text of t1\n\n{format_marker('t1')}"
    assert post.token().status is TokenStatus.POSTED
    assert post.settled == [("t1", WriteState.SENT)]
    assert post.sender.send_due() is None


def test_what_was_rolled_back_is_not_sent(sandbox_repo, post, store):
    number = sandbox_repo.issue()
    with pytest.raises(ZeroDivisionError), store.write("outbox") as tx:
        enqueue_action(
            tx,
            sandbox_repo.name,
            CreateComment(number, "x"),
            token="t1",
            lane=Lane.STATUS,
            source="s",
        )
        raise ZeroDivisionError
    post.drain()
    assert sandbox_repo.comments(number) == []


def test_queueing_twice_is_queueing_once(sandbox_repo, post):
    number = sandbox_repo.issue()
    post.say(number)
    post.queue(CreateComment(number, "another text"))
    post.drain()
    post.say(number)
    post.drain()
    (comment,) = sandbox_repo.comments(number)
    assert comment["body"].startswith("text of t1")


def test_a_token_is_the_same_for_the_same_cause():
    assert build_token("reply", "issue_comment:1:x") == build_token("reply", "issue_comment:1:x")
    assert build_token("reply", 1, 2) != build_token("reply", 12)
    with pytest.raises(ValueError):
        build_token("no -->", 1)


def test_writes_of_a_thread_keep_their_order_and_lanes_go_first_between_threads(sandbox_repo, post):
    one, other = sandbox_repo.issue(), sandbox_repo.issue()
    post.say(one, "a", lane=Lane.STATUS)
    post.say(one, "b", lane=Lane.STATUS)
    post.say(other, "c", lane=Lane.OPERATOR)
    post.drain()
    assert [token for token, _ in post.settled] == ["c", "a", "b"]
    assert sent_tokens(sandbox_repo, one) == ["a", "b"]


def test_at_least_a_second_lies_between_two_writes(sandbox_repo, post):
    number = sandbox_repo.issue()
    for token in "abc":
        post.say(number, token)
    post.drain()
    times = [row["time"] for row in sandbox_repo.ledger(method="POST", login="bot")]
    assert len(times) == 3
    assert all(later - earlier >= 1 for earlier, later in pairwise(times))


def test_a_failing_thread_blocks_only_itself(sandbox_repo, post):
    broken, healthy = sandbox_repo.issue(), sandbox_repo.issue()
    sandbox_repo.fault(
        "status", status=404, route=f"*/issues/{broken}/comments", method="POST", count=3
    )
    post.say(broken, "a")
    post.say(broken, "b")
    post.say(healthy, "c")
    post.drain()
    assert [token for token, _ in post.settled] == ["c", "a", "b"]
    assert post.row("a").attempts == 4
    assert sent_tokens(sandbox_repo, broken) == ["a", "b"]


def test_a_write_that_is_refused_for_good_fails_and_frees_its_thread(sandbox_repo, post):
    number = sandbox_repo.issue()
    post.queue(EditComment(number, 999_999, "x"), "a")
    post.say(number, "b")
    post.drain()
    assert post.settled == [("a", WriteState.FAILED), ("b", WriteState.SENT)]
    assert post.token("a").status is TokenStatus.FAILED
    assert post.row("a").error_kind == "NotFound"


def test_a_write_on_a_deleted_issue_fails_at_once(sandbox_repo, post):
    number = sandbox_repo.issue()
    sandbox_repo.control("POST", "/issues/delete", repo=str(sandbox_repo.name), number=number)
    post.say(number)
    post.drain()
    assert post.row().error_kind == "Gone"
    assert len(sandbox_repo.ledger(method="POST", login="bot")) == 1


def test_a_comment_does_not_follow_its_issue_into_another_repository(sandbox_repo, post):
    number = sandbox_repo.issue()
    there = f"alice/{sandbox_repo.name.name}-other"
    sandbox_repo.sandbox.seed({"repos": [{"name": there, "collaborators": {"bot": "write"}}]})
    sandbox_repo.control(
        "POST", "/issues/transfer", repo=str(sandbox_repo.name), number=number, to=there
    )
    post.say(number)
    post.drain()
    assert post.row().error_kind == "Moved"
    assert sandbox_repo.get_raw(f"/repos/{there}/issues/comments").json() == []


def test_a_write_waits_for_the_one_it_depends_on(sandbox_repo, post):
    one, other = sandbox_repo.issue(), sandbox_repo.issue()
    post.say(one, "a", lane=Lane.STATUS)
    post.say(other, "b", lane=Lane.OPERATOR, depends_on="a")
    post.drain()
    assert [token for token, _ in post.settled] == ["a", "b"]


def test_a_write_falls_with_the_one_it_depends_on(sandbox_repo, post):
    one, other = sandbox_repo.issue(), sandbox_repo.issue()
    post.queue(EditComment(one, 999_999, "x"), "a")
    post.say(other, "b", depends_on="a")
    post.drain()
    assert post.settled == [("a", WriteState.FAILED), ("b", WriteState.FAILED)]
    assert sandbox_repo.comments(other) == []


def test_a_write_cannot_depend_on_one_that_was_never_queued(sandbox_repo, post):
    with pytest.raises(StoreConflict):
        post.say(sandbox_repo.issue(), "b", depends_on="a")


def test_what_follows_is_queued_with_the_first_ones_result(sandbox_git_repo, sandbox_repo, post):
    """The link to a pull request, in the transaction that stores its 201."""
    number, name = sandbox_repo.issue(), sandbox_repo.name

    def follow(tx, row):
        post.note(tx, row)
        if row.kind == "open_pull":
            text = f"See #{row.result_number}."
            lane = Lane.STATUS
            enqueue_action(
                tx, name, CreateComment(number, text), token="link", lane=lane, source="test"
            )

    post.sender._settled = follow
    post.queue(OpenPull(number, sandbox_repo.branch(), "main", "Add it", "Fixes it."), "pull")
    post.drain()
    pull = post.row("pull").result_number
    (comment,) = sandbox_repo.comments(number)
    assert comment["body"].startswith(f"See #{pull}.")


def test_a_failing_follow_up_leaves_the_write_to_be_found_again(sandbox_repo, post):
    number, calls = sandbox_repo.issue(), []

    def fail_once(tx, row):
        calls.append(row.token)
        if len(calls) == 1:
            raise ZeroDivisionError

    post.sender._settled = fail_once
    post.say(number)
    with pytest.raises(ZeroDivisionError):
        post.drain()
    assert post.row().state is WriteState.SENDING
    post.drain()
    assert calls == ["t1", "t1"]
    assert sandbox_repo.marked(number, "t1") == 1


def test_replies_and_labels_go_the_same_way(sandbox_git_repo, sandbox_repo, post):
    pull = sandbox_repo.pull()
    remark = sandbox_repo.remark(pull)
    post.queue(ReplyToReviewComment(pull, remark, "Mended."), "reply", lane=Lane.FEEDBACK)
    post.queue(AddLabel(pull, ("seen",)), "label")
    post.drain()
    assert post.row("reply").state is post.row("label").state is WriteState.SENT
    assert sandbox_repo.forge.issue(pull).labels == {"seen"}


def test_a_repository_that_nobody_serves_keeps_its_writes(sandbox_repo, post):
    post.say(sandbox_repo.issue())
    post.sender._forges = lambda name: None
    assert post.sender.send_due() is None
    assert post.row().state is WriteState.QUEUED


def test_a_defect_in_a_deed_stops_no_other_thread(sandbox_repo, post, store):
    one, other = sandbox_repo.issue(), sandbox_repo.issue()
    post.say(one, "a")
    post.say(other, "b")
    with store.write() as tx:
        tx.constant("UPDATE outbox SET payload = '{' WHERE token = 'a'")
    post.drain()
    assert post.settled == [("a", WriteState.FAILED), ("b", WriteState.SENT)]
    assert post.row("a").error_kind == "Broken"


def test_a_renamed_repository_takes_its_rows_along(sandbox_repo, post, store):
    number = sandbox_repo.issue()
    post.say(number)
    new = f"{sandbox_repo.name.name}-renamed"
    sandbox_repo.do("PATCH", f"/repos/{sandbox_repo.name}", name=new)
    post.drain()
    assert post.row().state is WriteState.SENT
    found = scan_repository(store, sandbox_repo.forge, sandbox_repo.name)
    assert found.renamed_to.name == new
    with store.write() as tx:
        store.repo(sandbox_repo.name).add(tx, 1)
        store.repo(sandbox_repo.name).rename(tx, found.renamed_to)
        assert find_write(tx, found.renamed_to, "t1").state is WriteState.SENT


class Road:
    """A forge that makes everything, or meets the limit of its account."""

    def __init__(self, clock, *, limited):
        self._clock, self._limited, self.made = clock, limited, []

    def now(self):
        return self._clock.now()

    def perform(self, deed, *, token):
        if self._limited:
            until = self.now() + timedelta(minutes=30)
            raise RateLimited("POST /issues", 403, until, "secondary")
        self.made.append(token)
        return ActionResult(id=len(self.made), number=0, url="")


@pytest.mark.parametrize("shared", [True, False])
def test_an_account_that_met_a_limit_leaves_the_others_their_writes(store, clock, shared):
    here, there = RepoName("octo", "here"), RepoName("octo", "there")
    roads = {here: Road(clock, limited=True), there: Road(clock, limited=False)}

    def account(repo):
        if not shared and repo == here:
            # As of an App whose installation cannot be asked for now.
            raise Unreachable("GET /repos/octo/here/installation", "it is away")
        return "ours"

    sender = OutboxSender(store, roads.get, clock, account=account)
    with store.write("outbox") as tx:
        for repo in (here, there):
            enqueue_action(
                tx, repo, CreateComment(1, "text"), token="t", lane=Lane.STATUS, source="test"
            )
    sender.send_due()
    clock.advance(5)
    sender.send_due()
    assert roads[there].made == ([] if shared else ["t"])
