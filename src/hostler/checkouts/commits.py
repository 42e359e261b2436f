"""Uncommitted changes of a checkout: find them, commit them, and compare with the remote."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from hostler.checkouts import agent_folder
from hostler.checkouts.agent_folder import CheckoutHead
from hostler.checkouts.checkout import (
    Checkout,
    CheckoutView,
    CommitIdentity,
    fetch_into_mirror,
    open_view,
)
from hostler.checkouts.errors import FilesTooLarge
from hostler.checkouts.git import Git
from hostler.checkouts.mirror import Mirror, read_mirror_ref
from hostler.checkouts.names import Sha, parse_sha

MAX_FILE_BYTES = 100_000_000
# How the index lists a submodule.
GITLINK_MODE = "160000 "


@dataclass(frozen=True, slots=True)
class WorkTreeChanges:
    """Files that differ from the head, and nested repositories, which are not changed."""

    files: tuple[str, ...]
    nested: tuple[str, ...]


def find_changes(git: Git, head: Sha) -> WorkTreeChanges:
    """Compare the files with a commit, through a separate index.

    `git status` and `git add` are not used: they start another git inside submodules, which
    would read the submodule's settings.
    """
    git("read-tree", head)
    git("update-index", "-q", "--refresh", accept=(0, 1))
    listed = git("ls-files", "-z", "-o", "-m", "-d", "--exclude-standard").items
    nested = {path for path in listed if path.endswith("/")} | _replaced_by_repo(git, listed)
    return WorkTreeChanges(tuple(sorted({*listed} - nested)), tuple(sorted(nested)))


def _replaced_by_repo(git: Git, listed: Sequence[str]) -> set[str]:
    """Return files that were replaced by a repository: git would record those as submodules."""
    taken = {path for path in listed if _is_repository(git.place / path)}
    if not taken:
        return taken
    entries = git("ls-files", "-s", "-z").items
    return taken - {entry.split("\t", 1)[1] for entry in entries if entry.startswith(GITLINK_MODE)}


def write_tree(git: Git, changes: WorkTreeChanges) -> Sha:
    """Write the changed files into the index. Return the resulting tree."""
    here = {path for path in changes.files if _is_recordable(git.place, path)}
    gone = [path for path in changes.files if path not in here]
    if gone:
        git("update-index", "-z", "--force-remove", "--stdin", stdin=_join_paths(gone))
    git("update-index", "-z", "--add", "--replace", "--stdin", stdin=_join_paths(sorted(here)))
    return parse_sha(git("write-tree").text)


def require_sizes(root: Path, files: Sequence[str]) -> None:
    """Raise if a file is larger than code hosts accept."""
    large = [file for file in files if _file_size(root / file) > MAX_FILE_BYTES]
    if large:
        raise FilesTooLarge(large, MAX_FILE_BYTES)


def commit_changes(
    view: CheckoutView, parent: Sha, message: str, identity: CommitIdentity, *, earlier: str
) -> tuple[Sha, WorkTreeChanges]:
    """Commit all changes in the view. Return the parent if nothing changed.

    `earlier` names refs of the mirror: a commit there with the same parent and tree was made
    by an interrupted run of this step and is used again.
    """
    changes = find_changes(view.tree, parent)
    require_sizes(view.checkout.path, changes.files)
    if not changes.files:
        return parent, changes
    tree = write_tree(view.tree, changes)
    if tree == view.git("rev-parse", f"{parent}^{{tree}}").text:
        return parent, replace(changes, files=())
    made = _find_earlier_commit(view.checkout.mirror, earlier, parent, tree)
    if made is None:
        git = replace(view.git, env=identity.as_variables())
        text = _clean_message(message).encode("utf-8", "replace")
        made = parse_sha(git("commit-tree", tree, "-p", parent, "-F", "-", stdin=text).text)
    return made, changes


def _find_earlier_commit(mirror: Mirror, refs: str, parent: Sha, tree: str) -> Sha | None:
    listed = mirror.git()("for-each-ref", "--format=%(objectname) %(tree) %(parent)", refs).lines
    wanted = f" {tree} {parent}"
    return next((parse_sha(line.split()[0]) for line in listed if line.endswith(wanted)), None)


def _clean_message(message: str) -> str:
    text = message.replace("\0", "").strip()
    if not text:
        raise ValueError("a commit needs a message")
    return f"{text}\n"


def _join_paths(paths: Sequence[str]) -> bytes:
    return "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")


def _is_recordable(root: Path, path: str) -> bool:
    """Return whether a file can be committed: it exists, not behind a link, and is not a folder."""
    folders = PurePosixPath(path).parents
    if any((root / folder).is_symlink() for folder in folders if folder.name):
        return False
    file = root / path
    if file.is_dir() and not file.is_symlink():
        return _is_repository(file)
    return os.path.lexists(file)


def _is_repository(path: Path) -> bool:
    return not path.is_symlink() and path.is_dir() and os.path.lexists(path / ".git")


def _file_size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


@dataclass(frozen=True, slots=True)
class CommitDistance:
    """How many commits only the checkout has, and how many only the remote branch has."""

    ahead: int
    behind: int


@dataclass(frozen=True, slots=True)
class CheckoutStatus:
    """The state of a checkout. A distance is None if one of the two ends is missing."""

    head: CheckoutHead
    dirty: tuple[str, ...]
    nested: tuple[str, ...]
    from_base: CommitDistance | None
    from_remote: CommitDistance | None


def read_status(checkout: Checkout, base_branch: str, ignore: Sequence[str] = ()) -> CheckoutStatus:
    """Read the state of a checkout; the remote's branches are those of the last fetch."""
    with open_view(checkout, ignore) as view:
        start = view.head.commit or read_mirror_ref(checkout.mirror, checkout.ref("base"))
        changes = find_changes(view.tree, start) if start else None
        return CheckoutStatus(
            head=view.head,
            dirty=changes.files if changes else (),
            nested=changes.nested if changes else (),
            from_base=_count_distance(
                view, read_mirror_ref(checkout.mirror, f"refs/heads/{base_branch}")
            ),
            from_remote=_count_distance(
                view, read_mirror_ref(checkout.mirror, f"refs/heads/{checkout.branch}")
            ),
        )


