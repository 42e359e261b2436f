"""Every kind of fault really does what it says, over real connections."""

from __future__ import annotations

import contextlib

import httpx
import pytest

from sandbox_gate import DelayGate

COMMENTS = "/repos/alice/demo/issues/1/comments"


def plan(sandbox, **fault):
    answer = sandbox.control.post("/faults", json=fault)
    assert answer.status_code == 200, answer.text
    return answer.json()


def visible(client):
    return len(client.get(COMMENTS).json())


def say(client):
    return client.post(COMMENTS, json={"body": "hello"})


def test_fail_before_writes_nothing(sandbox):
    plan(sandbox, kind="fail_before", method="POST", status=503)
    with sandbox.client("alice") as alice:
        assert say(alice).status_code == 503
        assert visible(alice) == 0
        assert say(alice).status_code == 201


def test_fail_after_has_written(sandbox):
    plan(sandbox, kind="fail_after", method="POST")
    with sandbox.client("alice") as alice:
        answer = say(alice)
        assert answer.status_code == 502
        assert "html" in answer.headers["content-type"]
        assert visible(alice) == 1


@pytest.mark.parametrize(("when", "written"), [("before", 0), ("after", 1), ("body", 1)])
def test_a_cut_is_a_lost_connection(sandbox, when, written):
    plan(sandbox, kind="cut", when=when, method="POST")
    with sandbox.client("alice") as alice:
        with pytest.raises(httpx.RemoteProtocolError):
            say(alice)
        assert visible(alice) == written
    row = sandbox.control.get("/ledger", params={"fault": "cut"}).json()["entries"][0]
    assert row["status"] == 0


def test_a_delay_outlasts_an_impatient_client_and_the_write_still_happens(sandbox, monkeypatch):
    plan(sandbox, kind="delay", seconds=0.3, method="POST")
    gate = DelayGate(sandbox, monkeypatch)
    with sandbox.client("alice") as alice:
        with pytest.raises(httpx.ReadTimeout):
            alice.post(COMMENTS, json={"body": "hello"}, timeout=httpx.Timeout(60, read=0.05))
        assert visible(alice) == 0
        gate.open()
        assert visible(alice) == 1
    assert gate.delays == [0.3]


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_status_is_answered_without_looking(sandbox, status):
    plan(sandbox, kind="status", status=status)
    with sandbox.client("alice") as alice:
        assert alice.get("/user").status_code == status


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("limit", ["primary", "secondary"])
def test_limits_strike_in_both_kinds_and_shapes(sandbox, limit, status):
    plan(sandbox, kind="limit", limit=limit, status=status)
    with sandbox.client("alice") as alice:
        answer = alice.get("/user")
    assert answer.status_code == status
    assert ("retry-after" in answer.headers) == (limit == "secondary")
    assert (answer.headers["x-ratelimit-remaining"] == "0") == (limit == "primary")


def test_a_hidden_write_is_seen_when_its_time_has_come(sandbox):
    sandbox.control.post("/clock", json={"frozen": True})
    plan(sandbox, kind="hide", seconds=30, method="POST")
    with sandbox.client("alice") as alice:
        assert say(alice).status_code == 201
        assert say(alice).status_code == 201
        assert [item["id"] for item in alice.get(COMMENTS).json()] == [2]
        sandbox.control.post("/clock", json={"advance": 29})
        assert visible(alice) == 1
        sandbox.control.post("/clock", json={"advance": 1})
        assert [item["id"] for item in alice.get(COMMENTS).json()] == [1, 2]


def test_a_fault_skips_counts_and_matches_route_or_path(sandbox):
    plan(sandbox, kind="status", route="/repos/*/issues", skip=1, count=2)
    plan(sandbox, kind="status", route="/user", count=None, status=500)
    with sandbox.client("alice") as alice:
        answers = [alice.get("/repos/alice/demo/issues").status_code for _ in range(4)]
        assert answers == [200, 502, 502, 200]
        assert [alice.get("/user").status_code for _ in range(2)] == [500, 500]
        assert alice.get("/repos/alice/demo").status_code == 200
    assert [fault["struck"] for fault in sandbox.control.get("/faults").json()] == [2, 2]
    sandbox.control.delete("/faults/2")
    assert [fault["id"] for fault in sandbox.control.get("/faults").json()] == [1]
    sandbox.control.delete("/faults")
    assert sandbox.control.get("/faults").json() == []


def test_chance_is_repeatable(sandbox):
    def strikes():
        plan(sandbox, kind="status", route="/user", count=None, probability=0.5, seed=7)
        with sandbox.client("alice") as alice:
            found = [alice.get("/user").status_code for _ in range(20)]
        sandbox.control.delete("/faults")
        return found

    first = strikes()
    assert first == strikes()
    assert {200, 502} == set(first)


@pytest.mark.parametrize(
    ("fault", "cost"),
    [
        ({"kind": "cut", "when": "before"}, 0),
        ({"kind": "cut", "when": "after"}, 1),
        ({"kind": "cut", "when": "body"}, 1),
        ({"kind": "fail_before"}, 0),
        ({"kind": "fail_after"}, 1),
        ({"kind": "hide", "seconds": 5}, 1),
    ],
)
def test_what_was_done_is_paid_for_whatever_becomes_of_the_answer(sandbox, fault, cost):
    plan(sandbox, method="POST", **fault)
    with sandbox.client("alice") as alice:
        with contextlib.suppress(httpx.RemoteProtocolError):
            say(alice)
        left = alice.get("/rate_limit").json()["resources"]["core"]
    row = sandbox.control.get("/ledger", params={"fault": fault["kind"]}).json()["entries"][0]
    assert (row["primary"], left["used"]) == (cost, cost)


@pytest.mark.parametrize("kind", ["fail_before", "status"])
def test_a_failure_before_anybody_looked_tells_of_no_budget(sandbox, kind):
    plan(sandbox, kind=kind, status=429)
    with sandbox.client("alice") as alice:
        refused = alice.get("/user")
        assert not [name for name in refused.headers if name.startswith("x-ratelimit")]
        assert alice.get("/user").headers["x-ratelimit-limit"] == "5000"
    with sandbox.client(token="wrong") as stranger:
        assert stranger.get("/user").headers["x-ratelimit-limit"] == "60"
