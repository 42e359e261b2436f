"""Every fault of a write, followed by whatever the sender does: one visible effect."""

from __future__ import annotations

import httpx
import pytest

from hostler.forge.actions import CreateComment, OpenIssue, OpenPull, ReplyToReviewComment
from hostler.forge.github.polling.poller import scan_repository
from hostler.model import TokenStatus
from hostler.store.outbox import WriteState
from sandbox_gate import DelayGate

LOST = [
    pytest.param({"kind": "fail_after"}, id="502 after success"),
    pytest.param({"kind": "fail_before"}, id="502 before anything"),
    pytest.param({"kind": "cut", "when": "before"}, id="cut before"),
    pytest.param({"kind": "cut", "when": "after"}, id="cut after"),
    pytest.param({"kind": "cut", "when": "body"}, id="cut in the answer"),
    pytest.param({"kind": "fail_after", "status": 504}, id="504 after success"),
]
LIMITS = [(kind, status) for kind in ("primary", "secondary") for status in (403, 429)]


@pytest.mark.parametrize("delay", [0, 40, 250])
@pytest.mark.parametrize("fault", LOST)
def test_a_lost_answer_leads_to_one_comment(sandbox_repo, post, fault, delay):
    number = sandbox_repo.issue()
    sandbox_repo.tune(visibility_delay=delay)
    sandbox_repo.fault(method="POST", **fault)
    post.say(number)
    post.drain()
    assert post.row().state is WriteState.SENT
    assert sandbox_repo.marked(number, "t1") == 1
    assert post.settled == [("t1", WriteState.SENT)]


@pytest.mark.parametrize("fault", LOST)
def test_several_lost_answers_in_a_row_lead_to_one_comment(sandbox_repo, post, fault):
    number = sandbox_repo.issue()
    sandbox_repo.tune(visibility_delay=20)
    sandbox_repo.fault(method="POST", count=3, **fault)
    post.say(number)
    post.drain()
    assert sandbox_repo.marked(number, "t1") == 1


def test_a_timeout_after_the_write_leads_to_one_comment(sandbox_repo, post, monkeypatch):
    number = sandbox_repo.issue()
    gate = DelayGate(sandbox_repo.sandbox, monkeypatch)
    sandbox_repo.fault("delay", seconds=1.0, method="POST")
    post.say(number)
    sandbox_repo.hub.transport.now()
    with monkeypatch.context() as impatient:
        impatient.setattr(sandbox_repo.hub.transport._http, "timeout", httpx.Timeout(60, read=0.05))
        post.sender.send_due()
    assert post.row().state is WriteState.UNCLEAR
    gate.open()
    post.drain()
    assert sandbox_repo.marked(number, "t1") == 1
    assert len(sandbox_repo.ledger(method="POST", login="bot")) == 1


@pytest.mark.parametrize(("limit", "status"), LIMITS)
def test_a_limit_is_waited_out_by_everybody_and_costs_no_attempt(sandbox_repo, post, limit, status):
    one, other = sandbox_repo.issue(), sandbox_repo.issue()
    sandbox_repo.fault("limit", limit=limit, status=status, method="POST")
    if limit == "primary":
        sandbox_repo.tune(primary_limit=5000)
    post.say(one, "a")
    post.say(other, "b")
    until = post.sender.send_due()
    posts = sandbox_repo.ledger(method="POST", login="bot")
    assert len(posts) == 1
    waited = (until - sandbox_repo.clock.now()).total_seconds()
    reset = (
        sandbox_repo.do("GET", "/rate_limit", "bot")["rate"]["reset"] - sandbox_repo.github_now()
    )
    assert waited == pytest.approx(reset if limit == "primary" else 60, abs=2)
    sandbox_repo.tune(primary_limit=0)
    post.drain()
    assert post.row("a").attempts == post.row("b").attempts == 1
    assert sandbox_repo.marked(one, "a") == sandbox_repo.marked(other, "b") == 1


def test_a_hidden_write_is_not_repeated_while_it_may_still_appear(sandbox_repo, post):
    number = sandbox_repo.issue()
    sandbox_repo.tune(visibility_delay=299)
    sandbox_repo.fault("fail_after", method="POST")
    post.say(number)
    for _ in range(30):
        until = post.sender.send_due()
        if until is None:
            break
        sandbox_repo.pass_time((until - sandbox_repo.clock.now()).total_seconds())
    assert len(sandbox_repo.ledger(method="POST", login="bot")) == 1
    assert post.row().state is WriteState.SENT
    assert post.token().status is TokenStatus.OBSERVED


