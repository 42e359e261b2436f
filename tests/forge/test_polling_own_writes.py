"""What counts as our own words in a scan, and what watched pull requests bring."""

from __future__ import annotations

import json

from hostler.forge.actions import (
    AddLabel,
    CreateComment,
    EditComment,
    OpenPull,
    ReplyToReviewComment,
    format_marker,
)
from hostler.model import TokenStatus
from hostler.store.inbox import pending_inbox_rows
from hostler.store.outbox import WriteState


def test_our_own_words_are_no_news_and_are_observed(sandbox_repo, post, scan, events):
    number = sandbox_repo.issue()
    post.say(number)
    post.drain()
    sandbox_repo.pass_time(1)
    found = scan()
    assert (found.ingested.own_count, found.ingested.observed) == (1, 1)
    assert events("issue_comment") == []
    token = post.token()
    assert (token.status, token.observed_comment_id) == (TokenStatus.OBSERVED, post.row().result_id)
    assert scan().ingested.observed == 0
    post.queue(EditComment(number, post.row().result_id, "new words"), "t2")
    post.drain()
    scan()
    assert events("issue_comment") == []
    assert post.token("t2").status is TokenStatus.OBSERVED


def test_a_pasted_marker_is_feedback_like_any_other(sandbox_repo, post, scan, events):
    """By a stranger, and by a person whose account we use."""
    number = sandbox_repo.issue()
    post.say(number)
    post.drain()
    for who in ("bob", "bot"):
        sandbox_repo.say(number, f"I say: {format_marker('t1')}", who=who)
    scan()
    assert len(events("issue_comment")) == 2
    assert post.row().result_id not in {found for _, found, _ in events("issue_comment")}


def test_a_stranger_cannot_end_an_unclear_write_with_its_marker(sandbox_repo, post, scan, events):
    number = sandbox_repo.issue()
    sandbox_repo.fault("fail_before", method="POST", route="*/comments")
    post.say(number)
    post.sender.send_due()
    sandbox_repo.say(number, format_marker("t1"), who="bob")
    scan(settled=post.note)
    assert post.row().state is WriteState.UNCLEAR
    assert len(events("issue_comment")) == 1


def test_a_marker_on_another_thread_proves_nothing(sandbox_repo, post, scan, events):
    number, other = sandbox_repo.issue(), sandbox_repo.issue()
    sandbox_repo.fault("fail_before", method="POST", route="*/comments")
    post.say(number)
    post.sender.send_due()
    sandbox_repo.say(other, format_marker("t1"), who="bot")
    scan(settled=post.note)
    assert post.row().state is WriteState.UNCLEAR
    assert len(events("issue_comment")) == 1


def test_a_failed_write_that_is_seen_after_all_is_sent(sandbox_repo, post, scan, store):
    number = sandbox_repo.issue()
    post.say(number)
    with store.write() as tx:
        tx.constant("UPDATE outbox SET state = 'failed' WHERE token = 't1'")
        store.repo(sandbox_repo.name).record_action_token_failed(tx, "t1")
    sandbox_repo.say(number, f"text\n\n{format_marker('t1')}", who="bot")
    scan(settled=post.note)
    assert post.row().state is WriteState.SENT
    assert post.token().status is TokenStatus.OBSERVED
    assert post.settled == []


def test_what_we_opened_is_observed_and_its_changes_are_news(
    sandbox_git_repo, sandbox_repo, post, scan, events
):
    number = sandbox_repo.issue()
    post.queue(OpenPull(number, sandbox_repo.branch(), "main", "Add it", "Fixes it."), "pull")
    post.drain()
    scan()
    assert post.token("pull").status is TokenStatus.OBSERVED
    before = len(events("issue"))
    sandbox_repo.pass_time(60)
    sandbox_repo.do("POST", f"issues/{post.row('pull').result_number}/labels", labels=["more"])
    scan()
    assert len(events("issue")) == before + 1


def test_watched_pull_requests_bring_remarks_reviews_and_states(
    sandbox_git_repo, sandbox_repo, post, scan, events, store
):
    pull = sandbox_repo.pull()
    remark = sandbox_repo.remark(pull, "mend this")
    sandbox_repo.do(
        "POST", f"pulls/{pull}/reviews", "bob", body="Not yet.", event="REQUEST_CHANGES"
    )
    scan(pulls=[pull])
    assert ("review_comment", remark, "mend this") in events()
    assert "Not yet." in [body for _, _, body in events("review")]
    assert len(events("pull")) == 1
    post.queue(ReplyToReviewComment(pull, remark, "Mended."), "reply")
    post.drain()
    reviews = len(events("review"))
    scan(pulls=[pull])
    # GitHub makes a review without words around our reply: neither is news.
    assert len(events("review")) == reviews
    assert [body for _, _, body in events("review_comment")] == ["mend this"]
    assert post.token("reply").status is TokenStatus.OBSERVED
    sandbox_repo.do("PUT", f"pulls/{pull}/merge", "bob")
    sandbox_repo.pass_time(1)
    scan(pulls=[pull])
    with store.read() as tx:
        states = [
            json.loads(r.payload)
            for r in pending_inbox_rows(tx, sandbox_repo.name)
            if r.kind == "pull"
        ]
    assert states[-1]["merged_at"]


def test_an_edited_review_is_a_new_event(sandbox_git_repo, sandbox_repo, scan, events):
    pull = sandbox_repo.pull()
    review = sandbox_repo.do("POST", f"pulls/{pull}/reviews", "bob", body="one", event="COMMENT")[
        "id"
    ]
    scan(pulls=[pull])
    sandbox_repo.do("PUT", f"pulls/{pull}/reviews/{review}", "bob", body="two")
    scan(pulls=[pull])
    assert [body for _, _, body in events("review")] == ["one", "two"]


def test_a_watched_pull_request_that_is_not_there_stops_no_other(
    sandbox_git_repo, sandbox_repo, scan, events
):
    pull = sandbox_repo.pull()
    found = scan(pulls=[999, pull])
    assert found.gone == (999,)
    assert len(events("pull")) == 1


def test_what_we_labelled_is_news_of_the_issue_alone(sandbox_repo, post, scan, events):
    number = sandbox_repo.issue()
    post.queue(AddLabel(number, ("seen",)), "label")
    post.queue(CreateComment(number, "labelled"), "word")
    post.drain()
    scan()
    assert [kind for kind, _, _ in events()] == ["issue"]
