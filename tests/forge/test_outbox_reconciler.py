"""Writes that were answered and that no feed has shown: looked for, bounded, and told of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.errors import Unreachable
from hostler.forge.actions import AddLabel, CreateComment
from hostler.forge.outbox.reconciler import (
    MAX_LOOKUPS,
    MAX_LOOKUPS_PER_ROUND,
    WriteReconciler,
    first_lookup_at,
    next_lookup_at,
)
from hostler.model import ScopeKind, TokenStatus
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import ACTION_TOKEN_UNOBSERVED_AGE, ACTION_TOKENS

PATIENCE = timedelta(seconds=120)
NOW = datetime(2026, 3, 1, tzinfo=UTC)
moments = st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)).map(
    lambda moment: moment.replace(tzinfo=UTC)
)


class Eye:
    """A reconciler, and everything that it gave up on."""

    def __init__(self, sandbox_repo, store) -> None:
        self.sandbox_repo = sandbox_repo
        self.missed: list[tuple[str, int]] = []
        self.reconciler = WriteReconciler(
            store,
            lambda _: sandbox_repo.forge,
            sandbox_repo.clock,
            PATIENCE,
            lambda row, looks: self.missed.append((row.token, looks)),
        )

    def look(self):
        before = self.sandbox_repo.forge.cost().requests
        again = self.reconciler.find_due()
        return again, self.sandbox_repo.forge.cost().requests - before


def soon(wait: timedelta) -> bool:
    """What is stored has milliseconds."""
    return abs(wait) < timedelta(milliseconds=2)


@pytest.fixture
def eye(sandbox_repo, store):
    return Eye(sandbox_repo, store)


def test_what_a_feed_has_shown_is_not_looked_for(sandbox_repo, post, eye, scan):
    number = sandbox_repo.issue()
    scan()
    post.say(number)
    post.drain()
    sandbox_repo.pass_time(10)
    scan()
    assert post.token().status is TokenStatus.OBSERVED
    sandbox_repo.pass_time(600)
    assert eye.look() == (None, 0)


def test_what_no_feed_has_shown_is_looked_for_by_itself_after_its_time(sandbox_repo, post, eye):
    number = sandbox_repo.issue()
    for _ in range(30):
        sandbox_repo.say(number)
    sandbox_repo.pass_time(3600)
    post.say(number)
    post.drain()
    again, requests = eye.look()
    assert requests == 0 and soon(again - sandbox_repo.clock.now() - PATIENCE)
    sandbox_repo.pass_time(119)
    assert eye.look() == (again, 0)
    assert metrics.value(ACTION_TOKEN_UNOBSERVED_AGE) == pytest.approx(119, abs=0.01)
    sandbox_repo.pass_time(1)
    # One bounded question, whatever the length of the thread.
    assert eye.look() == (None, 1)
    (ours,) = (c for c in sandbox_repo.comments(number) if c["user"]["login"] == "bot")
    token = post.token()
    assert (token.status, token.observed_comment_id) == (TokenStatus.OBSERVED, ours["id"])
    assert eye.missed == [] and metrics.value(ACTION_TOKEN_UNOBSERVED_AGE) == 0


def test_a_comment_that_somebody_deleted_is_told_of_and_never_made_again(sandbox_repo, post, eye):
    number = sandbox_repo.issue()
    post.say(number)
    post.drain()
    (ours,) = sandbox_repo.comments(number)
    sandbox_repo.do("DELETE", f"issues/comments/{ours['id']}")
    asked = 0
    for _ in range(100):
        sandbox_repo.pass_time(120)
        asked += eye.look()[1]
        post.drain()
    assert eye.missed == [("t1", look) for look in range(1, MAX_LOOKUPS + 1)]
    assert asked <= 2 * MAX_LOOKUPS and sandbox_repo.comments(number) == []
    assert post.token().status is TokenStatus.POSTED
    assert eye.look()[0] is None


def test_writes_without_a_marker_are_not_missed(sandbox_repo, post, eye):
    number = sandbox_repo.issue()
    sandbox_repo.do("POST", "labels", name="red")
    post.queue(AddLabel(number, "red"))
    post.drain()
    sandbox_repo.pass_time(600)
    assert eye.look() == (None, 0)


def test_github_that_is_down_is_left_alone_and_asked_again(sandbox_repo, post, eye, monkeypatch):
    number = sandbox_repo.issue()
    post.say(number)
    post.drain()
    sandbox_repo.pass_time(120)

    def down(*_args, **_words):
        raise Unreachable("GitHub", "no connection")

    with monkeypatch.context() as patch:
        patch.setattr(sandbox_repo.forge, "find_performed", down)
        again, _ = eye.look()
        assert soon(again - sandbox_repo.clock.now() - PATIENCE) and eye.missed == []
        assert eye.look() == (again, 0)
    sandbox_repo.pass_time(120)
    eye.look()
    assert post.token().status is TokenStatus.OBSERVED


def test_many_are_looked_for_a_few_at_a_time(sandbox_repo, post, eye):
    number = sandbox_repo.issue()
    for count in range(MAX_LOOKUPS_PER_ROUND + 5):
        post.queue(CreateComment(number, "x"), token=f"many-{count}")
    post.drain()
    sandbox_repo.pass_time(600)
    again, requests = eye.look()
    assert (
        MAX_LOOKUPS_PER_ROUND <= requests <= 2 * MAX_LOOKUPS_PER_ROUND
        and again <= sandbox_repo.clock.now()
    )
    assert eye.look()[0] is None


def test_steps_are_counted_once_each_and_only_when_stored(sandbox_repo, post, store, scan):
    def count(status):
        return metrics.value(ACTION_TOKENS, status=status, source="test")

    before = {status: count(status) for status in ("planned", "posted", "observed")}
    number = sandbox_repo.issue()
    scan()
    with pytest.raises(ZeroDivisionError), store.write("outbox") as tx:
        store.repo(sandbox_repo.name).record_action_token_planned(
            tx, "undone", scope_kind=ScopeKind.ISSUE, scope_number=number, source="test"
        )
        raise ZeroDivisionError
    post.say(number)
    post.say(number)
    post.drain()
    sandbox_repo.pass_time(5)
    scan()
    scan()
    assert {status: count(status) - number_ for status, number_ in before.items()} == {
        "planned": 1,
        "posted": 1,
        "observed": 1,
    }


@given(moments, moments)
def test_the_first_look_is_never_far_off_however_clocks_go(posted, now):
    assert first_lookup_at(posted, now, PATIENCE) <= now + PATIENCE


@given(st.integers(0, 20))
def test_looks_come_later_each_time_and_end(looks):
    found = next_lookup_at(looks, NOW, PATIENCE)
    assert (found is None) == (looks >= MAX_LOOKUPS)
    if found is not None:
        assert found - NOW == PATIENCE * 2**looks
