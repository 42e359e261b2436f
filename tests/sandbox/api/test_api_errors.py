"""Who may do what, and where things have gone."""

from __future__ import annotations

import pytest
from local_sandbox import START

from hostler.sandbox.state.clock import iso
from hostler.sandbox.state.entities import PullState

ISSUES = "/repos/alice/demo/issues"


def test_wrong_credentials_are_401(local):
    for header in ("Bearer wrong", "token wrong", "Basic !!!", "Basic Og==", "Digest x", "Bearer"):
        answer = local.get("/user", login=None, authorization=header)
        assert answer.status == 401, header
        assert answer.json()["message"] == "Bad credentials"


def test_somebody_must_be_named_to_write_or_to_be_asked_about(local):
    assert local.get("/user", login=None).status == 401
    assert local.post(ISSUES, {"title": "x"}, login=None).status == 401
    assert local.get(ISSUES, login=None).status == 200


def test_private_repositories_do_not_exist_for_strangers(local):
    local.repo("alice/secret", private=True)
    for login in ("bob", None):
        assert local.get("/repos/alice/secret", login=login).status == 404
        assert local.post("/repos/alice/secret/issues", {"title": "x"}, login=login).status == 404
    assert local.get("/repos/alice/secret").status == 200


def test_no_user_agent_is_refused(local):
    answer = local.get("/zen", user_agent="")
    assert answer.status == 403
    assert "User-Agent" in answer.json()["message"]


def test_an_unknown_api_version_is_400_and_the_chosen_one_is_told(local):
    assert local.get("/zen", x_github_api_version="1999-01-01").status == 400
    answer = local.get("/zen", x_github_api_version="2026-03-10")
    assert answer.headers["X-GitHub-Api-Version-Selected"] == "2026-03-10"


def test_a_renamed_repository_redirects_reads_with_301_and_writes_with_307(local):
    local.issue()
    assert local.patch("/repos/alice/demo", {"name": "other"}).json()["full_name"] == "alice/other"
    target = f"http://localhost/repositories/{local.demo.id}/issues"
    read = local.get(f"{ISSUES}?state=all")
    assert (read.status, read.headers["Location"]) == (301, f"{target}?state=all")
    write = local.post(ISSUES, {"title": "x"})
    assert (write.status, write.headers["Location"]) == (307, target)
    assert local.get("/repos/alice/demo").headers["Location"].endswith(f"/{local.demo.id}")
    assert local.get(target.removeprefix("http://localhost")).status == 200
    assert local.get("/repos/alice/other/issues/1").json()["url"].endswith("/alice/other/issues/1")


def test_a_new_repository_takes_over_an_old_name(local):
    local.patch("/repos/alice/demo", {"name": "other"})
    local.post("/user/repos", {"name": "demo"})
    assert local.get("/repos/alice/demo").json()["id"] != local.demo.id


def test_a_transferred_issue_redirects(local):
    local.repo("alice/target")
    local.issue()
    local.comment(1)
    body = {"repo": "alice/demo", "number": 1, "to": "alice/target"}
    moved = local.post("/_sandbox/issues/transfer", body).json()
    read = local.get(f"{ISSUES}/1/comments?per_page=5&page=1")
    assert read.status == 301
    assert read.headers["Location"].endswith("/comments?per_page=5&page=1")
    path = read.headers["Location"].removeprefix("http://localhost")
    assert len(local.get(path).json()) == 1
    assert local.comment(1).status == 307
    assert local.get(f"/repos/alice/target/issues/{moved['number']}").status == 200
    assert local.get("/repos/alice/demo/issues/comments").json() == []


def test_a_deleted_issue_is_gone_and_hidden_from_strangers_of_private_repositories(local):
    local.issue()
    local.comment(1)
    local.post("/_sandbox/issues/delete", {"repo": "alice/demo", "number": 1})
    assert local.get(f"{ISSUES}/1").status == 410
    assert local.comment(1).status == 410
    assert local.get("/repos/alice/demo/issues/comments").json() == []
    local.patch("/repos/alice/demo", {"private": True})
    assert local.get(f"{ISSUES}/1", login="bob").status == 404
    assert local.post(ISSUES, {"title": "x"}).json()["number"] == 2


def test_switched_off_issues_are_410(local):
    local.issue()
    local.patch("/repos/alice/demo", {"has_issues": False})
    for answer in (local.get(ISSUES), local.get(f"{ISSUES}/1"), local.post(ISSUES, {"title": "x"})):
        assert answer.status == 410


def test_a_locked_conversation_refuses_strangers(local):
    local.issue()
    assert local.put(f"{ISSUES}/1/lock", {"lock_reason": "spam"}).status == 204
    assert local.comment(1, login="bob").status == 403
    assert local.comment(1).status == 201
    assert local.get(f"{ISSUES}/1").json()["active_lock_reason"] == "spam"
    local.delete(f"{ISSUES}/1/lock")
    assert local.comment(1, login="bob").status == 201


def test_an_archived_repository_is_read_only(local):
    local.issue()
    local.patch("/repos/alice/demo", {"archived": True})
    assert local.comment(1).status == 403
    assert local.get(f"{ISSUES}/1").status == 200
    assert local.patch("/repos/alice/demo", {"archived": False}).status == 200


