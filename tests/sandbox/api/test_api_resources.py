"""The smaller resources: repositories, people, labels, reactions, dependencies."""

from __future__ import annotations

import pytest

DEMO = "/repos/alice/demo"


def test_the_root_and_the_caller_are_told(local):
    assert local.get("/").json()["repository_url"] == "http://localhost/repos/{owner}/{repo}"
    assert local.get("/user").json()["login"] == "alice"
    assert local.get("/users/BOB").json()["login"] == "bob"
    assert local.get("/users/nobody").status == 404
    assert local.get("/meta").status == 200


def test_a_repository_is_made_changed_and_deleted(local):
    made = local.post("/user/repos", {"name": "my new/one", "private": True, "description": "d"})
    assert made.status == 201
    assert made.json()["full_name"] == "alice/my-new-one"
    assert made.json()["visibility"] == "private"
    assert local.post("/user/repos", {"name": "my-new-one"}).status == 422
    path = "/repos/alice/my-new-one"
    changed = local.patch(path, {"visibility": "public", "has_wiki": False, "homepage": "h"}).json()
    assert (changed["private"], changed["has_wiki"], changed["homepage"]) == (False, False, "h")
    assert local.delete(path, login="bob").status == 403
    local.post(f"{path}/issues", {"title": "x"})
    assert local.delete(path).status == 204
    assert local.get(path).status == 404


@pytest.mark.parametrize("name", ["", "..", "x.git", None, 7])
def test_a_repository_needs_a_good_name(local, name):
    assert local.post("/user/repos", {"name": name}).status == 422


def test_a_deleted_repository_takes_everything_along(local):
    local.issue(labels=("bug",))
    local.comment(1)
    local.delete(DEMO)
    kinds = {item.kind for item in local.world.truth.everything()}
    assert kinds == {"user", "token"}


def test_organisations_own_repositories(local):
    local.seed.user("acme", type="Organization", members=("alice",))
    assert local.post("/orgs/acme/repos", {"name": "app"}).status == 201
    assert local.post("/orgs/acme/repos", {"name": "b"}, login="bob").status == 403
    assert local.post("/orgs/bob/repos", {"name": "b"}).status == 404
    assert [repo["name"] for repo in local.get("/orgs/acme/repos").json()] == ["app"]
    names = {repo["full_name"] for repo in local.get("/user/repos").json()}
    assert names == {"alice/demo", "acme/app"}
    assert local.get("/user/repos", login="bob").json() == []


def test_lists_of_repositories_hide_private_ones(local):
    local.repo("alice/secret", private=True)
    assert len(local.get("/users/alice/repos").json()) == 2
    assert len(local.get("/users/alice/repos", login="bob").json()) == 1


def test_a_repository_is_found_by_its_number(local):
    assert local.get(f"/repositories/{local.demo.id}").json()["full_name"] == "alice/demo"
    assert local.get("/repositories/999").status == 404
    assert local.get("/repositories/x").status == 404


def test_collaborators_have_permissions(local):
    assert local.get(f"{DEMO}/collaborators/bob").status == 404
    assert local.put(f"{DEMO}/collaborators/bob", {"permission": "maintain"}).status == 204
    assert local.get(f"{DEMO}/collaborators/bob").status == 204
    found = local.get(f"{DEMO}/collaborators/bob/permission").json()
    assert (found["permission"], found["role_name"]) == ("write", "maintain")
    assert [user["login"] for user in local.get(f"{DEMO}/collaborators").json()] == ["alice", "bob"]
    assert local.get(DEMO, login="bob").json()["permissions"]["push"] is True
    assert local.delete(f"{DEMO}/collaborators/bob").status == 204
    assert local.get(DEMO, login="bob").json()["permissions"]["push"] is False


def test_labels_are_made_renamed_and_removed_everywhere(local):
    made = local.post(f"{DEMO}/labels", {"name": "bug", "color": "FF0000", "description": "bad"})
    assert made.json()["color"] == "ff0000"
    assert (
        local.post(f"{DEMO}/labels", {"name": "BUG"}).json()["errors"][0]["code"]
        == "already_exists"
    )
    assert local.post(f"{DEMO}/labels", {"name": "x", "color": "red"}).status == 422
    local.issue(labels=("bug",))
    local.patch(f"{DEMO}/labels/bug", {"new_name": "a/b c"})
    assert local.get(f"{DEMO}/issues/1").json()["labels"][0]["name"] == "a/b c"
    assert local.get(f"{DEMO}/labels/a%2Fb%20c").status == 200
    assert local.delete(f"{DEMO}/labels/a%2Fb%20c").status == 204
    assert local.get(f"{DEMO}/issues/1").json()["labels"] == []


