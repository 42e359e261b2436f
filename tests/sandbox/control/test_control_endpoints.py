"""The test controls, and what they say to wrong input."""

from __future__ import annotations

import pytest
from local_sandbox import START

from hostler.sandbox.state.clock import iso


def test_the_clock_stands_moves_and_runs(local):
    assert local.get("/_sandbox/clock").json() == {
        "now": START,
        "iso": iso(START),
        "frozen": True,
    }
    assert local.post("/_sandbox/clock", {"advance": 90}).json()["now"] == START + 90
    assert local.post("/_sandbox/clock", {"set": iso(START)}).json()["now"] == START
    assert (
        local.post("/_sandbox/clock", {"set": START + 5, "frozen": False}).json()["frozen"] is False
    )
    assert START + 5 <= local.get("/_sandbox/clock").json()["now"] < START + 60
    local.post("/_sandbox/clock", {"real": True})
    assert local.get("/_sandbox/clock").json()["now"] < START + 10_000_000


def test_the_ledger_tells_counts_and_forgets(local):
    local.issue()
    local.comment(1)
    local.get("/repos/alice/demo/issues?page=2")
    local.get("/nowhere", login=None)
    found = local.get("/_sandbox/ledger").json()
    assert found["totals"]["requests"] == 3
    assert found["totals"]["secondary"] == 7
    comment, listing, nowhere = found["entries"]
    assert comment["route"] == "/repos/{owner}/{repo}/issues/{number}/comments"
    assert (comment["login"], comment["status"], comment["secondary"]) == ("alice", 201, 5)
    assert (listing["query"], listing["primary"]) == ("page=2", 1)
    assert (nowhere["route"], nowhere["login"]) == ("", "anonymous")
    only = local.get("/_sandbox/ledger?method=POST&status=201").json()
    assert only["matching"]["requests"] == len(only["entries"]) == 1
    local.delete("/_sandbox/ledger")
    assert local.get("/_sandbox/ledger").json()["entries"] == []


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "faults", {}, "kind"),
        ("POST", "faults", {"kind": "fire"}, "kind"),
        ("POST", "faults", {"kind": "cut", "when": "never"}, "when"),
        ("POST", "faults", {"kind": "status", "status": 200}, "status"),
        ("POST", "faults", {"kind": "limit", "status": 500}, "status"),
        ("POST", "faults", {"kind": "delay", "seconds": "1"}, "seconds"),
        ("POST", "faults", {"kind": "cut", "count": 0}, "count"),
        ("POST", "faults", {"kind": "cut", "probability": 2}, "probability"),
        ("POST", "faults", {"kind": "cut", "route": 7}, "route"),
        ("POST", "faults", {"kind": "cut", "colour": "red"}, "colour"),
        ("DELETE", "faults/x", None, "id"),
        ("POST", "clock", {"advance": -1}, "advance"),
        ("POST", "clock", {"set": "soon"}, "set"),
        ("POST", "clock", {"frozen": 1}, "frozen"),
        ("POST", "clock", {"hour": 1}, "hour"),
        ("POST", "settings", {"primary_limit": -1}, "primary_limit"),
        ("POST", "settings", {"primary_limit": 1.5}, "primary_limit"),
        ("POST", "settings", {"primary_shape": 418}, "primary_shape"),
        ("POST", "settings", {"id_strategy": "magic"}, "id_strategy"),
        ("POST", "settings", {"nothing": 1}, "nothing"),
        ("GET", "ledger?colour=red", None, "colour"),
        ("GET", "ledger?limit=x", None, "limit"),
        ("POST", "seed", {"users": [{"name": "x"}]}, "users[0].login"),
        ("POST", "seed", {"repos": [{"name": "x"}]}, "repos[0].name"),
        ("POST", "seed", {"repos": [{"name": "a/b", "issues": [{}]}]}, "repos[0].issues[0].title"),
        ("POST", "seed", {"repos": [{"name": "a/b", "labels": [7]}]}, "repos[0].labels[0]"),
        ("POST", "seed", {"trees": []}, "trees"),
        ("POST", "issues/delete", {"repo": "alice/demo", "number": 9}, "number"),
        ("POST", "issues/transfer", {"repo": "x/y", "number": 9}, "repo"),
    ],
)
def test_wrong_input_is_400_and_names_the_field(local, method, path, body, field):
    answer = local.call(method, f"/_sandbox/{path}", body)
    assert answer.status == 400
    assert answer.json()["field"] == field
    assert field in answer.json()["message"]