def test_a_feed_that_shows_an_unclear_write_ends_the_search(sandbox_repo, post, store):
    number = sandbox_repo.issue()
    sandbox_repo.fault("fail_after", method="POST")
    post.say(number)
    post.sender.send_due()
    assert post.row().state is WriteState.UNCLEAR
    found = scan_repository(store, sandbox_repo.forge, sandbox_repo.name, settled=post.note)
    assert found.ingested.observed == 1
    row = post.row()
    assert row.state is WriteState.SENT
    assert row.result_id == sandbox_repo.comments(number)[0]["id"]
    assert post.token().status is TokenStatus.OBSERVED
    assert post.settled == [("t1", WriteState.SENT)]
    assert post.sender.send_due() is None


def test_a_host_that_is_away_loses_nothing_and_spends_no_attempts(sandbox_repo, post):
    number = sandbox_repo.issue()
    nowhere = sandbox_repo.new_hub()
    nowhere.transport.base_url = "http://127.0.0.1:9"
    post.sender._forges = nowhere.repo
    post.say(number)
    for _ in range(20):
        until = post.sender.send_due()
        sandbox_repo.pass_time((until - sandbox_repo.clock.now()).total_seconds())
    assert (post.row().attempts, post.row().error_kind) == (0, "Unreachable")
    post.sender._forges = sandbox_repo.hub.repo
    post.drain()
    assert sandbox_repo.marked(number, "t1") == 1
    nowhere.close()


@pytest.mark.parametrize("fault", LOST)
def test_a_lost_pull_request_is_found_by_its_branch(sandbox_git_repo, sandbox_repo, post, fault):
    number = sandbox_repo.issue()
    sandbox_repo.tune(visibility_delay=30)
    branch = sandbox_repo.branch()
    sandbox_repo.pass_time(60)
    sandbox_repo.fault(method="POST", route="*/pulls", **fault)
    post.queue(OpenPull(number, branch, "main", "Add it", "Fixes it."))
    post.drain()
    sandbox_repo.pass_time(400)
    pulls = sandbox_repo.do("GET", "pulls?state=all")
    assert [pull["number"] for pull in pulls] == [post.row().result_number]


def test_a_lost_reply_and_a_lost_issue_are_found(sandbox_git_repo, sandbox_repo, post):
    pull = sandbox_repo.pull()
    remark = sandbox_repo.remark(pull)
    sandbox_repo.fault("fail_after", method="POST", count=2)
    post.queue(ReplyToReviewComment(pull, remark, "Mended."), "reply")
    post.queue(OpenIssue("Follow-up", "Later."), "issue")
    post.drain()
    sandbox_repo.pass_time(400)
    replies = [
        c for c in sandbox_repo.do("GET", f"pulls/{pull}/comments") if c.get("in_reply_to_id")
    ]
    issues = [i for i in sandbox_repo.do("GET", "issues?state=all") if i["title"] == "Follow-up"]
    assert (len(replies), len(issues)) == (1, 1)
    assert post.row("reply").result_id == replies[0]["id"]
    assert post.row("issue").result_number == issues[0]["number"]


def test_our_own_clock_may_be_wrong_by_a_day(sandbox_repo, post):
    number = sandbox_repo.issue()
    sandbox_repo.clock.jump(86_400)
    sandbox_repo.fault("fail_after", method="POST")
    post.say(number)
    post.drain()
    assert sandbox_repo.marked(number, "t1") == 1


def test_a_pasted_marker_of_ours_does_not_stand_for_the_write(sandbox_repo, post):
    number = sandbox_repo.issue()
    sandbox_repo.fault("fail_before", method="POST", route=f"*/issues/{number}/comments")
    post.queue(CreateComment(number, "real"))
    post.sender.send_due()
    sandbox_repo.say(number, "<!-- hostler:action=t1 -->", who="bob")
    post.drain()
    ours = [c for c in sandbox_repo.comments(number) if c["user"]["login"] == "bot"]
    assert len(ours) == 1 and ours[0]["body"].startswith("real")
