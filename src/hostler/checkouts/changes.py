"""What the files of a checkout hold beyond its head, and putting that into a commit of ours."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from hostler.checkouts.errors import FilesTooLarge
from hostler.checkouts.git import Git
from hostler.checkouts.mirror import Mirror
from hostler.checkouts.names import Sha, sha
from hostler.checkouts.place import Identity
from hostler.checkouts.view import View

LARGEST_FILE = 100_000_000
# How the index lists a submodule.
GITLINK = "160000 "


@dataclass(frozen=True, slots=True)
class Changes:
    """Files that differ from the head, and repositories inside the checkout, left alone."""

    files: tuple[str, ...]
    nested: tuple[str, ...]


def look(git: Git, head: Sha) -> Changes:
    """Compare the files with a commit, through an index of ours.

    The plumbing is used on purpose: `git status` and `git add` start another git inside
    submodules, and that one would read the submodule's settings.
    """
    git("read-tree", head)
    git("update-index", "-q", "--refresh", accept=(0, 1))
    listed = git("ls-files", "-z", "-o", "-m", "-d", "--exclude-standard").items
    nested = {path for path in listed if path.endswith("/")} | _usurped(git, listed)
    return Changes(tuple(sorted({*listed} - nested)), tuple(sorted(nested)))


def _usurped(git: Git, listed: Sequence[str]) -> set[str]:
    """Files whose place was taken by a repository: git would record those as submodules."""
    taken = {path for path in listed if _is_repository(git.place / path)}
    if not taken:
        return taken
    entries = git("ls-files", "-s", "-z").items
    return taken - {entry.split("\t", 1)[1] for entry in entries if entry.startswith(GITLINK)}


def record(git: Git, changes: Changes) -> Sha:
    """Write the changed files into the index; the tree that results."""
    here = {path for path in changes.files if _is_there(git.place, path)}
    gone = [path for path in changes.files if path not in here]
    if gone:
        git("update-index", "-z", "--force-remove", "--stdin", stdin=_listed(gone))
    git("update-index", "-z", "--add", "--replace", "--stdin", stdin=_listed(sorted(here)))
    return sha(git("write-tree").text)


def require_sizes(root: Path, files: Sequence[str]) -> None:
    """Nothing larger than a code host takes may be committed."""
    large = [file for file in files if _size(root / file) > LARGEST_FILE]
    if large:
        raise FilesTooLarge(large, LARGEST_FILE)


def commit_changes(
    view: View, parent: Sha, message: str, identity: Identity, *, earlier: str
) -> tuple[Sha, Changes]:
    """A commit in the view with everything that changed; the parent if nothing did.

    `earlier` names refs of the mirror: a commit there with the same parent and tree was made
    by a run of this step that was cut off, and is used again.
    """
    changes = look(view.tree, parent)
    require_sizes(view.checkout.path, changes.files)
    if not changes.files:
        return parent, changes
    tree = record(view.tree, changes)
    if tree == view.git("rev-parse", f"{parent}^{{tree}}").text:
        return parent, replace(changes, files=())
    made = _made_before(view.checkout.mirror, earlier, parent, tree)
    if made is None:
        git = replace(view.git, env=identity.as_variables())
        text = _checked(message).encode("utf-8", "replace")
        made = sha(git("commit-tree", tree, "-p", parent, "-F", "-", stdin=text).text)
    return made, changes


def _made_before(mirror: Mirror, refs: str, parent: Sha, tree: str) -> Sha | None:
    listed = mirror.git()("for-each-ref", "--format=%(objectname) %(tree) %(parent)", refs).lines
    wanted = f" {tree} {parent}"
    return next((sha(line.split()[0]) for line in listed if line.endswith(wanted)), None)


def _checked(message: str) -> str:
    text = message.replace("\0", "").strip()
    if not text:
        raise ValueError("a commit needs a message")
    return f"{text}\n"


def _listed(paths: Sequence[str]) -> bytes:
    return "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")


def _is_there(root: Path, path: str) -> bool:
    """Whether a file can be recorded: it exists, not beyond a link, and is no mere folder."""
    folders = PurePosixPath(path).parents
    if any((root / folder).is_symlink() for folder in folders if folder.name):
        return False
    file = root / path
    if file.is_dir() and not file.is_symlink():
        return _is_repository(file)
    return os.path.lexists(file)


def _is_repository(path: Path) -> bool:
    return not path.is_symlink() and path.is_dir() and os.path.lexists(path / ".git")


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