def test_a_wrong_setting_changes_none(local):
    before = local.get("/_sandbox/settings").json()
    assert local.patch("/_sandbox/settings", {"max_items": 5, "nothing": 1}).status == 400
    assert local.get("/_sandbox/settings").json() == before
    assert local.patch("/_sandbox/settings", {"max_items": 5}).json()["max_items"] == 5


def test_a_seed_is_planted_whole(local):
    seed = {
        "users": [
            {"login": "dora"},
            {"login": "acme", "type": "Organization", "members": ["dora"]},
        ],
        "repos": [
            {
                "name": "acme/app",
                "collaborators": {"bob": "write"},
                "labels": ["bug", {"name": "later", "color": "00ff00"}],
                "issues": [
                    {
                        "title": "t",
                        "user": "bob",
                        "labels": ["bug"],
                        "comments": [{"user": "dora", "body": "c"}],
                    }
                ],
            }
        ],
    }
    assert local.post("/_sandbox/seed", seed).status == 200
    issue = local.get("/repos/acme/app/issues/1", login="dora").json()
    assert (issue["user"]["login"], issue["comments"], issue["labels"][0]["name"]) == (
        "bob",
        1,
        "bug",
    )


def test_an_unknown_control_is_404(local):
    assert local.get("/_sandbox/nothing").status == 404


def test_budgets_can_be_refilled(strict):
    strict.world.settings.change({"primary_limit": 1})
    strict.get("/zen")
    assert strict.get("/zen").status == 403
    strict.post("/_sandbox/limits/reset")
    assert strict.get("/zen").status == 200


def test_numbers_of_any_length_are_read_or_refused(local):
    for text in ("0" * 5000 + "1999", "9" * 5000, "0", "x"):
        answer = local.get(f"/_sandbox/ledger?limit={text}")
        assert (answer.status, answer.json()["field"]) == (400, "limit")
    assert local.delete(f"/_sandbox/faults/{'9' * 5000}").status == 400
    assert local.delete("/_sandbox/faults/999").status == 404


def test_the_clock_stops_at_the_last_second_that_can_be_written(local):
    local.issue()
    local.post("/_sandbox/clock", {"set": 99_999_999_999})
    for _ in range(160):
        assert local.post("/_sandbox/clock", {"advance": 999_999_999}).status == 200
    assert local.get("/_sandbox/clock").json()["iso"] == "9999-12-31T23:59:59Z"
    assert local.comment(1).status == 201
    answer = local.get("/repos/alice/demo/issues/1")
    assert (answer.status, answer.json()["updated_at"]) == (200, "9999-12-31T23:59:59Z")
    assert answer.headers["Last-Modified"] == "Fri, 31 Dec 9999 23:59:59 GMT"


def test_an_app_gets_a_token_without_signing(local):
    app = {"slug": "ci", "owner": "alice", "installed_on": ["alice"]}
    assert local.post("/_sandbox/seed", {"apps": [app]}).status == 200
    token = local.post("/_sandbox/apps/token", {"app": "ci", "account": "Alice"}).json()["token"]
    reached = local.get("/installation/repositories", token=token).json()["repositories"]
    assert [repo["full_name"] for repo in reached] == ["alice/demo"]
    for body, field in (({}, "app"), ({"app": []}, "app"), ({"app": "no"}, "app")):
        assert local.post("/_sandbox/apps/token", body).json()["field"] == field
    wrong = local.post("/_sandbox/apps/token", {"app": "ci", "account": "bob"})
    assert (wrong.status, wrong.json()["field"]) == (400, "account")
