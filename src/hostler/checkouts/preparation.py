"""Create a task's checkout, fetch its submodules, and update it from the remote."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hostler.checkouts import agent_folder
from hostler.checkouts.agent_folder import remove_folder, require_checkout, translate_disk_full
from hostler.checkouts.checkout import Checkout, CheckoutLocation, CommitIdentity, open_view
from hostler.checkouts.commits import GITLINK_MODE, find_changes, set_branch_head, write_ref
from hostler.checkouts.errors import CheckoutMissing
from hostler.checkouts.git import Git, RemoteAccess
from hostler.checkouts.mirror import (
    Mirror,
    Remote,
    lock_mirror,
    read_mirror_ref,
    resolve_base,
    set_ref,
)
from hostler.checkouts.names import Sha, parse_sha, require_branch_name
from hostler.errors import CheckoutError

MAX_SUBMODULE_DEPTH = 3


def fetch_submodules(path: Path, remote: Remote, level: int = 1) -> tuple[str, ...]:
    """Fetch submodules without credentials. Return those that could not be fetched.

    Only https and the remote's own scheme are allowed: no `ext::`, no ssh, and no
    local folder unless the remote is one.
    """
    links = _list_submodules(path)
    if level > MAX_SUBMODULE_DEPTH:
        return tuple(links)
    missing: list[str] = []
    for link in links:
        if not _fetch_submodule(path, link, remote):
            missing.append(link)
            continue
        missing += (f"{link}/{below}" for below in fetch_submodules(path / link, remote, level + 1))
    return tuple(missing)


def _list_submodules(path: Path) -> list[str]:
    """Return the submodules that a repository records."""
    if not (path / ".gitmodules").is_file():
        return []
    listed = _git_in(path, RemoteAccess())("ls-files", "-s", "-z").items
    return [entry.split("\t", 1)[1] for entry in listed if entry.startswith(GITLINK_MODE)]


def _fetch_submodule(path: Path, link: str, remote: Remote) -> bool:
    access = RemoteAccess(remote.url, frozenset({remote.scheme, "https"}))
    try:
        _git_in(path, access)("submodule", "--quiet", "update", "--init", "--checkout", "--", link)
    except CheckoutError:
        return False
    return True


def _git_in(path: Path, access: RemoteAccess) -> Git:
    """Return git that finds the repository in this folder, and never in a parent."""
    return Git(None, path, access=access, env={"GIT_CEILING_DIRECTORIES": str(path.parent)})


# An agent that tries to push gets an error that says why.
NO_PUSH_URL = "hostler-pushes-for-you::this-branch"


@dataclass(frozen=True, slots=True)
class CheckoutPlan:
    """The intended properties of a task's checkout."""

    branch: str
    base_branch: str
    identity: CommitIdentity

    def __post_init__(self) -> None:
        require_branch_name(self.branch)
        if self.base_branch:
            require_branch_name(self.base_branch)


@dataclass(frozen=True, slots=True)
class PreparedCheckout:
    """A checkout that is ready, and where its branch forked from the base branch.

    `pushed` is the commit of the remote's branch at that time: None for a new branch.
    """

    checkout: Checkout
    base: Sha
    pushed: Sha | None
    created: bool
    missing_submodules: tuple[str, ...] = ()


def ensure_checkout(
    place: CheckoutLocation, mirror: Mirror, remote: Remote, plan: CheckoutPlan
) -> PreparedCheckout:
    """Return the task's checkout; create it from the mirror if it does not exist.

    An existing branch of the remote is continued; otherwise it starts at the base branch.
    """
    checkout = Checkout(place, mirror, plan.branch)
    pushed = read_mirror_ref(mirror, f"refs/heads/{plan.branch}")
    if place.path.exists() or place.path.is_symlink():
        require_checkout(place.path)
        return PreparedCheckout(checkout, _recorded_base(checkout), pushed, created=False)
    _, tip = resolve_base(mirror, remote, plan.base_branch)
    start = pushed or tip
    base = _fork_point(mirror, start, tip)
    with _create_atomically(place.path) as new:
        _clone(mirror, new, remote, plan.identity)
        git = Git(new / ".git", new, work_tree=new)
        git("checkout", "--quiet", "--no-track", "-B", plan.branch, start)
        missing = fetch_submodules(new, remote)
        with lock_mirror(mirror) as at_home:
            set_ref(at_home, checkout.ref("base"), base)
    return PreparedCheckout(checkout, base, pushed, created=True, missing_submodules=missing)