def test_an_issue_s_labels_are_added_set_and_taken(local):
    local.issue()
    path = f"{DEMO}/issues/1/labels"
    names = lambda answer: [label["name"] for label in answer.json()]  # noqa: E731
    assert names(local.post(path, {"labels": ["a", "b"]})) == ["a", "b"]
    assert names(local.post(path, ["c"])) == ["a", "b", "c"]
    assert names(local.delete(f"{path}/b")) == ["a", "c"]
    assert local.delete(f"{path}/b").status == 404
    assert names(local.put(path, {"labels": ["d"]})) == ["d"]
    assert local.delete(path).status == 204
    assert names(local.get(path)) == []
    events = [event["event"] for event in local.get(f"{DEMO}/issues/1/events").json()]
    assert events.count("labeled") == 4
    assert events.count("unlabeled") == 4
    assert local.post(path, {}).status == 422


def test_a_change_that_changes_nothing_moves_nothing(local):
    local.issue("same")
    local.pass_time(10)
    before = local.get(f"{DEMO}/issues/1").json()
    assert local.patch(f"{DEMO}/issues/1", {"title": "same", "state": "open"}).json() == before


def test_reactions_are_counted_once_per_person_and_kind(local):
    local.issue()
    comment = local.comment(1).json()["id"]
    path = f"{DEMO}/issues/comments/{comment}/reactions"
    made = local.post(path, {"content": "eyes"})
    assert made.status == 201
    assert local.post(path, {"content": "eyes"}).status == 200
    assert local.post(path, {"content": "eyes"}, login="bob").status == 201
    assert local.post(path, {"content": "meh"}).status == 422
    found = local.get(f"{DEMO}/issues/comments/{comment}").json()["reactions"]
    assert (found["eyes"], found["total_count"]) == (2, 2)
    assert len(local.get(f"{path}?content=eyes").json()) == 2
    assert local.delete(f"{path}/{made.json()['id']}", login="bob").status == 403
    assert local.delete(f"{path}/{made.json()['id']}").status == 204
    assert len(local.get(path).json()) == 1


def test_issues_block_each_other_by_id(local):
    first, second = local.issue("first"), local.issue("second")
    path = f"{DEMO}/issues/1/dependencies/blocked_by"
    assert local.post(path, {"issue_id": second.id}).status == 201
    assert local.post(path, {"issue_id": second.id}).status == 422
    assert local.post(path, {"issue_id": first.id}).status == 422
    assert local.post(path, {"issue_id": 99}).status == 404
    assert local.post(path, {"issue_id": "2"}).status == 422
    back = f"{DEMO}/issues/2/dependencies/blocked_by"
    assert local.post(back, {"issue_id": first.id}).status == 422
    assert [issue["number"] for issue in local.get(path).json()] == [2]
    blocking = local.get(f"{DEMO}/issues/2/dependencies/blocking").json()
    assert [issue["number"] for issue in blocking] == [1]
    assert local.delete(f"{path}/{second.id}").status == 200
    assert local.delete(f"{path}/{second.id}").status == 404
    assert local.get(path).json() == []


def test_an_issue_s_title_body_and_assignees_change_with_events(local):
    local.issue("old")
    changed = local.patch(
        f"{DEMO}/issues/1", {"title": "new", "body": "b", "assignees": ["bob"]}
    ).json()
    assert (changed["title"], changed["body"], changed["assignee"]["login"]) == ("new", "b", "bob")
    events = local.get(f"{DEMO}/issues/1/events").json()
    assert [event["event"] for event in events] == ["renamed", "assigned"]
    assert events[0]["rename"] == {"from": "old", "to": "new"}
    assert local.patch(f"{DEMO}/issues/1", {"body": None}).json()["body"] is None
    assert local.patch(f"{DEMO}/issues/1", {"assignees": ["nobody"]}).status == 422
    assert local.patch(f"{DEMO}/issues/1", {"title": ""}).status == 422
    assert local.patch(f"{DEMO}/issues/1", {"state": "gone"}).status == 422


def test_an_issue_counts_what_it_waits_for_and_what_waits_for_it(local):
    first, second = local.issue(), local.issue()

    def summary(number: int) -> tuple[int, ...]:
        single = local.get(f"{DEMO}/issues/{number}").json()["issue_dependencies_summary"]
        listed = local.get(f"{DEMO}/issues?state=all&sort=created&direction=asc").json()
        assert listed[number - 1]["issue_dependencies_summary"] == single
        names = ("blocked_by", "blocking", "total_blocked_by", "total_blocking")
        return tuple(single[name] for name in names)

    assert summary(1) == summary(2) == (0, 0, 0, 0)
    path = f"{DEMO}/issues/1/dependencies/blocked_by"
    etag = local.get(f"{DEMO}/issues/2").headers["ETag"]
    assert local.post(path, {"issue_id": second.id}).status == 201
    assert local.get(f"{DEMO}/issues/2", if_none_match=etag).status == 200
    assert (summary(1), summary(2)) == ((1, 0, 1, 0), (0, 1, 0, 1))
    local.patch(f"{DEMO}/issues/2", {"state": "closed"})
    assert (summary(1), summary(2)) == ((0, 0, 1, 0), (0, 1, 0, 1))
    local.patch(f"{DEMO}/issues/{first.number}", {"state": "closed"})
    assert (summary(1), summary(2)) == ((0, 0, 1, 0), (0, 0, 0, 1))
    local.delete(f"{path}/{second.id}")
    assert summary(1) == summary(2) == (0, 0, 0, 0)
