"""Strange paths, objects, dates and absent repositories: refused in words, never with a 500."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from git_host import Client
from pull_fixture import House, encoded, street

STRANGE = (":!x", ":(glob)x", ":(exclude)x", ":x", ":", "*", "a?", "[x]", ":README.md", "\\")
LATE = 99_999_999_999_999


@pytest.mark.parametrize("name", STRANGE)
def test_a_path_is_a_path_whatever_git_would_read_into_it(house: House, name: str) -> None:
    path = f"contents/{quote(name, safe='')}"
    assert house.call("GET", path).status_code == 404
    assert house.send("DELETE", path, message="m", sha=house.head()).status_code == 404
    made = house.made("PUT", path, message="m", content=encoded("text"))
    found = house.get(path)
    assert (found["path"], found["sha"]) == (made["content"]["path"], made["content"]["sha"])
    listed = house.get("commits", params={"path": found["path"]})
    assert [commit["sha"] for commit in listed] == [made["commit"]["sha"]]
    house.made("DELETE", path, message="m", sha=found["sha"])
    assert [item["name"] for item in house.get("contents")] == ["README.md"]


@pytest.mark.parametrize("kind", ["blob", "tree"])
def test_a_branch_is_a_commit(house: House, kind: str) -> None:
    house.branch("b1")
    commit = house.head()
    readme, tree = house.get("contents/README.md"), house.get(f"commits/{commit}")
    sha = readme["sha"] if kind == "blob" else tree["commit"]["tree"]["sha"]
    for answer in (
        house.send("PATCH", "git/refs/heads/b1", sha=sha, force=True),
        house.send("POST", "git/refs", ref="refs/heads/b2", sha=sha),
    ):
        assert (answer.status_code, answer.json()["message"]) == (422, "Object is not a commit")
    assert house.head("b1") == commit
    assert house.send("POST", "git/refs", ref="refs/tags/t", sha=sha).status_code == 201


def test_a_commit_from_beyond_the_calendar_is_pushed_and_listed(
    house: House, tmp_path: Path
) -> None:
    git = Client(tmp_path)
    work = git.clone(house.clone_url())
    tree = git("rev-parse", "HEAD^{tree}", cwd=work)
    raw = f"tree {tree}\nauthor A <a@b.c> {LATE} +0000\ncommitter A <a@b.c> {LATE} +0000\n\nlate\n"
    (work / "raw").write_text(raw)
    sha = git("hash-object", "-t", "commit", "-w", "raw", cwd=work)
    git("push", "--quiet", "origin", f"{sha}:refs/heads/late", cwd=work)
    assert house.get("commits", params={"sha": "late"})[0]["sha"] == sha
    newest = house.get("branches/late")["commit"]["commit"]
    assert newest["author"]["date"] == "9999-12-31T23:59:59Z"


def test_a_deleted_repository_that_is_still_seen_has_no_git() -> None:
    with street() as sandbox:
        house = House(sandbox)
        sandbox.control.patch("/settings", json={"visibility_delay": 30}).raise_for_status()
        assert house.call("DELETE", "").status_code == 204
        assert house.call("GET", "").status_code == 200
        for path in ("branches", "contents", "commits", "git/ref/heads/main"):
            assert house.call("GET", path).status_code == 404
        house.close()


def test_a_repository_whose_git_is_missing_is_empty(house: House) -> None:
    number = house.get("")["id"]
    repo_store = house.sandbox.app.world.repo_store
    assert repo_store is not None
    house.sandbox.wait(repo_store.remove(number))
    for path in ("branches", "contents", "commits"):
        assert house.call("GET", path).status_code == 409
    asked = f"/{house.name}.git/info/refs?service=git-upload-pack"
    assert house.call("GET", asked).status_code == 404
