"""The real git as a foreign client of the whole sandbox: what a person or an agent does all day."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from git_host import Client
from pull_fixture import House

from hostler.sandbox.auth import token_for
from hostler.sandbox.server import Running


@pytest.fixture
def house(git_sandbox: Running) -> Iterator[House]:
    made = House(git_sandbox, private=True)
    yield made
    made.close()


@pytest.fixture
def git(tmp_path: Path) -> Client:
    return Client(tmp_path)


def test_a_day_of_two_people(house: House, git: Client) -> None:
    alice, bob = git.clone(house.clone_url(), "alice"), git.clone(house.clone_url("bob"), "bob")
    git("checkout", "--quiet", "-b", "feature/sing", cwd=alice)
    git.commit(alice, "song.txt", "la\n")
    git("push", "--quiet", "--set-upstream", "origin", "feature/sing", cwd=alice)
    number = house.made("POST", "pulls", title="Sing", head="feature/sing", base="main")["number"]
    git("fetch", "--quiet", "origin", f"pull/{number}/head:review", cwd=bob)
    git("checkout", "--quiet", "review", cwd=bob)
    git.commit(bob, "song.txt", "la la\n")
    git("push", "--quiet", "origin", "review:feature/sing", cwd=bob)
    house.made("POST", f"pulls/{number}/reviews", "bob", event="APPROVE", body="Louder")
    git("pull", "--quiet", "--ff-only", cwd=alice)
    assert (alice / "song.txt").read_text() == "la la\n"
    made = house.made("PUT", f"pulls/{number}/merge", merge_method="squash")["sha"]
    git("push", "--quiet", "origin", "--delete", "feature/sing", cwd=alice)
    git("checkout", "--quiet", "main", cwd=alice)
    git("pull", "--quiet", "--ff-only", "--prune", cwd=alice)
    assert git("rev-parse", "HEAD", cwd=alice) == made
    assert git("branch", "--remotes", "--list", "origin/feature/*", cwd=alice) == ""


def test_the_token_comes_from_a_credential_helper(house: House, git: Client) -> None:
    stored = git.home / ".git-credentials"
    host = house.sandbox.url.removeprefix("http://")
    stored.write_text(f"http://anything:{token_for('alice')}@{host}\n")
    helper = "credential.helper=store"
    work = git.folder / "work"
    url = f"{house.sandbox.url}/{house.name}.git"
    git("-c", helper, "clone", "--quiet", url, "work")
    git.commit(work, "x", "x")
    git("-c", helper, "push", "--quiet", "origin", "main", cwd=work)
    assert house.head() == git("rev-parse", "HEAD", cwd=work)


def test_the_name_works_with_and_without_its_ending(house: House, git: Client) -> None:
    assert "main" in git("ls-remote", house.clone_url().removesuffix(".git"))


def test_a_mirror_with_everything(house: House, git: Client) -> None:
    number = house.pull()
    mirror = git.clone(house.clone_url(), "mirror", "--mirror")
    listed = git("for-each-ref", "--format=%(refname)", cwd=mirror).splitlines()
    assert {"refs/heads/main", "refs/heads/topic", f"refs/pull/{number}/head"} <= set(listed)
    # Writing refs/pull back is refused, as on GitHub; the branches are taken.
    pushed = git.try_("push", "--mirror", house.clone_url(), cwd=mirror)
    assert pushed.returncode == 0 or "refs/pull" in pushed.stderr


def test_tags_and_a_partial_clone(house: House, git: Client) -> None:
    work = git.clone(house.clone_url())
    git("tag", "-a", "v1", "-m", "First", cwd=work)
    git("push", "--quiet", "origin", "v1", cwd=work)
    assert house.get("git/ref/tags/v1")["object"]["type"] == "tag"
    partial = git.clone(house.clone_url(), "partial", "--filter=blob:none", "--no-checkout")
    git("checkout", "--quiet", "main", cwd=partial)
    assert (partial / "README.md").exists()


def test_a_lost_race_is_told_and_mended(house: House, git: Client) -> None:
    first, second = git.clone(house.clone_url(), "a"), git.clone(house.clone_url("bob"), "b")
    git.commit(first, "a", "a")
    git.commit(second, "b", "b")
    git("push", "--quiet", "origin", "main", cwd=first)
    lost = git.try_("push", "origin", "main", cwd=second)
    assert lost.returncode and "fetch first" in lost.stderr
    git("pull", "--quiet", "--rebase", "origin", "main", cwd=second)
    git("push", "--quiet", "origin", "main", cwd=second)
    assert len(house.get("commits")) == 3


def test_an_outsider_finds_nothing(house: House, git: Client) -> None:
    assert "not found" in git.try_("ls-remote", house.clone_url("dave")).stderr
    url = f"{house.sandbox.url}/{house.name}.git"
    assert "could not read Username" in git.try_("ls-remote", url).stderr
