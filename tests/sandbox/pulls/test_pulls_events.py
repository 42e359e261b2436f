"""What webhooks are told of pull requests, and what a saved state keeps of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pull_fixture import House

from hostler.sandbox.auth import ANONYMOUS
from hostler.sandbox.serializers.base import RenderContext, render_payload
from hostler.sandbox.state.tables import Entity
from hostler.sandbox.state.world import World

Told = list[tuple[str, str, dict[str, Any]]]


@pytest.fixture
def told(house: House) -> Iterator[Told]:
    """Every event with its action and payload, as it happens."""
    found: Told = []

    def listen(world: World) -> Any:
        def hear(event: str, item: Entity, action: str, _actor: str, **_more: Any) -> None:
            frame = RenderContext(world.root, world.truth, ANONYMOUS)
            found.append((event, action, render_payload(event, item, action, frame)))

        world.listeners.append(hear)
        return hear

    hear = house.sandbox.do(listen)
    yield found
    house.sandbox.do(lambda world: world.listeners.remove(hear))


def names(told: Told) -> list[str]:
    found = [f"{event} {action}".strip() for event, action, _ in told]
    told.clear()
    return found


def test_the_life_of_a_pull_request_is_told(house: House, told: Told) -> None:
    house.branch("topic")
    assert names(told) == ["push", "create"]
    house.commit("topic")
    event, _, push = told[0]
    assert event == "push" and push["ref"] == "refs/heads/topic"
    assert push["after"] == house.head("topic") == push["head_commit"]["id"]
    told.clear()
    asked = {"title": "T", "head": "topic", "base": "main"}
    number = house.made("POST", "pulls", **asked)["number"]
    assert told[0][2]["pull_request"]["number"] == number
    assert names(told) == ["pull_request opened"]
    house.commit("topic", "more.txt")
    assert names(told) == ["push", "pull_request synchronize"]
    house.made("PATCH", f"pulls/{number}", state="closed", title="New")
    assert names(told) == ["pull_request edited", "pull_request closed"]
    house.made("PATCH", f"pulls/{number}", state="open")
    assert names(told) == ["pull_request reopened"]
    house.made("POST", f"issues/{number}/labels", labels=["ready"])
    assert names(told) == ["pull_request labeled"]
    notes = [{"path": "more.txt", "line": 1, "body": "x"}]
    house.made("POST", f"pulls/{number}/reviews", "bob", event="APPROVE", comments=notes)
    assert names(told) == ["pull_request_review_comment created", "pull_request_review submitted"]
    house.made("PUT", f"pulls/{number}/merge")
    assert told[0][2]["pull_request"]["merged"] is True
    assert names(told) == ["pull_request closed", "push"]
    house.call("DELETE", "git/refs/heads/topic")
    assert names(told) == ["push", "delete"]


def test_ci_is_told(house: House, told: Told) -> None:
    jobs = [{"name": "test", "conclusion": "failure"}]
    house.made("POST", "/_sandbox/actions/runs", repo=house.name, jobs=jobs)
    assert names(told) == [
        "check_run completed",
        "workflow_job completed",
        "workflow_run requested",
        "workflow_run completed",
    ]
    house.made("POST", f"statuses/{house.head()}", state="success")
    assert names(told) == ["status"]


def test_a_saved_state_keeps_everything(house: House) -> None:
    number = house.pull()
    house.known(number)
    place = {"path": "topic.txt", "line": 3, "commit_id": house.head("topic"), "body": "x"}
    house.made("POST", f"pulls/{number}/comments", "bob", **place)
    house.made("POST", f"pulls/{number}/reviews", "bob", event="APPROVE")
    house.made("POST", "/_sandbox/actions/runs", repo=house.name, branch="topic")
    check = {"name": "x", "head_sha": house.head(), "output": {"summary": "s"}}
    house.made("POST", "check-runs", "app", **check)
    house.made("PUT", "branches/main/protection", required_status_checks={"contexts": ["x"]})
    paths = (f"pulls/{number}", "pulls", f"pulls/{number}/reviews", "pulls/comments")
    paths += ("actions/runs", "commits/main/check-runs", f"issues/{number}/events")
    before = [house.get(path) for path in paths]
    state = house.get("/_sandbox/state")
    house.made("PUT", "/_sandbox/state", **state)
    assert [house.get(path) for path in paths] == before
    assert house.get("/_sandbox/state") == state


def test_writes_come_into_sight_after_the_delay(house: House) -> None:
    house.made("POST", "/_sandbox/settings", visibility_delay=20)
    try:
        number = house.pull()
        assert house.call("GET", f"pulls/{number}").status_code == 404
        assert house.get("pulls") == [] == house.get("issues")
        again = house.send("POST", "pulls", title="x", head="topic", base="main")
        assert again.status_code == 422
        house.tick(21)
        assert [pull["number"] for pull in house.get("pulls")] == [number]
    finally:
        house.made("POST", "/_sandbox/settings", visibility_delay=0)
