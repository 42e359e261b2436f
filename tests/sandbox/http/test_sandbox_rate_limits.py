"""The hour's budget and the secondary limits, under the virtual clock."""

from __future__ import annotations

import pytest

from hostler.sandbox.auth import SandboxToken

ZEN = "/zen"


def test_the_budget_is_counted_spent_and_renewed(strict):
    strict.world.settings.change({"primary_limit": 3})
    for left in ("2", "1", "0"):
        answer = strict.get(ZEN)
        assert (answer.status, answer.headers["X-RateLimit-Remaining"]) == (200, left)
    refused = strict.get(ZEN)
    assert refused.status == 403
    assert refused.headers["X-RateLimit-Remaining"] == "0"
    assert "Retry-After" not in refused.headers
    reset = int(refused.headers["X-RateLimit-Reset"])
    strict.pass_time(reset - strict.world.clock.now() - 1)
    assert strict.get(ZEN).status == 403
    strict.pass_time(1)
    assert strict.get(ZEN).headers["X-RateLimit-Remaining"] == "2"


def test_each_user_has_a_budget_of_their_own_and_nobody_has_sixty(strict):
    strict.get(ZEN)
    assert strict.get(ZEN, login="bob").headers["X-RateLimit-Used"] == "1"
    assert strict.get(ZEN, login=None).headers["X-RateLimit-Limit"] == "60"


@pytest.mark.parametrize("shape", [403, 429])
def test_both_limits_come_in_both_shapes(strict, shape):
    strict.world.settings.change({"primary_shape": shape, "secondary_shape": shape})
    strict.world.settings.change({"primary_limit": 1, "points_per_minute": 2})
    strict.get(ZEN)
    primary = strict.get(ZEN)
    assert (primary.status, primary.headers["X-RateLimit-Remaining"]) == (shape, "0")
    secondary = strict.get(ZEN)
    assert (secondary.status, secondary.headers["Retry-After"]) == (shape, "60")
    assert "secondary rate limit" in secondary.json()["message"]


def test_a_secondary_refusal_may_come_without_retry_after(strict):
    strict.world.settings.change({"points_per_minute": 1, "secondary_retry_after": 0})
    strict.get(ZEN)
    refused = strict.get(ZEN)
    assert refused.status == 403
    assert "Retry-After" not in refused.headers
    assert int(refused.headers["X-RateLimit-Remaining"]) > 0


def test_nine_hundred_points_a_minute_writes_count_five(strict):
    strict.world.settings.change({"creations_per_minute": 0})
    strict.issue()
    for _ in range(179):
        assert strict.comment(1).status == 201
    for _ in range(5):
        assert strict.get(ZEN).status == 200
    assert strict.get(ZEN).status == 403
    strict.pass_time(60)
    assert strict.get(ZEN).status == 200


def test_eighty_creations_a_minute_and_five_hundred_an_hour(strict):
    strict.issue()
    made = 0
    for _ in range(6):
        for _ in range(80):
            assert strict.comment(1).status == 201
            made += 1
        assert strict.comment(1).status == 403
        assert strict.patch("/repos/alice/demo/issues/1", {"body": "x"}).status == 200
        strict.pass_time(61)
    while made < 500:
        assert strict.comment(1).status == 201
        made += 1
    assert strict.comment(1).status == 403
    strict.pass_time(3600)
    assert strict.comment(1).status == 201


def test_asking_for_the_limit_is_free(strict):
    strict.get(ZEN)
    for _ in range(3):
        answer = strict.get("/rate_limit")
    assert answer.json()["rate"]["used"] == 1
    assert answer.json()["resources"]["core"]["remaining"] == 4999


def test_polling_a_404_again_and_again_triggers_the_secondary_limit(strict):
    strict.world.settings.change({"missing_per_minute": 10})
    for _ in range(10):
        assert strict.get("/repos/alice/nothing").status == 404
    assert strict.get("/repos/alice/nothing").status == 403


def test_a_hundred_requests_at_once_are_the_limit(strict):
    strict.post("/_sandbox/faults", {"kind": "delay", "seconds": 0.05, "count": 100})
    answers = strict.at_once(102, ZEN)
    assert [answer.status for answer in answers] == [200] * 100 + [403] * 2
    assert strict.get(ZEN).status == 200


def test_refused_requests_cost_nothing_of_the_hour(strict):
    strict.world.settings.change({"points_per_minute": 1})
    strict.get(ZEN)
    assert strict.get(ZEN).headers["X-RateLimit-Used"] == "1"


def test_missing_things_are_paid_and_wrong_credentials_are_not(strict):
    assert strict.get("/repos/alice/nothing").headers["X-RateLimit-Used"] == "1"
    wrong = strict.get(ZEN, token="ghp_wrong")
    assert wrong.status == 401
    assert wrong.headers["X-RateLimit-Limit"] == "60"


def test_all_tokens_of_a_user_spend_one_budget(strict):
    strict.world.put(SandboxToken(strict.world.new_id("token"), "second", "Alice"))
    strict.get(ZEN)
    assert strict.get(ZEN, token="second").headers["X-RateLimit-Used"] == "2"
