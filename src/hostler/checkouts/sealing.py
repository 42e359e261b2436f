"""Committing what an agent left uncommitted, and telling its checkout so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hostler.checkouts import beneath, inspection
from hostler.checkouts.changes import commit_changes
from hostler.checkouts.names import Sha
from hostler.checkouts.place import Checkout, Identity
from hostler.checkouts.view import View, bring_home, viewing


@dataclass(frozen=True, slots=True)
class Commit:
    """The head after committing; `files` is empty if there was nothing to commit."""

    head: Sha
    files: tuple[str, ...]
    left_out: tuple[str, ...]


def commit_all(
    checkout: Checkout, message: str, identity: Identity, ignore: Sequence[str] = ()
) -> Commit:
    """Commit every changed file that git does not ignore, on top of the task's branch."""
    with viewing(checkout, ignore) as view:
        head = inspection.require_branch(view.head, checkout.branch)
        inspection.require_finished(checkout.path)
        sealed = checkout.ref("sealed")
        made, changes = commit_changes(view, head, message, identity, earlier=sealed)
        if made != head:
            bring_home(view, {sealed: made})
            adopt(view, made)
        return Commit(made, changes.files, changes.nested)


def snapshot(
    checkout: Checkout, message: str, identity: Identity, ignore: Sequence[str] = ()
) -> Sha:
    """Keep everything in the mirror, wherever HEAD is; the checkout stays as it is."""
    with viewing(checkout, ignore) as view:
        parent = view.head.commit or _last_known(view)
        kept = checkout.ref("kept")
        made, _ = commit_changes(view, parent, message, identity, earlier=kept)
        bring_home(view, {checkout.place.kept_ref(made): made})
        return made


def adopt(view: View, commit: Sha) -> None:
    """Move the checkout's branch and index to a commit that its files already show.

    The index comes first: cut off between the two, the checkout shows the same changes as
    staged, and the next try finds the same commit.
    """
    path, branch = view.checkout.path, view.checkout.branch
    beneath.write(path, ".git", "index", data=view.index.read_bytes())
    beneath.remove(path, ".git", "index.lock")
    point(view.checkout, f"refs/heads/{branch}", commit)


def point(checkout: Checkout, ref: str, commit: Sha) -> None:
    """Write one ref of a checkout."""
    beneath.write(checkout.path, ".git", *ref.split("/"), data=f"{commit}\n".encode())


def _last_known(view: View) -> Sha:
    """Where the branch was when it was still there."""
    listed = view.checkout.mirror.git()(
        *("for-each-ref", "--format=%(objectname)"),
        *(view.checkout.ref(kind) for kind in ("heads", "base")),
    ).lines
    return Sha(listed[-1])
