"""Save unfinished work as checkpoints, and remove checkouts without losing work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hostler.checkouts import agent_folder
from hostler.checkouts.agent_folder import remove_folder
from hostler.checkouts.checkout import (
    KEPT_REFS,
    PUSHED_REFS,
    Checkout,
    CheckoutView,
    CommitIdentity,
    fetch_into_mirror,
    open_bare_repo,
    open_view,
)
from hostler.checkouts.commits import GITLINK_MODE, find_changes, save_snapshot
from hostler.checkouts.errors import GitFailed, WorkWouldBeLost
from hostler.checkouts.git import Git
from hostler.checkouts.mirror import Remote, read_mirror_ref
from hostler.checkouts.names import Sha, build_checkpoint_name, parse_sha
from hostler.checkouts.push import PushResult, push_commit


def find_dirty_submodules(view: CheckoutView) -> tuple[str, ...]:
    """Return submodules that are checked out and differ from what the index records."""
    listed = view.tree("ls-files", "-s", "-z").items
    links = [entry.split("\t", 1) for entry in listed if entry.startswith(GITLINK_MODE)]
    return tuple(
        path for facts, path in links if not _is_unchanged(view, path, parse_sha(facts.split()[1]))
    )


def _is_unchanged(view: CheckoutView, link: str, recorded: Sha) -> bool:
    """Return whether it is empty, or equals a recorded commit that the submodule's remote has."""
    root = view.checkout.path
    folder = root / link
    if folder.is_symlink():
        return False
    if not folder.is_dir() or not any(folder.iterdir()):
        return True
    git_dir = (".git", "modules", *link.split("/"))
    objects = root.joinpath(*git_dir, "objects")
    if objects.resolve() != objects or not objects.is_dir():
        return False
    fetched = agent_folder.read_remote_commits(root, *git_dir)
    with open_bare_repo((objects,), view.checkout.mirror.views) as path:
        git = Git(path, path)
        try:
            changes = find_changes(git.over(folder, path / "index"), recorded)
            known = "".join(f"^{commit}\n" for commit in fetched)
            local = git("rev-list", "-n1", "--stdin", stdin=f"{recorded}\n{known}".encode()).text
        except GitFailed:
            return False
    return not (changes.files or changes.nested or local)


_SAFE_REFS = ("refs/heads/", "refs/tags/", PUSHED_REFS, KEPT_REFS)


@dataclass(frozen=True, slots=True)
class WorkLoss:
    """What would be lost with a checkout; nothing if all four are empty."""

    dirty: tuple[str, ...] = ()
    unpushed: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    submodules: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.all_work)

    @property
    def all_work(self) -> tuple[str, ...]:
        return (*self.dirty, *self.unpushed, *self.nested_work)

    @property
    def nested_work(self) -> tuple[str, ...]:
        """Return work in nested repositories, which Hostler cannot save."""
        return (*self.nested, *self.submodules)


def push_checkpoint(
    checkout: Checkout, remote: Remote, identity: CommitIdentity, *, issue: int, title: str
) -> PushResult:
    """Push everything to a separate branch, whatever state the checkout is in."""
    commit = save_snapshot(checkout, f"Checkpoint of #{issue}: {title}", identity)
    name = build_checkpoint_name(issue, title, commit)
    return push_commit(checkout.mirror, remote, name, commit, expected=None)


def find_loss(checkout: Checkout, ignore: Sequence[str] = ()) -> WorkLoss:
    """Return what would be lost if the checkout were removed. Read only."""
    with open_view(checkout, ignore) as view:
        start = view.head.commit or read_mirror_ref(checkout.mirror, checkout.ref("base"))
        if start is None:
            return WorkLoss(unpushed=("HEAD",))
        changes = find_changes(view.tree, start)
        return WorkLoss(
            dirty=changes.files,
            unpushed=_unpushed_refs(view),
            nested=changes.nested,
            submodules=find_dirty_submodules(view),
        )


def remove_checkout(checkout: Checkout, ignore: Sequence[str] = ()) -> None:
    """Remove a checkout if nothing would be lost."""
    if not checkout.path.exists():
        return
    loss = find_loss(checkout, ignore)
    if loss:
        raise WorkWouldBeLost(checkout.path, loss.all_work)
    remove_folder(checkout.path)


def save_and_remove(
    checkout: Checkout, identity: CommitIdentity, ignore: Sequence[str] = ()
) -> None:
    """Save uncommitted and unpushed work in the mirror, then remove the checkout."""
    if not checkout.path.exists():
        return
    loss = find_loss(checkout, ignore)
    if loss.nested_work:
        raise WorkWouldBeLost(checkout.path, loss.nested_work)
    if loss:
        save_snapshot(checkout, "Work kept before its checkout was removed", identity, ignore)
        _keep_refs(checkout)
    clean_after = find_loss(checkout, ignore)
    if clean_after.unpushed or clean_after.nested_work:
        raise WorkWouldBeLost(checkout.path, clean_after.all_work)
    remove_folder(checkout.path)


def _keep_refs(checkout: Checkout) -> None:
    with open_view(checkout) as view:
        commits = _ref_commits(view)
        fetch_into_mirror(
            view, {checkout.place.kept_ref(commit): commit for commit in commits.values()}
        )


def _unpushed_refs(view: CheckoutView) -> tuple[str, ...]:
    """Return branches, tags and stashes whose commits are neither on the remote nor saved."""
    listed = view.checkout.mirror.git()("for-each-ref", "--format=%(objectname)", *_SAFE_REFS).lines
    safe = "".join(f"^{known}\n" for known in listed)
    return tuple(
        ref
        for ref, commit in _ref_commits(view).items()
        if view.git("rev-list", "-n1", "--stdin", stdin=f"{commit}\n{safe}".encode()).text
    )


def _ref_commits(view: CheckoutView) -> dict[str, Sha]:
    """Return all commits that the agent's refs point to; tags of other objects are skipped."""
    refs = agent_folder.read_local_refs(view.checkout.path)
    if view.head.commit is not None:
        refs["HEAD"] = view.head.commit
    found: dict[str, Sha] = {}
    for ref, target in refs.items():
        kind = view.git("rev-parse", "-q", "--verify", f"{target}^{{commit}}", accept=(0, 1, 128))
        if kind.code == 0:
            found[ref] = parse_sha(kind.text)
    return found
