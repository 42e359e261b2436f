"""A task's checkout: branch, identity, base, submodules, and being cut off half-way."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkout_stable import ANN, BRANCH, Stable, add_submodule, library

from hostler.checkouts import preparation
from hostler.checkouts.checkout import CheckoutLocation, CommitIdentity, fetch_task_head
from hostler.checkouts.errors import BranchMissing, CheckoutMissing, CheckoutTampered
from hostler.checkouts.mirror import fetch_mirror
from hostler.checkouts.preparation import CheckoutPlan, PreparedCheckout, ensure_checkout


def test_a_checkout_is_a_shared_clone_on_the_tasks_branch(
    stable: Stable, prepared: PreparedCheckout
) -> None:
    git, path = stable.agent, prepared.checkout.path
    assert path == stable.root / "checkouts" / "stable" / "t7"
    assert git("symbolic-ref", "--short", "HEAD", cwd=path) == BRANCH
    assert git.head(path) == prepared.base == stable.on_remote("main")
    assert (prepared.pushed, prepared.created) == (None, True)
    assert git("config", "user.name", cwd=path) == "Ann Operator"
    assert git("config", "user.email", cwd=path) == "ann@example.org"
    assert git("config", "remote.origin.url", cwd=path) == stable.remote.url
    borrowed = (path / ".git" / "objects" / "info" / "alternates").read_text().strip()
    assert borrowed == str(stable.mirror.objects)
    assert not (path / ".git" / "hooks").exists()
    assert git("status", "--porcelain", cwd=path) == ""


def test_an_agent_that_pushes_by_itself_is_told_who_pushes(
    stable: Stable, prepared: PreparedCheckout
) -> None:
    stable.agent.commit(prepared.checkout.path, "x", "x")
    with pytest.raises(AssertionError, match="hostler"):
        stable.agent("push", "origin", "HEAD", cwd=prepared.checkout.path)
    assert stable.on_remote() == ""


def test_preparing_again_finds_the_checkout_and_its_base(
    stable: Stable, prepared: PreparedCheckout
) -> None:
    stable.agent.commit(prepared.checkout.path, "work", "x")
    stable.agent.commit(stable.person(), "theirs", "x")
    stable.agent("push", "-q", "origin", "main", cwd=stable.person())
    fetch_mirror(stable.mirror, stable.remote)
    again = stable.prepare()
    assert (again.created, again.base, again.checkout) == (False, prepared.base, prepared.checkout)
    assert (again.checkout.path / "work").exists()


def test_work_starts_from_another_base_branch(stable: Stable) -> None:
    person = stable.person()
    stable.agent("checkout", "-qb", "release/2", cwd=person)
    head = stable.agent.commit(person, "release", "2")
    stable.agent("push", "-q", "origin", "release/2", cwd=person)
    fetch_mirror(stable.mirror, stable.remote)
    prepared = stable.prepare(base="release/2")
    assert prepared.base == head
    assert (prepared.checkout.path / "release").exists()
    with pytest.raises(BranchMissing):
        ensure_checkout(
            CheckoutLocation(stable.root / "checkouts", "stable", "t8"),
            stable.mirror,
            stable.remote,
            CheckoutPlan("agent/bugfix/8-x", "release/3", ANN),
        )
    assert not (stable.root / "checkouts" / "stable" / "t8").exists()


def test_a_branch_that_the_remote_has_is_continued(stable: Stable) -> None:
    person = stable.person()
    base = stable.agent.head(person)
    stable.agent("checkout", "-qb", BRANCH, cwd=person)
    head = stable.agent.commit(person, "begun", "x")
    stable.agent("push", "-q", "origin", BRANCH, cwd=person)
    fetch_mirror(stable.mirror, stable.remote)
    prepared = stable.prepare()
    assert (prepared.pushed, prepared.base) == (head, base)
    assert stable.agent.head(prepared.checkout.path) == head


def test_a_checkout_appears_whole_or_not_at_all(
    stable: Stable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: Path, remote: object) -> tuple[str, ...]:
        raise OSError("cut off")

    monkeypatch.setattr(preparation, "fetch_submodules", broken)
    with pytest.raises(OSError, match="cut off"):
        stable.prepare()
    assert list((stable.root / "checkouts" / "stable").iterdir()) == []
    monkeypatch.undo()
    # What a killed process leaves is cleared away by the next try.
    debris = stable.root / "checkouts" / "stable" / ".t7.new"
    debris.mkdir()
    (debris / "half").touch()
    assert stable.prepare().created
    assert not debris.exists()


def test_a_folder_that_is_not_ours_is_left_alone(stable: Stable) -> None:
    stable.place.path.mkdir(parents=True)
    (stable.place.path / "precious").touch()
    with pytest.raises(CheckoutTampered):
        stable.prepare()
    (stable.place.path / ".git").mkdir()
    with pytest.raises(CheckoutMissing):
        stable.prepare()
    assert (stable.place.path / "precious").exists()


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a <b>"])
def test_an_identity_that_git_would_bend_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="committer"):
        CommitIdentity(name, "a@b")


def test_submodules_are_filled_also_nested_and_relative_ones(stable: Stable) -> None:
    library(stable, "deep")
    lib = library(stable, "lib")
    add_submodule(stable, f"file://{stable.root}/deep.git", lib, "deep")
    add_submodule(stable, "../lib.git", stable.person(), "vendor/lib")
    fetch_mirror(stable.mirror, stable.remote)
    prepared = stable.prepare()
    path = prepared.checkout.path
    assert prepared.missing_submodules == ()
    assert (path / "vendor" / "lib" / "deep" / "README.md").exists()
    stable.agent.commit(path, "work", "x")
    assert fetch_task_head(prepared.checkout) == stable.agent.head(path)


def test_a_submodule_that_cannot_be_had_is_named_and_the_rest_goes_on(stable: Stable) -> None:
    library(stable, "lib")
    add_submodule(stable, f"file://{stable.root}/lib.git", stable.person(), "lib")
    (stable.root / "lib.git").rename(stable.root / "gone.git")
    fetch_mirror(stable.mirror, stable.remote)
    prepared = stable.prepare()
    assert prepared.missing_submodules == ("lib",)
    assert (prepared.checkout.path / "README.md").exists()
