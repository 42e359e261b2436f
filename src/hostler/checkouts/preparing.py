"""Making a task's checkout: whole, or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hostler.checkouts.disk import minding_space
from hostler.checkouts.errors import CheckoutMissing
from hostler.checkouts.git import Access, Git
from hostler.checkouts.inspection import require_checkout
from hostler.checkouts.mirror import Mirror, base_of, head_of, set_ref, writing
from hostler.checkouts.names import Sha, checked_branch, sha
from hostler.checkouts.place import Checkout, Identity, Place
from hostler.checkouts.remote import Remote
from hostler.checkouts.removing import remove_folder
from hostler.checkouts.submodules import fill_submodules

# An agent that pushes by itself gets an error that says why.
NO_PUSH = "hostler-pushes-for-you::this-branch"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a task's checkout shall be."""

    branch: str
    base_branch: str
    identity: Identity

    def __post_init__(self) -> None:
        checked_branch(self.branch)
        if self.base_branch:
            checked_branch(self.base_branch)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A checkout that is ready, and where its branch left the base branch.

    `pushed` is the commit that the remote's branch had at that time: None for a new branch.
    """

    checkout: Checkout
    base: Sha
    pushed: Sha | None
    created: bool
    missing_submodules: tuple[str, ...] = ()


def prepare(place: Place, mirror: Mirror, remote: Remote, plan: Plan) -> Prepared:
    """The task's checkout, made from the mirror if it is not there yet.

    A branch that the remote has already is continued; otherwise it starts at the base branch.
    """
    checkout = Checkout(place, mirror, plan.branch)
    pushed = head_of(mirror, f"refs/heads/{plan.branch}")
    if place.path.exists() or place.path.is_symlink():
        require_checkout(place.path)
        return Prepared(checkout, _recorded_base(checkout), pushed, created=False)
    _, tip = base_of(mirror, remote, plan.base_branch)
    start = pushed or tip
    base = _fork_point(mirror, start, tip)
    with _appearing(place.path) as new:
        _clone(mirror, new, remote, plan.identity)
        git = Git(new / ".git", new, work_tree=new)
        git("checkout", "--quiet", "--no-track", "-B", plan.branch, start)
        missing = fill_submodules(new, remote)
        with writing(mirror) as at_home:
            set_ref(at_home, checkout.ref("base"), base)
    return Prepared(checkout, base, pushed, created=True, missing_submodules=missing)


def _clone(mirror: Mirror, new: Path, remote: Remote, identity: Identity) -> None:
    mirror.git()
    settings = {
        "user.name": identity.name,
        "user.email": identity.email,
        "gc.auto": "0",
        "remote.origin.pushurl": NO_PUSH,
    }
    chosen = [part for key, value in settings.items() for part in ("--config", f"{key}={value}")]
    local = Git(None, new.parent, access=Access(protocols=frozenset({"file"})))
    local(
        *("clone", "--quiet", "--shared", "--no-checkout", "--template=", *chosen),
        *("--", str(mirror.path), str(new)),
    )
    Git(new / ".git", new)("config", "remote.origin.url", remote.url)


@contextmanager
def _appearing(path: Path) -> Iterator[Path]:
    """A folder to fill, which gets its name when the block has ended well."""
    new = path.with_name(f".{path.name}.new")
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_folder(new)
    try:
        with minding_space(path.parent):
            yield new
        new.rename(path)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _fork_point(mirror: Mirror, start: Sha, tip: Sha) -> Sha:
    """Where the branch left its base; its own start if the two have nothing in common."""
    found = mirror.git()("merge-base", start, tip, accept=(0, 1))
    return sha(found.lines[0]) if found.code == 0 else start


def _recorded_base(checkout: Checkout) -> Sha:
    base = head_of(checkout.mirror, checkout.ref("base"))
    if base is None:
        raise CheckoutMissing(
            f"{checkout.path} is there, but not known to its mirror.",
            safe="Nothing was touched.",
            remedy="Move the folder away to start the task anew.",
        )
    return base
