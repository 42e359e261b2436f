"""Pushing: create, advance, already there, raced, refused, verified; never forced."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkout_fixture import BRANCH, RepoFixture

from hostler.checkouts import git as git_module
from hostler.checkouts import process, push
from hostler.checkouts.checkout import Checkout, fetch_task_head
from hostler.checkouts.errors import HistoryRewritten, PushRaced, PushRefused, PushUnverified
from hostler.checkouts.mirror import read_mirror_ref
from hostler.checkouts.names import Sha
from hostler.checkouts.preparation import PreparedCheckout
from hostler.checkouts.push import PushMove, push_commit


def send(repo_fixture: RepoFixture, head: Sha, expected: Sha | None) -> PushMove:
    return push_commit(repo_fixture.mirror, repo_fixture.remote, BRANCH, head, expected).move


def hook(repo_fixture: RepoFixture, name: str, script: str) -> None:
    """A hook of the code host."""
    file = repo_fixture.origin / "hooks" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def worked(repo_fixture: RepoFixture, checkout: Checkout, text: str = "x") -> Sha:
    repo_fixture.agent.commit(checkout.path, "work", text)
    return fetch_task_head(checkout)


def test_a_branch_is_created_advanced_and_found_already_there(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    first = worked(repo_fixture, checkout, "1")
    assert send(repo_fixture, first, None) is PushMove.CREATE
    assert send(repo_fixture, first, None) is PushMove.ALREADY
    second = worked(repo_fixture, checkout, "2")
    assert send(repo_fixture, second, first) is PushMove.ADVANCE
    assert send(repo_fixture, second, first) is PushMove.ALREADY
    assert repo_fixture.on_remote() == second
    assert read_mirror_ref(repo_fixture.mirror, f"refs/hostler/pushed/{BRANCH}") == second


def test_nothing_but_the_branch_is_pushed(repo_fixture: RepoFixture, checkout: Checkout) -> None:
    repo_fixture.agent("tag", "-am", "x", "v1", cwd=checkout.path)
    repo_fixture.agent("branch", "other", cwd=checkout.path)
    send(repo_fixture, worked(repo_fixture, checkout), None)
    refs = repo_fixture.agent(
        "for-each-ref", "--format=%(refname)", cwd=repo_fixture.origin
    ).splitlines()
    assert refs == [f"refs/heads/{BRANCH}", "refs/heads/main"]


def test_rewritten_history_is_not_pushed_even_where_the_remote_would_take_it(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    first = worked(repo_fixture, checkout, "1")
    send(repo_fixture, first, None)
    repo_fixture.agent("commit", "-q", "--amend", "-m", "other", cwd=checkout.path)
    with pytest.raises(HistoryRewritten):
        send(repo_fixture, fetch_task_head(checkout), first)
    assert repo_fixture.on_remote() == first


def test_a_branch_that_somebody_else_made_moved_or_removed_is_a_race(
    repo_fixture: RepoFixture, prepared: PreparedCheckout
) -> None:
    head = worked(repo_fixture, prepared.checkout)
    repo_fixture.agent("update-ref", f"refs/heads/{BRANCH}", prepared.base, cwd=repo_fixture.origin)
    with pytest.raises(PushRaced) as raced:
        send(repo_fixture, head, None)
    assert (raced.value.expected, raced.value.found) == (None, prepared.base)
    repo_fixture.agent("update-ref", "-d", f"refs/heads/{BRANCH}", cwd=repo_fixture.origin)
    with pytest.raises(PushRaced) as raced:
        send(repo_fixture, head, prepared.base)
    assert (raced.value.expected, raced.value.found) == (prepared.base, None)
    assert repo_fixture.on_remote() == ""


def test_a_branch_set_back_after_our_look_is_not_brought_forward_again(
    repo_fixture: RepoFixture, prepared: PreparedCheckout, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = worked(repo_fixture, prepared.checkout, "1")
    send(repo_fixture, first, None)
    second = worked(repo_fixture, prepared.checkout, "2")
    real = git_module.run_git

    def meddling(child: process.ChildProcess) -> git_module.GitOutput:
        if child.argv[1] == "push":
            # A plain push would call this a fast-forward and undo the person's decision.
            repo_fixture.agent(
                "update-ref", f"refs/heads/{BRANCH}", prepared.base, cwd=repo_fixture.origin
            )
        return real(child)

    monkeypatch.setattr(git_module, "run_git", meddling)
    with pytest.raises(PushRaced) as raced:
        send(repo_fixture, second, first)
    assert raced.value.found == prepared.base == repo_fixture.on_remote()


def test_a_refusal_is_told_in_the_hosts_words(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    hook(repo_fixture, "pre-receive", "echo 'this branch is protected' >&2; exit 1")
    with pytest.raises(PushRefused, match="this branch is protected"):
        send(repo_fixture, worked(repo_fixture, checkout), None)
    assert repo_fixture.on_remote() == ""


def test_a_commit_on_top_of_ours_right_after_the_push_is_fine(
    repo_fixture: RepoFixture, checkout: Checkout
) -> None:
    head = worked(repo_fixture, checkout)
    ours = f"refs/heads/{BRANCH}"
    hook(
        repo_fixture,
        "post-receive",
        f"git -c user.name=a -c user.email=b commit-tree -p {ours} -m top {ours}^{{tree}}"
        f" | xargs git update-ref {ours}",
    )
    assert send(repo_fixture, head, None) is PushMove.CREATE
    assert repo_fixture.on_remote() != head
    assert read_mirror_ref(repo_fixture.mirror, f"refs/hostler/pushed/{BRANCH}") == head


def test_a_push_that_the_remote_does_not_show_is_not_believed(
    repo_fixture: RepoFixture, prepared: PreparedCheckout
) -> None:
    head = worked(repo_fixture, prepared.checkout)
    hook(repo_fixture, "post-receive", f"git update-ref refs/heads/{BRANCH} {prepared.base}")
    with pytest.raises(PushUnverified) as unverified:
        send(repo_fixture, head, None)
    assert (unverified.value.pushed, unverified.value.found) == (head, prepared.base)
    assert read_mirror_ref(repo_fixture.mirror, f"refs/hostler/pushed/{BRANCH}") is None


def test_no_command_of_ours_can_force(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(push.__file__).read_text()
    assert '"--force"' not in source and '"-f"' not in source and '"+' not in source
