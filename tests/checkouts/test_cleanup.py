"""Checkpoints, and removing checkouts: no work is ever lost."""

from __future__ import annotations

import pytest
from checkout_fixture import ANN, BRANCH, RepoFixture, add_submodule, library

from hostler.checkouts.agent_folder import empty_trash
from hostler.checkouts.checkout import Checkout, fetch_task_head
from hostler.checkouts.cleanup import find_loss, push_checkpoint, remove_checkout, save_and_remove
from hostler.checkouts.errors import WorkWouldBeLost
from hostler.checkouts.mirror import fetch_mirror
from hostler.checkouts.preparation import PreparedCheckout
from hostler.checkouts.push import PushMove, push_commit


def kept(repo_fixture: RepoFixture) -> str:
    """Every file of every piece of work that the mirror keeps."""
    return repo_fixture.agent(
        *("rev-list", "--objects", "--glob=refs/hostler/kept"), cwd=repo_fixture.mirror.path
    )


def test_blocked_work_goes_to_a_branch_of_its_own_once(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    repo_fixture.agent.commit(checkout.path, "begun", "x")
    (checkout.path / "half").write_text("x")
    first = push_checkpoint(checkout, repo_fixture.remote, ANN, issue=7, title="Crash on start")
    assert first.branch == f"agent/checkpoint/7-crash-on-start-{first.commit[:12]}"
    assert repo_fixture.on_remote(first.branch) == first.commit
    names = repo_fixture.agent(
        "ls-tree", "-r", "--name-only", first.commit, cwd=repo_fixture.origin
    )
    assert {"begun", "half"} <= set(names.splitlines())
    again = push_checkpoint(checkout, repo_fixture.remote, ANN, issue=7, title="Crash on start")
    assert (again.commit, again.move) == (first.commit, PushMove.ALREADY)
    # The checkout itself is as the agent left it, for it to go on.
    assert repo_fixture.agent("status", "--porcelain", cwd=checkout.path) == "?? half"
    assert repo_fixture.on_remote() == ""


@pytest.mark.parametrize("state", ["detached", "other branch", "deleted branch", "rewritten"])
def test_a_checkpoint_is_taken_in_whatever_state_the_agent_left(
    state: str, repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    git, path = repo_fixture.agent, checkout.path
    git.commit(path, "begun", "x")
    fetch_task_head(checkout)
    acts = {
        "detached": ("checkout", "-q", "--detach"),
        "other branch": ("checkout", "-qb", "mine"),
        "deleted branch": ("update-ref", "-d", f"refs/heads/{BRANCH}"),
        "rewritten": ("commit", "-q", "--amend", "-m", "other"),
    }
    git(*acts[state], cwd=path)
    (path / "half").write_text("x")
    made = push_checkpoint(checkout, repo_fixture.remote, ANN, issue=7, title="x")
    names = git("ls-tree", "-r", "--name-only", made.commit, cwd=repo_fixture.origin).splitlines()
    assert {"begun", "half"} <= set(names)


def test_a_checkout_whose_work_is_pushed_is_removed(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    repo_fixture.agent.commit(checkout.path, "work", "x")
    push_commit(repo_fixture.mirror, repo_fixture.remote, BRANCH, fetch_task_head(checkout), None)
    (checkout.path / "debug.log").write_text("ignored")
    assert not find_loss(checkout)
    remove_checkout(checkout)
    assert list(checkout.path.parent.iterdir()) == []
    remove_checkout(checkout)


def test_work_that_was_pushed_and_merged_away_does_not_hold_a_checkout(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    repo_fixture.agent.commit(checkout.path, "work", "x")
    push_commit(repo_fixture.mirror, repo_fixture.remote, BRANCH, fetch_task_head(checkout), None)
    repo_fixture.agent("update-ref", "-d", f"refs/heads/{BRANCH}", cwd=repo_fixture.origin)
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    assert not find_loss(checkout)


LEFT = ["dirty", "commit", "other branch", "stash", "tag", "detached", "nested"]


@pytest.mark.parametrize("what", LEFT)
def test_work_that_exists_nowhere_else_keeps_a_checkout(
    what: str, repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    leave(what, repo_fixture, checkout)
    assert find_loss(checkout)
    with pytest.raises(WorkWouldBeLost) as refused:
        remove_checkout(checkout)
    assert refused.value.losses
    assert (checkout.path / "README.md").exists()
    if what == "nested":
        with pytest.raises(WorkWouldBeLost, match="inner/"):
            save_and_remove(checkout, ANN)
        return
    save_and_remove(checkout, ANN)
    assert not checkout.path.exists()
    assert " work" in kept(repo_fixture)


def leave(what: str, repo_fixture: RepoFixture, checkout: Checkout) -> None:
    git, path = repo_fixture.agent, checkout.path
    (path / "work").write_text("x")
    if what in {"commit", "other branch", "tag", "detached"}:
        git("checkout", "-q", "--detach", cwd=path)
        git.commit(path, "work", "x")
    if what == "commit":
        git("checkout", "-qB", BRANCH, cwd=path)
    if what == "other branch":
        git("branch", "mine", cwd=path)
    if what == "tag":
        git("tag", "-am", "x", "mine", cwd=path)
    if what in {"other branch", "tag"}:
        git("checkout", "-q", BRANCH, cwd=path)
    if what == "stash":
        git("stash", "-q", "-u", cwd=path)
        (path / "newer").write_text("y")
        git("stash", "-q", "-u", cwd=path)
        git("pack-refs", "--all", cwd=path)
    if what == "nested":
        (path / "work").unlink()
        git("init", "-q", str(path / "inner"), cwd=path)
        git.commit(path / "inner", "work", "x")


def test_looking_removes_nothing(checkout: Checkout) -> None:
    (checkout.path / "work").write_text("x")
    assert find_loss(checkout).dirty == ("work",)
    assert (checkout.path / "work").exists()


def test_folders_that_nobody_may_write_are_removed_too(checkout: Checkout) -> None:
    locked = checkout.path / "cache.log"
    (locked / "inner").mkdir(parents=True)
    (locked / "inner" / "file").touch()
    (locked / "inner").chmod(0o500)
    locked.chmod(0o500)
    remove_checkout(checkout)
    assert list(checkout.path.parent.iterdir()) == []


def test_a_removal_that_was_cut_off_is_finished_by_the_next(checkout: Checkout) -> None:
    trash = checkout.path.parent / ".t1.0815.trash"
    trash.mkdir()
    (trash / "file").touch()
    (checkout.path.parent / ".t2.0815.trash").symlink_to("/etc")
    empty_trash(checkout.path.parent)
    assert [path.name for path in checkout.path.parent.iterdir()] == ["t7"]


@pytest.fixture
def with_submodule(repo_fixture: RepoFixture) -> PreparedCheckout:
    library(repo_fixture, "lib")
    add_submodule(repo_fixture, "../lib.git", repo_fixture.person(), "lib")
    fetch_mirror(repo_fixture.mirror, repo_fixture.remote)
    return repo_fixture.prepare()


def test_a_submodule_as_it_was_does_not_hold_a_checkout(with_submodule: PreparedCheckout) -> None:
    assert not find_loss(with_submodule.checkout)
    remove_checkout(with_submodule.checkout)


@pytest.mark.parametrize("how", ["changed", "committed", "recorded"])
def test_work_inside_a_submodule_keeps_the_checkout(
    how: str, repo_fixture: RepoFixture, with_submodule: PreparedCheckout
) -> None:
    path = with_submodule.checkout.path
    (path / "lib" / "README.md").write_text("changed")
    if how != "changed":
        repo_fixture.agent.commit(path / "lib", "work", "x")
    if how == "recorded":
        repo_fixture.agent("commit", "-qam", "Move the submodule", cwd=path)
        push_commit(
            repo_fixture.mirror,
            repo_fixture.remote,
            BRANCH,
            fetch_task_head(with_submodule.checkout),
            None,
        )
    assert find_loss(with_submodule.checkout).submodules == ("lib",)
    with pytest.raises(WorkWouldBeLost):
        save_and_remove(with_submodule.checkout, ANN)
