"""How a checkout stands: what is uncommitted, and how far it is from the remote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hostler.checkouts.changes import look
from hostler.checkouts.inspection import Head
from hostler.checkouts.mirror import head_of
from hostler.checkouts.names import Sha
from hostler.checkouts.place import Checkout
from hostler.checkouts.view import View, viewing


@dataclass(frozen=True, slots=True)
class Distance:
    """Commits that only the checkout has, and commits that only the remote branch has."""

    ahead: int
    behind: int


@dataclass(frozen=True, slots=True)
class Status:
    """One look at a checkout. A distance is None where one of the two ends is missing."""

    head: Head
    dirty: tuple[str, ...]
    nested: tuple[str, ...]
    from_base: Distance | None
    from_remote: Distance | None


def status(checkout: Checkout, base_branch: str, ignore: Sequence[str] = ()) -> Status:
    """Look at a checkout; the remote's branches count as of the mirror's last update."""
    with viewing(checkout, ignore) as view:
        start = view.head.commit or head_of(checkout.mirror, checkout.ref("base"))
        changes = look(view.tree, start) if start else None
        return Status(
            head=view.head,
            dirty=changes.files if changes else (),
            nested=changes.nested if changes else (),
            from_base=_distance(view, head_of(checkout.mirror, f"refs/heads/{base_branch}")),
            from_remote=_distance(view, head_of(checkout.mirror, f"refs/heads/{checkout.branch}")),
        )


def _distance(view: View, other: Sha | None) -> Distance | None:
    if view.head.commit is None or other is None:
        return None
    counts = view.git("rev-list", "--left-right", "--count", f"{view.head.commit}...{other}").text
    ahead, behind = counts.split()
    return Distance(int(ahead), int(behind))
