"""A repository of ours over an agent's objects and files, for the length of one command.

Git runs here, never in the agent's own `.git`: no setting, hook, filter or index of the agent
is read.
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

from hostler.checkouts import inspection
from hostler.checkouts.disk import minding_space
from hostler.checkouts.git import Access, Git
from hostler.checkouts.mirror import make_bare, writing
from hostler.checkouts.names import Sha
from hostler.checkouts.place import Checkout

_LOCAL = Access(protocols=frozenset({"file"}))
# What is fetched from an agent is checked object by object.
_STRICT = (("fetch.fsckObjects", "true"), ("fetch.unpackLimit", "1"))


@dataclass(frozen=True, slots=True)
class View:
    """An open view of a checkout."""

    path: Path
    checkout: Checkout
    head: inspection.Head

    @property
    def index(self) -> Path:
        return self.path / "index"

    @property
    def git(self) -> Git:
        """Git with the agent's objects, but without its files."""
        return Git(self.path, self.path)

    @property
    def tree(self) -> Git:
        """Git with the agent's objects and files, and an index of ours."""
        return self.git.over(self.checkout.path, self.index)

    def is_ancestor(self, older: Sha, newer: Sha) -> bool:
        return self.git("merge-base", "--is-ancestor", older, newer, accept=(0, 1)).code == 0


@contextlib.contextmanager
def viewing(checkout: Checkout, ignore: Sequence[str] = ()) -> Iterator[View]:
    """Look at a checkout; `ignore` are patterns of files that are no work."""
    inspection.require_checkout(checkout.path)
    head = inspection.head(checkout.path)
    own = inspection.require_objects(checkout.path, checkout.mirror.objects)
    objects, views = (checkout.mirror.objects, own), checkout.mirror.views
    with minding_space(views), bare_over(objects, views, ignore) as path:
        yield View(path, checkout, head)


@contextlib.contextmanager
def bare_over(objects: Sequence[Path], views: Path, ignore: Sequence[str] = ()) -> Iterator[Path]:
    """A bare repository of ours that borrows these objects; gone after the block."""
    views.mkdir(exist_ok=True)
    drop_debris(views)
    path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=views)) / "view.git"
    try:
        make_bare(path)
        for folder in ("info", "objects/info"):
            (path / folder).mkdir()
        (path / "info" / "exclude").write_text("".join(f"{line}\n" for line in ignore))
        (path / "objects" / "info" / "alternates").write_text(
            "".join(f"{folder}\n" for folder in objects)
        )
        yield path
    finally:
        shutil.rmtree(path.parent, ignore_errors=True)


def bring_home(view: View, commits: Mapping[str, Sha]) -> None:
    """Fetch commits from a view into refs of the mirror, every object checked."""
    (view.path / "refs" / "take").mkdir(exist_ok=True)
    specs = []
    for number, (ref, commit) in enumerate(commits.items()):
        (view.path / "refs" / "take" / str(number)).write_text(f"{commit}\n")
        specs.append(f"+refs/take/{number}:{ref}")
    with writing(view.checkout.mirror) as git:
        strict = replace(git, config=_STRICT).using(_LOCAL)
        strict("fetch", "--quiet", "--no-write-fetch-head", "--no-tags", str(view.path), *specs)


def take(checkout: Checkout) -> Sha:
    """Bring the head of the task's branch into the mirror; nothing uncommitted comes along."""
    with viewing(checkout) as view:
        head = inspection.require_branch(view.head, checkout.branch)
        inspection.require_finished(checkout.path)
        bring_home(view, {checkout.ref("heads"): head})
        return head


def drop_debris(views: Path) -> None:
    """Remove views of processes that were killed."""
    for old in views.iterdir():
        owner = old.name.partition("-")[0]
        if not owner.isdecimal() or not psutil.pid_exists(int(owner)):
            shutil.rmtree(old, ignore_errors=True)
