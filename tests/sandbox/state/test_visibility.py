"""Reads lag behind writes."""

from __future__ import annotations

COMMENTS = "/repos/alice/demo/issues/comments"


def test_a_write_is_invisible_until_its_delay_has_passed(local):
    local.issue()
    local.world.settings.change({"visibility_delay": 15})
    comment = local.comment(1)
    assert comment.status == 201
    assert local.get(COMMENTS).json() == []
    assert local.get(f"{COMMENTS}/{comment.json()['id']}").status == 404
    assert local.get("/repos/alice/demo/issues/1").json()["comments"] == 0
    local.pass_time(15)
    assert len(local.get(COMMENTS).json()) == 1
    assert local.get("/repos/alice/demo/issues/1").json()["comments"] == 1


def test_writes_work_on_the_truth_whatever_readers_see(local):
    local.issue()
    local.world.settings.change({"visibility_delay": 15})
    comment = local.comment(1).json()["id"]
    assert local.patch(f"{COMMENTS}/{comment}", {"body": "changed"}).status == 200
    local.pass_time(15)
    assert local.get(COMMENTS).json()[0]["body"] == "changed"


def test_a_deletion_lags_too(local):
    local.issue()
    comment = local.comment(1).json()["id"]
    local.world.settings.change({"visibility_delay": 15})
    local.delete(f"{COMMENTS}/{comment}")
    assert local.get(f"{COMMENTS}/{comment}").status == 200
    local.pass_time(15)
    assert local.get(f"{COMMENTS}/{comment}").status == 404


def test_a_late_older_version_does_not_undo_a_newer_one(local):
    local.issue()
    local.post("/_sandbox/faults", {"kind": "hide", "seconds": 30, "method": "POST"})
    comment = local.comment(1, "old").json()["id"]
    local.patch(f"{COMMENTS}/{comment}", {"body": "new"})
    assert local.get(COMMENTS).json()[0]["body"] == "new"
    local.pass_time(30)
    assert local.get(COMMENTS).json()[0]["body"] == "new"


def test_a_deleted_entity_does_not_come_back_late(local):
    local.issue()
    local.post("/_sandbox/faults", {"kind": "hide", "seconds": 30, "method": "POST"})
    comment = local.comment(1).json()["id"]
    local.delete(f"{COMMENTS}/{comment}")
    local.pass_time(30)
    assert local.get(COMMENTS).json() == []


def test_late_items_appear_out_of_order(local):
    local.issue()
    local.post("/_sandbox/faults", {"kind": "hide", "seconds": 60, "method": "POST"})
    first = local.comment(1).json()["id"]
    local.pass_time(10)
    second = local.comment(1).json()["id"]
    assert local.get(f"{COMMENTS}?sort=updated").ids() == [second]
    local.pass_time(60)
    assert local.get(f"{COMMENTS}?sort=updated").ids() == [first, second]