def _clone(mirror: Mirror, new: Path, remote: Remote, identity: CommitIdentity) -> None:
    mirror.git()
    settings = {
        "user.name": identity.name,
        "user.email": identity.email,
        "gc.auto": "0",
        "remote.origin.pushurl": NO_PUSH_URL,
    }
    chosen = [part for key, value in settings.items() for part in ("--config", f"{key}={value}")]
    local = Git(None, new.parent, access=RemoteAccess(protocols=frozenset({"file"})))
    local(
        *("clone", "--quiet", "--shared", "--no-checkout", "--template=", *chosen),
        *("--", str(mirror.path), str(new)),
    )
    Git(new / ".git", new)("config", "remote.origin.url", remote.url)


@contextmanager
def _create_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that gets its name when the block succeeds."""
    new = path.with_name(f".{path.name}.new")
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_folder(new)
    try:
        with translate_disk_full(path.parent):
            yield new
        new.rename(path)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _fork_point(mirror: Mirror, start: Sha, tip: Sha) -> Sha:
    """Return where the branch forked from its base; its root if they have no common commit."""
    found = mirror.git()("merge-base", start, tip, accept=(0, 1))
    return parse_sha(found.lines[0]) if found.code == 0 else start


def _recorded_base(checkout: Checkout) -> Sha:
    base = read_mirror_ref(checkout.mirror, checkout.ref("base"))
    if base is None:
        raise CheckoutMissing(
            f"{checkout.path} exists, but is unknown to its mirror.",
            safe="Nothing was touched.",
            remedy="Move the folder away to restart the task.",
        )
    return base


class Freshness(StrEnum):
    """How a checkout's branch compares with the remote's after a refresh."""

    CURRENT = "current"
    FORWARDED = "forwarded"
    DIVERGED = "diverged"
    DIRTY = "dirty"


def refresh_checkout(checkout: Checkout, base_branch: str, ignore: Sequence[str] = ()) -> Freshness:
    """Update `origin/…` refs, and fast-forward to commits added to our branch.

    Only a clean checkout whose head is part of the remote's branch is moved. Anything else is
    for the agent to merge: the objects are there already, it needs no network.
    """
    write_remote_refs(checkout, (base_branch, checkout.branch))
    theirs = read_mirror_ref(checkout.mirror, f"refs/heads/{checkout.branch}")
    with open_view(checkout, ignore) as view:
        own_head = agent_folder.require_on_branch(view.head, checkout.branch)
        agent_folder.require_no_merge(checkout.path)
        if theirs is None or view.is_ancestor(theirs, own_head):
            return Freshness.CURRENT
        if not view.is_ancestor(own_head, theirs):
            return Freshness.DIVERGED
        if find_changes(view.tree, own_head).files:
            return Freshness.DIRTY
        view.tree("read-tree", "-m", "-u", own_head, theirs)
        set_branch_head(view, theirs)
        return Freshness.FORWARDED


def write_remote_refs(checkout: Checkout, branches: Sequence[str]) -> None:
    """Write branches of the mirror into the checkout, as a fetch would."""
    agent_folder.require_checkout(checkout.path)
    for branch in branches:
        commit = read_mirror_ref(checkout.mirror, f"refs/heads/{branch}")
        if commit is not None:
            write_ref(checkout, f"refs/remotes/origin/{branch}", commit)
