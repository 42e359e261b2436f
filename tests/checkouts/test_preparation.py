"""A task's checkout: branch, identity, base, submodules, and being cut off half-way."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkout_fixture import ANN, BRANCH, RepoFixture, add_submodule, library

from hostler.checkouts import preparation
from hostler.checkouts.checkout import CheckoutLocation, CommitIdentity, fetch_task_head
from hostler.checkouts.errors import BranchMissing, CheckoutMissing, CheckoutTampered
from hostler.checkouts.mirror import fetch_mirror
from hostler.checkouts.preparation import CheckoutPlan, PreparedCheckout, ensure_checkout


def test_a_checkout_is_a_shared_clone_on_the_tasks_branch(
    repo_fixture: RepoFixture, prepared: PreparedCheckout
) -> None:
    git, path = repo_fixture.agent, prepared.checkout.path
    assert path == repo_fixture.root / "checkouts" / "stable" / "t7"
    assert git("symbolic-ref", "--short", "HEAD", cwd=path) == BRANCH
    assert git.head(path) == prepared.base == repo_fixture.on_remote("main")
    assert (prepared.pushed, prepared.created) == (None, True)
    assert git("config", "user.name", cwd=path) == "Ann Operator"
    assert git("config", "user.email", cwd=path) == "ann@example.org"
    assert git("config", "remote.origin.url", cwd=path) == repo_fixture.remote.url
    borrowed = (path / ".git" / "objects" / "info" / "alternates").read_text().strip()
    assert borrowed == str(repo_fixture.mirror.objects)
    assert not (path / ".git" / "hooks").exists()
    assert git("status", "--porcelain", cwd=path) == ""


def test_an_agent_that_pushes_by_itself_is_told_who_pushes(
    repo_fixture: RepoFixture, prepared: PreparedCheckout
) -> None:
    repo_fixture.agent.commit(prepared.checkout.path, "x", "x")
    with pytest.raises(AssertionError, match="hostler"):
        repo_fixture.agent("push", "origin", "HEAD", cwd=prepared.checkout.path)
    assert repo_fixture.on_remote() == ""


def test_preparing_again_finds_the_checkout_and_its_base(
    repo_fixture: RepoFixture, prepared: PreparedCheckout
) -> None:
    repo_fixture.agent.commit(prepared.checkout.path, "work", "x")
    repo_fixture.agent.commit(repo_fixture.person(), "theirs", "x")
    repo_fixture.agent("push", "-q", "origin", "main", cwd=repo_fixture.person())
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    again = repo_fixture.prepare()
    assert (again.created, again.base, again.checkout) == (False, prepared.base, prepared.checkout)
    assert (again.checkout.path / "work").exists()


def test_work_starts_from_another_base_branch(repo_fixture: RepoFixture) -> None:
    person = repo_fixture.person()
    repo_fixture.agent("checkout", "-qb", "release/2", cwd=person)
    head = repo_fixture.agent.commit(person, "release", "2")
    repo_fixture.agent("push", "-q", "origin", "release/2", cwd=person)
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    prepared = repo_fixture.prepare(base="release/2")
    assert prepared.base == head
    assert (prepared.checkout.path / "release").exists()
    with pytest.raises(BranchMissing):
        ensure_checkout(
            CheckoutLocation(repo_fixture.root / "checkouts", "stable", "t8"),
            repo_fixture.mirror,
            repo_fixture.remote,
            CheckoutPlan("agent/bugfix/8-x", "release/3", ANN),
        )
    assert not (repo_fixture.root / "checkouts" / "stable" / "t8").exists()


def test_a_branch_that_the_remote_has_is_continued(repo_fixture: RepoFixture) -> None:
    person = repo_fixture.person()
    base = repo_fixture.agent.head(person)
    repo_fixture.agent("checkout", "-qb", BRANCH, cwd=person)
    head = repo_fixture.agent.commit(person, "begun", "x")
    repo_fixture.agent("push", "-q", "origin", BRANCH, cwd=person)
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    prepared = repo_fixture.prepare()
    assert (prepared.pushed, prepared.base) == (head, base)
    assert repo_fixture.agent.head(prepared.checkout.path) == head


def test_a_checkout_appears_whole_or_not_at_all(
    repo_fixture: RepoFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: Path, remote: object) -> tuple[str, ...]:
        raise OSError("cut off")

    monkeypatch.setattr(preparation, "fetch_submodules", broken)
    with pytest.raises(OSError, match="cut off"):
        repo_fixture.prepare()
    assert list((repo_fixture.root / "checkouts" / "stable").iterdir()) == []
    monkeypatch.undo()
    # What a killed process leaves is cleared away by the next try.
    debris = repo_fixture.root / "checkouts" / "stable" / ".t7.new"
    debris.mkdir()
    (debris / "half").touch()
    assert repo_fixture.prepare().created
    assert not debris.exists()


def test_a_folder_that_is_not_ours_is_left_alone(repo_fixture: RepoFixture) -> None:
    repo_fixture.place.path.mkdir(parents=True)
    (repo_fixture.place.path / "precious").touch()
    with pytest.raises(CheckoutTampered):
        repo_fixture.prepare()
    (repo_fixture.place.path / ".git").mkdir()
    with pytest.raises(CheckoutMissing):
        repo_fixture.prepare()
    assert (repo_fixture.place.path / "precious").exists()


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a <b>"])
def test_an_identity_that_git_would_bend_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="committer"):
        CommitIdentity(name, "a@b")


def test_submodules_are_filled_also_nested_and_relative_ones(repo_fixture: RepoFixture) -> None:
    library(repo_fixture, "deep")
    lib = library(repo_fixture, "lib")
    add_submodule(repo_fixture, f"file://{repo_fixture.root}/deep.git", lib, "deep")
    add_submodule(repo_fixture, "../lib.git", repo_fixture.person(), "vendor/lib")
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    prepared = repo_fixture.prepare()
    path = prepared.checkout.path
    assert prepared.missing_submodules == ()
    assert (path / "vendor" / "lib" / "deep" / "README.md").exists()
    repo_fixture.agent.commit(path, "work", "x")
    assert fetch_task_head(prepared.checkout) == repo_fixture.agent.head(path)


def test_a_submodule_that_cannot_be_had_is_named_and_the_rest_goes_on(
    repo_fixture: RepoFixture,
) -> None:
    library(repo_fixture, "lib")
    add_submodule(repo_fixture, f"file://{repo_fixture.root}/lib.git", repo_fixture.person(), "lib")
    (repo_fixture.root / "lib.git").rename(repo_fixture.root / "gone.git")
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    prepared = repo_fixture.prepare()
    assert prepared.missing_submodules == ("lib",)
    assert (prepared.checkout.path / "README.md").exists()
