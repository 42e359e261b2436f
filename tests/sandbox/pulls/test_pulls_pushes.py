"""What pushes with the real git do to pull requests."""

from __future__ import annotations

from pathlib import Path

import pytest
from git_host import Client
from pull_fixture import TEXT, House


@pytest.fixture
def git(tmp_path: Path) -> Client:
    return Client(tmp_path)


@pytest.fixture
def work(house: House, git: Client) -> Path:
    return git.clone(house.clone_url())


def test_a_pushed_branch_becomes_a_merged_pull_request(
    house: House, git: Client, work: Path
) -> None:
    git("checkout", "--quiet", "-b", "topic", cwd=work)
    sha = git.commit(work, "song.txt", TEXT)
    git("push", "--quiet", "origin", "topic", cwd=work)
    number = house.made("POST", "pulls", title="Sing", head="topic", base="main")["number"]
    assert house.get(f"pulls/{number}")["head"]["sha"] == sha
    git("fetch", "--quiet", "origin", f"refs/pull/{number}/head", cwd=work)
    assert git("rev-parse", "FETCH_HEAD", cwd=work) == sha
    pull = house.known(number)
    git("fetch", "--quiet", "origin", f"refs/pull/{number}/merge", cwd=work)
    assert git("rev-parse", "FETCH_HEAD", cwd=work) == pull["merge_commit_sha"]
    made = house.made("PUT", f"pulls/{number}/merge")["sha"]
    git("pull", "--quiet", "origin", "main", cwd=work)
    assert git("rev-parse", "origin/main", cwd=work) == made


def test_a_push_moves_the_head_and_the_time(house: House, git: Client, work: Path) -> None:
    number = house.pull()
    before = house.known(number)
    house.tick(60)
    git("fetch", "--quiet", cwd=work)
    git("checkout", "--quiet", "topic", cwd=work)
    sha = git.commit(work, "more.txt", "more\n")
    git("push", "--quiet", "origin", "topic", cwd=work)
    after = house.get(f"pulls/{number}")
    assert after["head"]["sha"] == sha and after["commits"] == 2
    assert after["updated_at"] > before["updated_at"] and after["mergeable"] is None
    assert house.get("")["pushed_at"] == after["updated_at"]


def test_a_force_push_leaves_an_event(house: House, git: Client, work: Path) -> None:
    number = house.pull()
    git("fetch", "--quiet", cwd=work)
    git("checkout", "--quiet", "topic", cwd=work)
    git("commit", "--quiet", "--amend", "-m", "Other words", cwd=work)
    git("push", "--quiet", "--force", "origin", "topic", cwd=work)
    assert house.events(number) == ["head_ref_force_pushed"]
    assert house.get(f"pulls/{number}")["commits"] == 1


def test_a_deleted_branch_closes_its_pull_request(house: House, git: Client, work: Path) -> None:
    number = house.pull()
    head = house.head("topic")
    git("push", "--quiet", "--delete", "origin", "topic", cwd=work)
    pull = house.get(f"pulls/{number}")
    assert (pull["state"], pull["merged"]) == ("closed", False)
    assert house.events(number) == ["closed", "head_ref_deleted"]
    refused = house.send("PATCH", f"pulls/{number}", state="open")
    assert refused.status_code == 422 and "deleted" in refused.text
    house.made("POST", "git/refs", ref="refs/heads/topic", sha=head)
    assert house.made("PATCH", f"pulls/{number}", state="open")["state"] == "open"


def test_a_closed_pull_request_learns_of_pushes_when_it_is_reopened(house: House) -> None:
    number = house.pull()
    house.made("PATCH", f"pulls/{number}", state="closed")
    old = house.get(f"pulls/{number}")["head"]["sha"]
    sha = house.commit("topic", "more.txt")
    assert house.get(f"pulls/{number}")["head"]["sha"] == old
    assert house.made("PATCH", f"pulls/{number}", state="open")["head"]["sha"] == sha


def test_a_head_pushed_into_the_base_counts_as_merged(
    house: House, git: Client, work: Path
) -> None:
    number = house.pull()
    git("fetch", "--quiet", cwd=work)
    git("merge", "--quiet", "--ff-only", "origin/topic", cwd=work)
    git("push", "--quiet", "origin", "main", cwd=work)
    pull = house.get(f"pulls/{number}")
    assert pull["merged"] is True and pull["merged_by"]["login"] == "alice"


def test_a_commit_pushed_to_the_default_branch_closes_what_it_fixes(
    house: House, git: Client, work: Path
) -> None:
    issue = house.made("POST", "issues", title="Broken")["number"]
    sha = git.commit(work, "fix.txt", "fixed\n", f"Mend it\n\nFixes #{issue}")
    git("push", "--quiet", "origin", "main", cwd=work)
    assert house.get(f"issues/{issue}")["state"] == "closed"
    assert house.get(f"issues/{issue}/events")[0]["commit_id"] == sha


def test_one_push_moves_several_pull_requests(house: House, git: Client, work: Path) -> None:
    numbers = [house.pull(name) for name in ("a", "b")]
    git("fetch", "--quiet", cwd=work)
    for name in ("a", "b"):
        git("checkout", "--quiet", name, cwd=work)
        git.commit(work, f"more-{name}.txt", "more\n")
    git("push", "--quiet", "origin", "a", "b", cwd=work)
    assert [house.get(f"pulls/{n}")["commits"] for n in numbers] == [2, 2]


def test_a_reader_may_not_push_and_a_writer_may(house: House, git: Client, work: Path) -> None:
    git("checkout", "--quiet", "-b", "topic", cwd=work)
    git.commit(work, "x", "x")
    for login in ("carol", "dave"):
        assert "403" in git.try_("push", house.clone_url(login), "topic", cwd=work).stderr
    git("push", "--quiet", house.clone_url("bob"), "topic", cwd=work)


def test_a_renamed_repository_is_followed_by_git(house: House, git: Client, work: Path) -> None:
    old = house.clone_url()
    house.name = house.made("PATCH", "", name=house.name.partition("/")[2] + "-new")["full_name"]
    git.commit(work, "x", "x")
    git("push", "--quiet", old, "main", cwd=work)
    assert house.head() == git("rev-parse", "HEAD", cwd=work)
