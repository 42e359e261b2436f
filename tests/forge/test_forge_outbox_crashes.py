"""kill -9 of a real sender between every two steps: one visible effect, and nothing is lost."""

from __future__ import annotations

from datetime import timedelta

import pytest
from forge_children import Child, send_until

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


def kill_at(house, database, step):
    """Run a sender in another process and kill it at a step; then our clock is where its was."""
    started = house.github_now()
    child = Child(send_until, database, house.sandbox.url, str(house.name), house.clock.now(), step)
    try:
        assert child.hear() == step
    finally:
        child.kill()
    house.clock.advance(house.github_now() - started)


@pytest.mark.parametrize(("fault", "step"), CASES, ids=lambda part: str(part))
def test_a_sender_killed_at_any_step_leaves_one_comment(house, post, database, fault, step):
    number = house.issue()
    post.say(number, "t1")
    post.say(number, "t2")
    if fault:
        house.fault(fault, method="POST", route="*/comments")
    kill_at(house, database, step)
    post.drain()
    assert [house.marked(number, token) for token in ("t1", "t2")] == [1, 1]
    assert post.row("t1").state is post.row("t2").state is WriteState.SENT


@pytest.mark.parametrize("step", ["marked 1", "posted 1", "storing 1"])
def test_a_sender_killed_over_a_pull_request_leaves_one(git_house, house, post, database, step):
    number = house.issue()
    post.queue(OpenPull(number, house.branch(), "main", "Add it", "Fixes it."))
    kill_at(house, database, step)
    post.drain()
    house.pass_time(400)
    assert len(house.do("GET", "pulls?state=all")) == 1
    assert post.row().state is WriteState.SENT


def test_a_sender_killed_again_and_again_leaves_one_comment(house, post, database):
    number = house.issue()
    post.say(number)
    for step in ("marked 1", "looked 1", "looking 2", "looked 2"):
        kill_at(house, database, step)
    assert post.row().attempts == 1
    kill_at(house, database, "posted 1")
    post.drain()
    assert house.marked(number, "t1") == 1
    assert post.row().attempts == 2


def test_a_killed_senders_intent_is_from_githubs_clock(house, post, database):
    number = house.issue()
    post.say(number)
    house.clock.jump(7200)
    kill_at(house, database, "marked 1")
    intent = post.row().intent_at
    assert intent.startswith((house.clock.now() - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M"))
