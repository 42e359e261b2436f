"""A task's checkout, its refs in the mirror, and a temporary repository to read it.

Git runs in that temporary repository and never in the agent's own `.git`, so that no setting,
hook, filter or index of the agent is used.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from hostler.checkouts import agent_folder
from hostler.checkouts.agent_folder import translate_disk_full
from hostler.checkouts.git import Git, RemoteAccess
from hostler.checkouts.mirror import Mirror, create_bare_repo, lock_mirror
from hostler.checkouts.names import Sha, require_branch_name, require_path_component

PUSHED_REFS = "refs/hostler/pushed/"
KEPT_REFS = "refs/hostler/kept/"


@dataclass(frozen=True, slots=True)
class CheckoutLocation:
    """A task's folder: `<checkouts>/<project>/<task>`."""

    checkouts: Path
    project: str
    task: str

    def __post_init__(self) -> None:
        require_path_component(self.project)
        require_path_component(self.task)

    @property
    def path(self) -> Path:
        return self.checkouts / self.project / self.task

    def ref(self, kind: str) -> str:
        """Return one of the task's refs in the mirror."""
        return f"refs/hostler/{kind}/{self.project}/{self.task}"

    def kept_ref(self, commit: Sha) -> str:
        """Return the ref that keeps work after its checkout is removed."""
        return f"{self.ref('kept')}/{commit[:12]}"


@dataclass(frozen=True, slots=True)
class Checkout:
    """A task's checkout, its mirror and its branch."""

    place: CheckoutLocation
    mirror: Mirror
    branch: str

    def __post_init__(self) -> None:
        require_branch_name(self.branch)

    @property
    def path(self) -> Path:
        return self.place.path

    def ref(self, kind: str) -> str:
        return self.place.ref(kind)


@dataclass(frozen=True, slots=True)
class CommitIdentity:
    """The author of commits."""

    name: str
    email: str

    def __post_init__(self) -> None:
        for text in (self.name, self.email):
            if not text.strip() or set(text) & set("<>\n\r\0"):
                raise ValueError(f"not usable as a committer's name or address: {text!r}")

    def as_variables(self) -> dict[str, str]:
        return {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", self.name), ("EMAIL", self.email))
        }


_LOCAL_ACCESS = RemoteAccess(protocols=frozenset({"file"}))
# Check every object that is fetched from an agent.
_STRICT_FETCH = (("fetch.fsckObjects", "true"), ("fetch.unpackLimit", "1"))


@dataclass(frozen=True, slots=True)
class CheckoutView:
    """An open view of a checkout."""

    path: Path
    checkout: Checkout
    head: agent_folder.CheckoutHead

    @property
    def index(self) -> Path:
        return self.path / "index"

    @property
    def git(self) -> Git:
        """Return git with the agent's objects, but without its files."""
        return Git(self.path, self.path)

    @property
    def tree(self) -> Git:
        """Return git with the agent's objects and files, and a separate index."""
        return self.git.over(self.checkout.path, self.index)

    def is_ancestor(self, older: Sha, newer: Sha) -> bool:
        return self.git("merge-base", "--is-ancestor", older, newer, accept=(0, 1)).code == 0


@contextlib.contextmanager
def open_view(checkout: Checkout, ignore: Sequence[str] = ()) -> Iterator[CheckoutView]:
    """Open a view of a checkout; `ignore` are patterns of files to leave out."""
    agent_folder.require_checkout(checkout.path)
    head = agent_folder.read_head(checkout.path)
    own = agent_folder.require_objects(checkout.path, checkout.mirror.objects)
    objects, views = (checkout.mirror.objects, own), checkout.mirror.views
    with translate_disk_full(views), open_bare_repo(objects, views, ignore) as path:
        yield CheckoutView(path, checkout, head)


@contextlib.contextmanager
def open_bare_repo(
    objects: Sequence[Path], views: Path, ignore: Sequence[str] = ()
) -> Iterator[Path]:
    """Yield a temporary bare repository that borrows these objects."""
    views.mkdir(exist_ok=True)
    remove_stale_views(views)
    path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=views)) / "view.git"
    try:
        create_bare_repo(path)
        for folder in ("info", "objects/info"):
            (path / folder).mkdir()
        (path / "info" / "exclude").write_text("".join(f"{line}\n" for line in ignore))
        (path / "objects" / "info" / "alternates").write_text(
            "".join(f"{folder}\n" for folder in objects)
        )
        yield path
    finally:
        shutil.rmtree(path.parent, ignore_errors=True)


def fetch_into_mirror(view: CheckoutView, commits: Mapping[str, Sha]) -> None:
    """Fetch commits from a view into refs of the mirror; check every object."""
    (view.path / "refs" / "take").mkdir(exist_ok=True)
    specs = []
    for number, (ref, commit) in enumerate(commits.items()):
        (view.path / "refs" / "take" / str(number)).write_text(f"{commit}\n")
        specs.append(f"+refs/take/{number}:{ref}")
    with lock_mirror(view.checkout.mirror) as git:
        strict = replace(git, config=_STRICT_FETCH).using(_LOCAL_ACCESS)
        strict("fetch", "--quiet", "--no-write-fetch-head", "--no-tags", str(view.path), *specs)


def fetch_task_head(checkout: Checkout) -> Sha:
    """Fetch the head of the task's branch into the mirror, without uncommitted changes."""
    with open_view(checkout) as view:
        head = agent_folder.require_on_branch(view.head, checkout.branch)
        agent_folder.require_no_merge(checkout.path)
        fetch_into_mirror(view, {checkout.ref("heads"): head})
        return head


def remove_stale_views(views: Path) -> None:
    """Remove views of killed processes."""
    for old in views.iterdir():
        owner = old.name.partition("-")[0]
        if not owner.isdecimal() or not psutil.pid_exists(int(owner)):
            shutil.rmtree(old, ignore_errors=True)