def test_texts_have_a_limit_of_65536_characters(local):
    local.issue()
    assert local.comment(1, "é" * 65_536).status == 201
    answer = local.comment(1, "é" * 65_537)
    assert answer.status == 422
    body = answer.json()
    assert body["message"] == "Validation Failed"
    assert set(body) == {"message", "errors", "documentation_url", "status"}
    assert body["errors"][0]["resource"] == "IssueComment"
    assert local.post(ISSUES, {"title": "x", "body": "y" * 65_537}).status == 422


@pytest.mark.parametrize(
    ("body", "status"),
    [({}, 422), ({"body": ""}, 422), ({"body": "  "}, 422), ({"body": 7}, 422), ([], 400)],
)
def test_a_comment_needs_a_text(local, body, status):
    local.issue()
    assert local.post(f"{ISSUES}/1/comments", body).status == status


def test_comments_move_their_conversation_and_deleting_moves_nothing(local):
    local.issue()
    local.pass_time(10)
    comment = local.comment(1).json()["id"]
    issue = local.get(f"{ISSUES}/1").json()
    assert (issue["updated_at"], issue["comments"]) == (iso(START + 10), 1)
    local.pass_time(10)
    local.patch(f"/repos/alice/demo/issues/comments/{comment}", {"body": "changed"})
    assert local.get(f"{ISSUES}/1").json()["updated_at"] == iso(START + 20)
    local.pass_time(10)
    assert local.delete(f"/repos/alice/demo/issues/comments/{comment}").status == 204
    issue = local.get(f"{ISSUES}/1").json()
    assert (issue["updated_at"], issue["comments"]) == (iso(START + 20), 0)


def test_others_comments_can_be_edited_with_push_access_only(local):
    local.issue()
    comment = local.comment(1).json()["id"]
    path = f"/repos/alice/demo/issues/comments/{comment}"
    assert local.patch(path, {"body": "x"}, login="bob").status == 403
    assert local.delete(path, login="bob").status == 403
    local.put("/repos/alice/demo/collaborators/bob", {"permission": "push"})
    assert local.patch(path, {"body": "x"}, login="bob").status == 200


def test_kinds_count_their_ids_for_themselves_so_ids_collide(local):
    issue = local.issue()
    comment = local.comment(1).json()
    assert issue.id == comment["id"] == 1


def test_ids_can_be_made_not_monotone(local):
    local.world.settings.change({"id_strategy": "random"})
    local.issue()
    ids = [local.comment(1).json()["id"] for _ in range(20)]
    assert ids != sorted(ids)
    assert local.get("/repos/alice/demo/issues/comments").ids() == sorted(ids)


def test_the_author_s_relation_is_told(local):
    local.issue()
    local.repo("team/app")
    assert local.comment(1).json()["author_association"] == "OWNER"
    assert local.comment(1, login="bob").json()["author_association"] == "NONE"
    local.put("/repos/alice/demo/collaborators/bob", {"permission": "triage"})
    assert local.comment(1, login="bob").json()["author_association"] == "COLLABORATOR"


def test_strangers_labels_are_dropped_silently(local):
    made = local.post(ISSUES, {"title": "x", "labels": ["bug"], "assignees": ["bob"]}, login="bob")
    assert made.status == 201
    assert (made.json()["labels"], made.json()["assignees"]) == ([], [])


def test_an_author_may_close_their_issue_and_a_stranger_may_not(local):
    local.post(ISSUES, {"title": "x"}, login="bob")
    local.seed.user("carol")
    assert local.patch(f"{ISSUES}/1", {"state": "closed"}, login="carol").status == 403
    closed = local.patch(f"{ISSUES}/1", {"state": "closed"}, login="bob").json()
    assert (closed["state"], closed["state_reason"]) == ("closed", "completed")
    assert closed["closed_by"]["login"] == "bob"


def test_half_surrogates_do_not_break_the_answer(local):
    local.issue()
    assert local.comment(1, "half \ud800 pair").status == 201
    assert "half" in local.get("/repos/alice/demo/issues/comments").json()[0]["body"]


def test_names_are_matched_without_regard_to_case(local):
    local.issue()
    assert local.get("/repos/ALICE/Demo/issues/1").status == 200


def test_a_transferred_issue_drops_its_labels(local):
    local.repo("alice/target")
    local.issue(labels=("bug",))
    body = {"repo": "alice/demo", "number": 1, "to": "alice/target"}
    moved = local.post("/_sandbox/issues/transfer", body).json()
    assert local.get(f"/repos/alice/target/issues/{moved['number']}").json()["labels"] == []
    assert local.get("/repos/alice/target/labels").json() == []


def test_strangers_are_not_told_where_an_issue_went(local):
    local.repo("alice/secret", private=True)
    local.issue()
    body = {"repo": "alice/demo", "number": 1, "to": "alice/secret"}
    local.post("/_sandbox/issues/transfer", body)
    assert local.get(f"{ISSUES}/1", login="alice").status == 301
    for login in ("bob", None):
        answer = local.get(f"{ISSUES}/1", login=login)
        assert (answer.status, "Location" in answer.headers) == (404, False)


@pytest.mark.parametrize("control", ["delete", "transfer"])
def test_pull_requests_are_neither_deleted_nor_transferred(local, control):
    local.repo("alice/target")
    local.issue(pull=PullState())
    body = {"repo": "alice/demo", "number": 1, "to": "alice/target"}
    answer = local.post(f"/_sandbox/issues/{control}", body)
    assert (answer.status, answer.json()["field"]) == (400, "number")
    assert "pull request" in answer.json()["message"]
    assert local.get(f"{ISSUES}/1").status == 200
