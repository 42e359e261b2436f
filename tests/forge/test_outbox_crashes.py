"""kill -9 of a real sender between every two steps: one visible effect, and nothing is lost."""

from __future__ import annotations

from datetime import timedelta

import pytest
from killed_senders import Child, send_until

from hostler.forge.actions import OpenPull
from hostler.store.outbox import WriteState

PLAIN = ["ask the time 1", "marked 1", "posted 1", "storing 1", "stored 1"]
LOST = ["posted 1", "waiting 1", "looking 1", "looked 1", "storing 1", "stored 1"]
NEVER_ARRIVED = [
    "posted 1",
    "looking 1",
    "looked 1",
    "looked 3",
    "marked 2",
    "posted 2",
    "storing 1",
]
CASES = (
    [(None, step) for step in PLAIN]
    + [("fail_after", step) for step in LOST]
    + [("fail_before", step) for step in NEVER_ARRIVED]
)


def kill_at(sandbox_repo, database, step):
    """Run a sender in another process and kill it at a step; then our clock is where its was."""
    started = sandbox_repo.github_now()
    child = Child(
        send_until,
        database,
        sandbox_repo.sandbox.url,
        str(sandbox_repo.name),
        sandbox_repo.clock.now(),
        step,
    )
    try:
        assert child.hear() == step
    finally:
        child.kill()
    sandbox_repo.clock.advance(sandbox_repo.github_now() - started)


@pytest.mark.parametrize(("fault", "step"), CASES, ids=lambda part: str(part))
def test_a_sender_killed_at_any_step_leaves_one_comment(sandbox_repo, post, database, fault, step):
    number = sandbox_repo.issue()
    post.say(number, "t1")
    post.say(number, "t2")
    if fault:
        sandbox_repo.fault(fault, method="POST", route="*/comments")
    kill_at(sandbox_repo, database, step)
    post.drain()
    assert [sandbox_repo.marked(number, token) for token in ("t1", "t2")] == [1, 1]
    assert post.row("t1").state is post.row("t2").state is WriteState.SENT


@pytest.mark.parametrize("step", ["marked 1", "posted 1", "storing 1"])
def test_a_sender_killed_over_a_pull_request_leaves_one(
    sandbox_git_repo, sandbox_repo, post, database, step
):
    number = sandbox_repo.issue()
    post.queue(OpenPull(number, sandbox_repo.branch(), "main", "Add it", "Fixes it."))
    kill_at(sandbox_repo, database, step)
    post.drain()
    sandbox_repo.pass_time(400)
    assert len(sandbox_repo.do("GET", "pulls?state=all")) == 1
    assert post.row().state is WriteState.SENT


def test_a_sender_killed_again_and_again_leaves_one_comment(sandbox_repo, post, database):
    number = sandbox_repo.issue()
    post.say(number)
    for step in ("marked 1", "looked 1", "looking 2", "looked 2"):
        kill_at(sandbox_repo, database, step)
    assert post.row().attempts == 1
    kill_at(sandbox_repo, database, "posted 1")
    post.drain()
    assert sandbox_repo.marked(number, "t1") == 1
    assert post.row().attempts == 2


def test_a_killed_senders_intent_is_from_githubs_clock(sandbox_repo, post, database):
    number = sandbox_repo.issue()
    post.say(number)
    sandbox_repo.clock.jump(7200)
    kill_at(sandbox_repo, database, "marked 1")
    intent = post.row().intent_at
    assert intent.startswith(
        (sandbox_repo.clock.now() - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M")
    )
