"""A request that is refused has changed nothing."""

from __future__ import annotations

import pytest

ISSUES = "/repos/alice/demo/issues"
WRONG_LABELS = (["x" * 51], ["fine", " "], [1], [None], [{"name": 3}], [{"x": 1}], "y" * 51)


def state(local):
    """Everything that is kept, but for the running time."""
    kept = local.get("/_sandbox/state").json()
    return kept["entities"], kept["counters"]


def refused(local, method, path, body):
    """Send what must be refused; nothing may have come of it."""
    before = state(local)
    answer = local.call(method, path, body)
    assert answer.status == 422, answer.body
    assert state(local) == before


@pytest.mark.parametrize("labels", WRONG_LABELS)
def test_an_issue_with_a_wrong_label_is_not_made(local, labels):
    refused(local, "POST", ISSUES, {"title": "half", "labels": labels})


def test_an_issue_for_an_unknown_assignee_is_not_made(local):
    refused(local, "POST", ISSUES, {"title": "half", "labels": ["new"], "assignees": ["zzz"]})


def test_a_change_with_one_wrong_field_leaves_every_field_alone(local):
    local.issue()
    right = {"title": "new", "body": "new", "state": "closed", "labels": ["fresh"]}
    wrong = ({"assignees": ["zzz"]}, {"labels": ["fresh", "x" * 51]}, {"state_reason": "mood"})
    for one in wrong:
        refused(local, "PATCH", f"{ISSUES}/1", right | one)


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_one_wrong_label_of_several_makes_none(local, method):
    local.issue(labels=("bug",))
    refused(local, method, f"{ISSUES}/1/labels", ["okay", "y" * 51])
    refused(local, method, f"{ISSUES}/1/labels", {"labels": ["okay", {"name": ""}]})


def test_what_is_right_is_done_whole(local):
    made = local.post(ISSUES, {"title": "x", "labels": ["new", "NEW"], "assignees": ["bob"]}).json()
    assert [label["name"] for label in made["labels"]] == ["new"]
    assert [user["login"] for user in made["assignees"]] == ["bob"]


def test_a_pull_request_that_cannot_be_retargeted_is_not_reopened_half(house):
    house.branch("other")
    number = house.pull("topic")
    house.send("PATCH", f"pulls/{number}", state="closed")
    house.commit("topic", text="more\n")
    before = house.get(f"pulls/{number}")["head"]["sha"]
    answer = house.send("PATCH", f"pulls/{number}", state="open", base="other")
    assert answer.status_code == 422
    assert house.get(f"pulls/{number}")["head"]["sha"] == before
