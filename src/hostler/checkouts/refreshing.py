"""Telling a checkout what happened on the remote since it was last used."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from hostler.checkouts import inspection
from hostler.checkouts.changes import look
from hostler.checkouts.mirror import head_of
from hostler.checkouts.place import Checkout
from hostler.checkouts.sealing import adopt, point
from hostler.checkouts.view import viewing


class Freshness(StrEnum):
    """How a checkout's branch stands to the remote's after a refresh."""

    CURRENT = "current"
    FORWARDED = "forwarded"
    DIVERGED = "diverged"
    DIRTY = "dirty"


def refresh(checkout: Checkout, base_branch: str, ignore: Sequence[str] = ()) -> Freshness:
    """Show the remote's branches as `origin/…`, and follow commits added to ours.

    Only a clean checkout whose head is part of the remote's branch is moved. Anything else is
    for the agent to merge: the objects are there already, it needs no network.
    """
    offer(checkout, (base_branch, checkout.branch))
    theirs = head_of(checkout.mirror, f"refs/heads/{checkout.branch}")
    with viewing(checkout, ignore) as view:
        ours = inspection.require_branch(view.head, checkout.branch)
        inspection.require_finished(checkout.path)
        if theirs is None or view.is_ancestor(theirs, ours):
            return Freshness.CURRENT
        if not view.is_ancestor(ours, theirs):
            return Freshness.DIVERGED
        if look(view.tree, ours).files:
            return Freshness.DIRTY
        view.tree("read-tree", "-m", "-u", ours, theirs)
        adopt(view, theirs)
        return Freshness.FORWARDED


def offer(checkout: Checkout, branches: Sequence[str]) -> None:
    """Show branches of the mirror in the checkout, as a fetch would."""
    inspection.require_checkout(checkout.path)
    for branch in branches:
        commit = head_of(checkout.mirror, f"refs/heads/{branch}")
        if commit is not None:
            point(checkout, f"refs/remotes/origin/{branch}", commit)
