"""Checkpoints of blocked work, and removing checkouts without losing any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hostler.checkouts import inspection
from hostler.checkouts.changes import look
from hostler.checkouts.errors import WorkWouldBeLost
from hostler.checkouts.mirror import head_of
from hostler.checkouts.names import Sha, checkpoint_name, sha
from hostler.checkouts.place import KEPT, PUSHED, Checkout, Identity
from hostler.checkouts.pushing import Pushed, push
from hostler.checkouts.remote import Remote
from hostler.checkouts.removing import remove_folder
from hostler.checkouts.sealing import snapshot
from hostler.checkouts.subwork import dirty_submodules
from hostler.checkouts.view import View, bring_home, viewing

_SAFE = ("refs/heads/", "refs/tags/", PUSHED, KEPT)


@dataclass(frozen=True, slots=True)
class Loss:
    """What would be gone with a checkout: nothing, if all four are empty."""

    dirty: tuple[str, ...] = ()
    unpushed: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    submodules: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.everything)

    @property
    def everything(self) -> tuple[str, ...]:
        return (*self.dirty, *self.unpushed, *self.beyond_reach)

    @property
    def beyond_reach(self) -> tuple[str, ...]:
        """Work in other repositories, which we cannot keep."""
        return (*self.nested, *self.submodules)


def checkpoint(
    checkout: Checkout, remote: Remote, identity: Identity, *, issue: int, title: str
) -> Pushed:
    """Push everything to a branch of its own, whatever state the checkout is in."""
    commit = snapshot(checkout, f"Checkpoint of #{issue}: {title}", identity)
    name = checkpoint_name(issue, title, commit)
    return push(checkout.mirror, remote, name, commit, expected=None)


def would_lose(checkout: Checkout, ignore: Sequence[str] = ()) -> Loss:
    """What removing a checkout would lose. Touches nothing."""
    with viewing(checkout, ignore) as view:
        start = view.head.commit or head_of(checkout.mirror, checkout.ref("base"))
        if start is None:
            return Loss(unpushed=("HEAD",))
        changes = look(view.tree, start)
        return Loss(
            dirty=changes.files,
            unpushed=_unpushed(view),
            nested=changes.nested,
            submodules=dirty_submodules(view),
        )


def clean(checkout: Checkout, ignore: Sequence[str] = ()) -> None:
    """Remove a checkout, if nothing is lost with it."""
    if not checkout.path.exists():
        return
    loss = would_lose(checkout, ignore)
    if loss:
        raise WorkWouldBeLost(checkout.path, loss.everything)
    remove_folder(checkout.path)


def keep_and_clean(checkout: Checkout, identity: Identity, ignore: Sequence[str] = ()) -> None:
    """Keep uncommitted and unpushed work in the mirror, then remove the checkout."""
    if not checkout.path.exists():
        return
    loss = would_lose(checkout, ignore)
    if loss.beyond_reach:
        raise WorkWouldBeLost(checkout.path, loss.beyond_reach)
    if loss:
        snapshot(checkout, "Work kept before its checkout was removed", identity, ignore)
        _keep_refs(checkout)
    clean_after = would_lose(checkout, ignore)
    if clean_after.unpushed or clean_after.beyond_reach:
        raise WorkWouldBeLost(checkout.path, clean_after.everything)
    remove_folder(checkout.path)


def _keep_refs(checkout: Checkout) -> None:
    with viewing(checkout) as view:
        commits = _commits(view)
        bring_home(view, {checkout.place.kept_ref(commit): commit for commit in commits.values()})


def _unpushed(view: View) -> tuple[str, ...]:
    """Branches, tags and stashes with commits that neither the remote nor we have kept."""
    listed = view.checkout.mirror.git()("for-each-ref", "--format=%(objectname)", *_SAFE).lines
    safe = "".join(f"^{known}\n" for known in listed)
    return tuple(
        ref
        for ref, commit in _commits(view).items()
        if view.git("rev-list", "-n1", "--stdin", stdin=f"{commit}\n{safe}".encode()).text
    )


def _commits(view: View) -> dict[str, Sha]:
    """Everything that an agent's refs lead to; tags of other things than commits are skipped."""
    refs = inspection.local_refs(view.checkout.path)
    if view.head.commit is not None:
        refs["HEAD"] = view.head.commit
    found: dict[str, Sha] = {}
    for ref, target in refs.items():
        kind = view.git("rev-parse", "-q", "--verify", f"{target}^{{commit}}", accept=(0, 1, 128))
        if kind.code == 0:
            found[ref] = sha(kind.text)
    return found
