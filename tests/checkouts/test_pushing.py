"""Pushing: create, advance, already there, raced, refused, verified; never forced."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkout_stable import BRANCH, Stable

from hostler.checkouts import git as git_module
from hostler.checkouts import process, push
from hostler.checkouts.checkout import Checkout, fetch_task_head
from hostler.checkouts.errors import HistoryRewritten, PushRaced, PushRefused, PushUnverified
from hostler.checkouts.mirror import read_mirror_ref
from hostler.checkouts.names import Sha
from hostler.checkouts.preparation import PreparedCheckout
from hostler.checkouts.push import PushMove, push_commit


def send(stable: Stable, head: Sha, expected: Sha | None) -> PushMove:
    return push_commit(stable.mirror, stable.remote, BRANCH, head, expected).move


def hook(stable: Stable, name: str, script: str) -> None:
    """A hook of the code host."""
    file = stable.origin / "hooks" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def worked(stable: Stable, checkout: Checkout, text: str = "x") -> Sha:
    stable.agent.commit(checkout.path, "work", text)
    return fetch_task_head(checkout)


def test_a_branch_is_created_advanced_and_found_already_there(
    stable: Stable, checkout: Checkout
) -> None:
    first = worked(stable, checkout, "1")
    assert send(stable, first, None) is PushMove.CREATE
    assert send(stable, first, None) is PushMove.ALREADY
    second = worked(stable, checkout, "2")
    assert send(stable, second, first) is PushMove.ADVANCE
    assert send(stable, second, first) is PushMove.ALREADY
    assert stable.on_remote() == second
    assert read_mirror_ref(stable.mirror, f"refs/hostler/pushed/{BRANCH}") == second


def test_nothing_but_the_branch_is_pushed(stable: Stable, checkout: Checkout) -> None:
    stable.agent("tag", "-am", "x", "v1", cwd=checkout.path)
    stable.agent("branch", "other", cwd=checkout.path)
    send(stable, worked(stable, checkout), None)
    refs = stable.agent("for-each-ref", "--format=%(refname)", cwd=stable.origin).splitlines()
    assert refs == [f"refs/heads/{BRANCH}", "refs/heads/main"]


def test_rewritten_history_is_not_pushed_even_where_the_remote_would_take_it(
    stable: Stable, checkout: Checkout
) -> None:
    first = worked(stable, checkout, "1")
    send(stable, first, None)
    stable.agent("commit", "-q", "--amend", "-m", "other", cwd=checkout.path)
    with pytest.raises(HistoryRewritten):
        send(stable, fetch_task_head(checkout), first)
    assert stable.on_remote() == first


def test_a_branch_that_somebody_else_made_moved_or_removed_is_a_race(
    stable: Stable, prepared: PreparedCheckout
) -> None:
    head = worked(stable, prepared.checkout)
    stable.agent("update-ref", f"refs/heads/{BRANCH}", prepared.base, cwd=stable.origin)
    with pytest.raises(PushRaced) as raced:
        send(stable, head, None)
    assert (raced.value.expected, raced.value.found) == (None, prepared.base)
    stable.agent("update-ref", "-d", f"refs/heads/{BRANCH}", cwd=stable.origin)
    with pytest.raises(PushRaced) as raced:
        send(stable, head, prepared.base)
    assert (raced.value.expected, raced.value.found) == (prepared.base, None)
    assert stable.on_remote() == ""


def test_a_branch_set_back_after_our_look_is_not_brought_forward_again(
    stable: Stable, prepared: PreparedCheckout, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = worked(stable, prepared.checkout, "1")
    send(stable, first, None)
    second = worked(stable, prepared.checkout, "2")
    real = git_module.run_git

    def meddling(child: process.ChildProcess) -> git_module.GitOutput:
        if child.argv[1] == "push":
            # A plain push would call this a fast-forward and undo the person's decision.
            stable.agent("update-ref", f"refs/heads/{BRANCH}", prepared.base, cwd=stable.origin)
        return real(child)

    monkeypatch.setattr(git_module, "run_git", meddling)
    with pytest.raises(PushRaced) as raced:
        send(stable, second, first)
    assert raced.value.found == prepared.base == stable.on_remote()


def test_a_refusal_is_told_in_the_hosts_words(stable: Stable, checkout: Checkout) -> None:
    hook(stable, "pre-receive", "echo 'this branch is protected' >&2; exit 1")
    with pytest.raises(PushRefused, match="this branch is protected"):
        send(stable, worked(stable, checkout), None)
    assert stable.on_remote() == ""


def test_a_commit_on_top_of_ours_right_after_the_push_is_fine(
    stable: Stable, checkout: Checkout
) -> None:
    head = worked(stable, checkout)
    ours = f"refs/heads/{BRANCH}"
    hook(
        stable,
        "post-receive",
        f"git -c user.name=a -c user.email=b commit-tree -p {ours} -m top {ours}^{{tree}}"
        f" | xargs git update-ref {ours}",
    )
    assert send(stable, head, None) is PushMove.CREATE
    assert stable.on_remote() != head
    assert read_mirror_ref(stable.mirror, f"refs/hostler/pushed/{BRANCH}") == head


def test_a_push_that_the_remote_does_not_show_is_not_believed(
    stable: Stable, prepared: PreparedCheckout
) -> None:
    head = worked(stable, prepared.checkout)
    hook(stable, "post-receive", f"git update-ref refs/heads/{BRANCH} {prepared.base}")
    with pytest.raises(PushUnverified) as unverified:
        send(stable, head, None)
    assert (unverified.value.pushed, unverified.value.found) == (head, prepared.base)
    assert read_mirror_ref(stable.mirror, f"refs/hostler/pushed/{BRANCH}") is None


def test_no_command_of_ours_can_force(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(push.__file__).read_text()
    assert '"--force"' not in source and '"-f"' not in source and '"+' not in source
