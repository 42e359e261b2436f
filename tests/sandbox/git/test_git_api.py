"""Refs, branches, files, commits and comparison over the API."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pull_fixture import House, encoded

from hostler.sandbox.server import Running


def test_refs_from_making_to_deleting(house: House) -> None:
    sha = house.head()
    made = house.send("POST", "git/refs", ref="refs/heads/a/b", sha=sha)
    assert made.status_code == 201 and made.json()["object"] == {
        "sha": sha,
        "type": "commit",
        "url": made.json()["object"]["url"],
    }
    house.made("POST", "git/refs", ref="refs/tags/v1", sha=sha)
    names = [ref["ref"] for ref in house.get("git/matching-refs/heads/a")]
    assert names == ["refs/heads/a/b"]
    assert house.call("GET", "git/ref/heads/a").status_code == 404
    newer = house.commit("a/b")
    refused = house.send("PATCH", "git/refs/heads/a/b", sha=sha)
    assert refused.status_code == 422 and "fast forward" in refused.text
    moved = house.made("PATCH", "git/refs/heads/a/b", sha=sha, force=True)
    assert moved["object"]["sha"] == sha
    house.made("PATCH", "git/refs/heads/a/b", sha=newer)
    assert house.call("DELETE", "git/refs/heads/a/b").status_code == 204
    assert house.call("DELETE", "git/refs/heads/a/b").status_code == 422


@pytest.mark.parametrize(
    ("method", "path", "fields"),
    [
        ("POST", "git/refs", {"ref": "heads/x", "sha": "SHA"}),
        ("POST", "git/refs", {"ref": "refs/x", "sha": "SHA"}),
        ("POST", "git/refs", {"ref": "refs/heads/main", "sha": "SHA"}),
        ("POST", "git/refs", {"ref": "refs/heads/a..b", "sha": "SHA"}),
        ("POST", "git/refs", {"ref": "refs/heads/main/below", "sha": "SHA"}),
        ("POST", "git/refs", {"ref": "refs/pull/1/head", "sha": "SHA"}),
        ("POST", "git/refs", {"ref": "refs/heads/../../config", "sha": "SHA"}),
        ("POST", "git/refs", {"ref": "refs/heads/x", "sha": "0" * 40}),
        ("POST", "git/refs", {"ref": "refs/heads/x", "sha": "--help"}),
        ("POST", "git/refs", {"ref": "refs/heads/x"}),
        ("PATCH", "git/refs/heads/none", {"sha": "SHA"}),
        ("PATCH", "git/refs/pull/1/head", {"sha": "SHA"}),
        ("PATCH", "git/refs/heads/main", {"sha": "SHA", "force": "yes"}),
        ("DELETE", "git/refs/heads/main", {}),
        ("PUT", "contents/..%2Fx", {"message": "m", "content": ""}),
        ("PUT", "contents/.git/config", {"message": "m", "content": ""}),
        ("PUT", "contents/README.md/below", {"message": "m", "content": ""}),
        ("PUT", "contents/x", {"message": "m", "content": "***"}),
        ("PUT", "contents/x", {"message": "m"}),
        ("PUT", "contents/x", {"content": ""}),
        ("PUT", "contents/README.md", {"message": "m", "content": ""}),
        ("PUT", "contents/x", {"message": "m", "content": "", "author": {"name": "a\n"}}),
        (
            "PUT",
            "contents/x",
            {"message": "m", "content": "", "author": {"name": "a\n", "email": "b"}},
        ),
        (
            "PUT",
            "contents/x",
            {"message": "m", "content": "", "author": {"name": "...", "email": "b"}},
        ),
    ],
)
def test_what_is_refused(house: House, method: str, path: str, fields: dict[str, Any]) -> None:
    before = house.head()
    fields = {name: before if value == "SHA" else value for name, value in fields.items()}
    answer = house.send(method, path, **fields)
    assert answer.status_code == 422, answer.text
    assert house.head() == before and len(house.get("branches")) == 1


def test_branches(house: House) -> None:
    house.branch("feature/one")
    assert [branch["name"] for branch in house.get("branches")] == ["feature/one", "main"]
    branch = house.get("branches/feature/one")
    assert branch["commit"]["sha"] == house.head() and branch["protected"] is False
    assert house.call("GET", "branches/none").status_code == 404


def test_a_branch_says_whether_it_is_protected(house: House) -> None:
    house.branch("free")
    checks = {"contexts": ["ci"]}
    house.made("PUT", "branches/main/protection", required_status_checks=checks)
    listed = {branch["name"]: branch for branch in house.get("branches")}
    assert {name: row["protected"] for name, row in listed.items()} == {"free": False, "main": True}
    main = house.get("branches/main")
    assert main["protected"] and main["protection"] == listed["main"]["protection"]
    assert main["protection"]["required_status_checks"]["contexts"] == ["ci"]
    house.made("DELETE", "branches/main/protection")
    assert house.get("branches/main")["protected"] is False


def test_the_default_branch_is_one_that_there_is_and_git_follows(house: House) -> None:
    house.branch("next")
    for wrong in ("nonexist", "../x", "--all"):
        refused = house.send("PATCH", "", default_branch=wrong)
        assert refused.status_code == 422 and "was not found" in refused.text
    assert house.send("PATCH", "", default_branch="next", name="").status_code == 422
    assert house.get("")["default_branch"] == "main"
    number = house.get("")["id"]
    head = house.sandbox.app.world.repo_store.get(number).path / "HEAD"
    assert head.read_text() == "ref: refs/heads/main\n"
    assert house.made("PATCH", "", default_branch="next")["default_branch"] == "next"
    assert head.read_text() == "ref: refs/heads/next\n"


def test_files_from_making_to_deleting(house: House) -> None:
    made = house.send("PUT", "contents/a/b.txt", message="Make", content=encoded("one\n"))
    assert made.status_code == 201 and made.json()["commit"]["sha"] == house.head()
    file = house.get("contents/a/b.txt")
    assert base64.b64decode(file["content"]) == b"one\n" and file["encoding"] == "base64"
    stale = {"message": "x", "content": encoded("two\n"), "sha": "0" * 40}
    assert house.send("PUT", "contents/a/b.txt", **stale).status_code == 409
    good = {**stale, "sha": file["sha"]}
    assert house.send("PUT", "contents/a/b.txt", **good).status_code == 200
    assert [entry["path"] for entry in house.get("contents/a")] == ["a/b.txt"]
    assert {entry["type"] for entry in house.get("contents")} == {"dir", "file"}
    raw = house.call(
        "GET", "contents/a/b.txt", headers={"accept": "application/vnd.github.raw+json"}
    )
    assert raw.content == b"two\n"
    sha = house.get("contents/a/b.txt")["sha"]
    assert house.send("DELETE", "contents/a/b.txt", message="x").status_code == 422
    assert house.send("DELETE", "contents/a/b.txt", message="x", sha=sha).status_code == 200
    assert house.call("GET", "contents/a/b.txt").status_code == 404
    assert house.call("GET", "contents/README.md?ref=none").status_code == 404
    assert house.send("PUT", "contents/x", message="m", content="", branch="none").is_error


def test_a_folder_takes_a_second_file_and_keeps_what_is_in_it(house: House) -> None:
    def put(path: str) -> int:
        return house.send("PUT", path, message="Make", content=encoded("one\n")).status_code

    assert [put("contents/a/b/one"), put("contents/a/two"), put("contents/a/b/two")] == [201] * 3
    assert put("contents/a/b") == 422, "it is a folder"
    assert put("contents/a/two/below") == 422, "it is a file"
    assert [entry["path"] for entry in house.get("contents/a")] == ["a/b", "a/two"]


def test_a_file_in_an_empty_repository_makes_its_first_commit(git_sandbox: Running) -> None:
    house = House(git_sandbox, auto_init=False)
    assert house.call("GET", "commits").status_code == 409
    made = house.send("PUT", "contents/a.txt", message="First", content=encoded("x"))
    assert made.status_code == 201 and len(house.get("commits")) == 1
    house.close()


def test_a_comparison(house: House) -> None:
    house.branch("topic")
    house.commit("topic", "t.txt")
    house.commit("main", "m.txt")
    found = house.get("compare/main...topic")
    assert (found["status"], found["ahead_by"], found["behind_by"]) == ("diverged", 1, 1)
    assert [file["filename"] for file in found["files"]] == ["t.txt"]
    assert house.get("compare/alice:main...alice:main")["status"] == "identical"
    assert house.call("GET", "compare/main").status_code == 404
    assert house.call("GET", "compare/main...none").status_code == 404


def test_commits(house: House) -> None:
    shas = [house.commit("main", f"{n}.txt") for n in range(3)]
    listed = house.get("commits?per_page=2")
    assert [commit["sha"] for commit in listed] == [shas[2], shas[1]]
    assert [c["sha"] for c in house.get("commits?path=0.txt")] == [shas[0]]
    assert house.get("commits?since=2999-01-01T00:00:00Z") == []
    one = house.get(f"commits/{shas[0]}")
    assert one["stats"]["additions"] == 20 and one["files"][0]["filename"] == "0.txt"
    assert house.get(f"git/commits/{shas[0]}")["tree"]["sha"]
    tree = house.get("git/trees/main?recursive=1")
    assert {row["path"] for row in tree["tree"]} == {"README.md", "0.txt", "1.txt", "2.txt"}
    assert house.call("GET", f"commits/{'0' * 40}").status_code == 422
    assert house.call("GET", "commits/--all").status_code == 404


def test_strange_letters_do_no_harm(house: House) -> None:
    words = "a\x1eb\x1fc\0d\u2028e\x85"
    house.branch("odd\u2028\x85name")
    house.commit("odd\u2028\x85name", "s\u2028 trange\ttwo", message=words)
    asked = {"title": words, "head": "odd\u2028\x85name", "base": "main", "body": words}
    number = house.made("POST", "pulls", **asked)["number"]
    (commit,) = house.get(f"pulls/{number}/commits")
    assert commit["commit"]["message"] == words.replace("\0", "")
    assert house.get(f"pulls/{number}/files")[0]["filename"] == "s\u2028 trange\ttwo"
    house.made("PUT", f"pulls/{number}/merge", merge_method="squash")
    assert house.get("commits?author=%00x%0a") == []
    assert len(house.get("branches")) == 2


def test_a_private_repository_shows_strangers_nothing(git_sandbox: Running) -> None:
    house = House(git_sandbox, private=True)
    for path in ("contents", "branches", "commits", "git/ref/heads/main", "pulls", "actions/runs"):
        assert house.call("GET", path, "carol").status_code == 200
        assert house.call("GET", path, "dave").status_code == 404
        assert house.call("GET", path, "nobody").status_code == 404
    house.close()


def test_a_file_may_be_called_as_a_git_client_calls(house: House) -> None:
    content = base64.b64encode(b"x").decode()
    made = house.made("PUT", "contents/info/refs", message="Add it", content=content)
    assert made["content"]["path"] == "info/refs"