def _count_distance(view: CheckoutView, other: Sha | None) -> CommitDistance | None:
    if view.head.commit is None or other is None:
        return None
    counts = view.git("rev-list", "--left-right", "--count", f"{view.head.commit}...{other}").text
    ahead, behind = counts.split()
    return CommitDistance(int(ahead), int(behind))


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The head after committing; `files` is empty if there was nothing to commit."""

    head: Sha
    files: tuple[str, ...]
    left_out: tuple[str, ...]


def commit_all(
    checkout: Checkout, message: str, identity: CommitIdentity, ignore: Sequence[str] = ()
) -> CommitResult:
    """Commit every changed file that git does not ignore, on top of the task's branch."""
    with open_view(checkout, ignore) as view:
        head = agent_folder.require_on_branch(view.head, checkout.branch)
        agent_folder.require_no_merge(checkout.path)
        sealed = checkout.ref("sealed")
        made, changes = commit_changes(view, head, message, identity, earlier=sealed)
        if made != head:
            fetch_into_mirror(view, {sealed: made})
            set_branch_head(view, made)
        return CommitResult(made, changes.files, changes.nested)


def save_snapshot(
    checkout: Checkout, message: str, identity: CommitIdentity, ignore: Sequence[str] = ()
) -> Sha:
    """Save everything in the mirror, wherever HEAD is. The checkout is not changed."""
    with open_view(checkout, ignore) as view:
        parent = view.head.commit or _last_known_commit(view)
        kept = checkout.ref("kept")
        made, _ = commit_changes(view, parent, message, identity, earlier=kept)
        fetch_into_mirror(view, {checkout.place.kept_ref(made): made})
        return made


def set_branch_head(view: CheckoutView, commit: Sha) -> None:
    """Move the checkout's branch and index to a commit that its files already match.

    The index first: after a crash between the two, the checkout shows the same changes as
    staged, and the next attempt finds the same commit.
    """
    path, branch = view.checkout.path, view.checkout.branch
    agent_folder.write_file(path, ".git", "index", data=view.index.read_bytes())
    agent_folder.remove_file(path, ".git", "index.lock")
    write_ref(view.checkout, f"refs/heads/{branch}", commit)


def write_ref(checkout: Checkout, ref: str, commit: Sha) -> None:
    """Write one ref of a checkout."""
    agent_folder.write_file(checkout.path, ".git", *ref.split("/"), data=f"{commit}\n".encode())


def _last_known_commit(view: CheckoutView) -> Sha:
    """Return the last known commit of a deleted branch."""
    listed = view.checkout.mirror.git()(
        *("for-each-ref", "--format=%(objectname)"),
        *(view.checkout.ref(kind) for kind in ("heads", "base")),
    ).lines
    return Sha(listed[-1])
