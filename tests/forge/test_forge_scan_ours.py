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
from hostler.forge.github.polling.ingest import list_pending_events
from hostler.model import TokenStatus
from hostler.store.outbox import WriteState


def test_our_own_words_are_no_news_and_are_observed(house, post, scan, events):
    number = house.issue()
    post.say(number)
    post.drain()
    house.pass_time(1)
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


def test_a_pasted_marker_is_feedback_like_any_other(house, post, scan, events):
    """By a stranger, and by a person whose account we use."""
    number = house.issue()
    post.say(number)
    post.drain()
    for who in ("bob", "bot"):
        house.say(number, f"I say: {format_marker('t1')}", who=who)
    scan()
    assert len(events("issue_comment")) == 2
    assert post.row().result_id not in {found for _, found, _ in events()}


def test_a_stranger_cannot_end_an_unclear_write_with_its_marker(house, post, scan, events):
    number = house.issue()
    house.fault("fail_before", method="POST", route="*/comments")
    post.say(number)
    post.sender.send_due()
    house.say(number, format_marker("t1"), who="bob")
    scan(settled=post.note)
    assert post.row().state is WriteState.UNCLEAR
    assert len(events("issue_comment")) == 1


def test_a_marker_on_another_thread_proves_nothing(house, post, scan, events):
    number, other = house.issue(), house.issue()
    house.fault("fail_before", method="POST", route="*/comments")
    post.say(number)
    post.sender.send_due()
    house.say(other, format_marker("t1"), who="bot")
    scan(settled=post.note)
    assert post.row().state is WriteState.UNCLEAR
    assert len(events("issue_comment")) == 1


def test_a_failed_write_that_is_seen_after_all_is_sent(house, post, scan, store):
    number = house.issue()
    post.say(number)
    with store.write() as tx:
        tx.constant("UPDATE outbox SET state = 'failed' WHERE token = 't1'")
        store.repo(house.name).record_action_token_failed(tx, "t1")
    house.say(number, f"text\n\n{format_marker('t1')}", who="bot")
    scan(settled=post.note)
    assert post.row().state is WriteState.SENT
    assert post.token().status is TokenStatus.OBSERVED
    assert post.settled == []


def test_what_we_opened_is_observed_and_its_changes_are_news(git_house, house, post, scan, events):
    number = house.issue()
    post.queue(OpenPull(number, house.branch(), "main", "Add it", "Fixes it."), "pull")
    post.drain()
    scan()
    assert post.token("pull").status is TokenStatus.OBSERVED
    before = len(events("issue"))
    house.pass_time(60)
    house.do("POST", f"issues/{post.row('pull').result_number}/labels", labels=["more"])
    scan()
    assert len(events("issue")) == before + 1


def test_watched_pull_requests_bring_remarks_reviews_and_states(
    git_house, house, post, scan, events, store
):
    pull = house.pull()
    remark = house.remark(pull, "mend this")
    house.do("POST", f"pulls/{pull}/reviews", "bob", body="Not yet.", event="REQUEST_CHANGES")
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
    house.do("PUT", f"pulls/{pull}/merge", "bob")
    house.pass_time(1)
    scan(pulls=[pull])
    with store.read() as tx:
        states = [
            json.loads(r.payload) for r in list_pending_events(tx, house.name) if r.kind == "pull"
        ]
    assert states[-1]["merged_at"]


def test_an_edited_review_is_a_new_event(git_house, house, scan, events):
    pull = house.pull()
    review = house.do("POST", f"pulls/{pull}/reviews", "bob", body="one", event="COMMENT")["id"]
    scan(pulls=[pull])
    house.do("PUT", f"pulls/{pull}/reviews/{review}", "bob", body="two")
    scan(pulls=[pull])
    assert [body for _, _, body in events("review")] == ["one", "two"]


def test_a_watched_pull_request_that_is_not_there_stops_no_other(git_house, house, scan, events):
    pull = house.pull()
    found = scan(pulls=[999, pull])
    assert found.gone == (999,)
    assert len(events("pull")) == 1


def test_what_we_labelled_is_news_of_the_issue_alone(house, post, scan, events):
    number = house.issue()
    post.queue(AddLabel(number, ("seen",)), "label")
    post.queue(CreateComment(number, "labelled"), "word")
    post.drain()
    scan()
    assert [kind for kind, _, _ in events()] == ["issue"]
