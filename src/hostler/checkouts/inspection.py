"""What an agent's `.git` says, read as plain files: no git runs in there."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from hostler.checkouts import beneath
from hostler.checkouts.errors import (
    BranchDeleted,
    CheckoutMissing,
    CheckoutTampered,
    DetachedHead,
    UnfinishedMerge,
    WrongBranch,
)
from hostler.checkouts.names import Sha, is_branch, sha

SMALL = 4096
PACKED_REFS_LIMIT = 64 * 1024 * 1024
STASH_LOG_LIMIT = 1024 * 1024
# Far above what a task adds; a pack that fills the disk is refused before it is read.
OBJECTS_LIMIT = 4 * 1024 * 1024 * 1024
_UNFINISHED = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}


@dataclass(frozen=True, slots=True)
class Head:
    """Where HEAD is: on a branch (perhaps one without a commit), or on a commit alone."""

    branch: str | None
    commit: Sha | None


def require_checkout(path: Path) -> None:
    """There must be a folder with a `.git` folder, neither of them a link."""
    if not path.exists() and not path.is_symlink():
        raise CheckoutMissing(
            f"There is no checkout at {path}.",
            remedy="Start the task again: a new one is made from what was pushed.",
        )
    if not beneath.exists(path, ".git"):
        raise CheckoutTampered(path, "its .git is gone")
    with beneath.folder(path, (".git",)):
        pass


def head(path: Path) -> Head:
    """HEAD of a checkout."""
    text = _text(path, "HEAD")
    if text is None:
        raise CheckoutTampered(path, ".git/HEAD is gone")
    if not text.startswith("ref:"):
        return Head(None, _commit(path, "HEAD", text))
    ref = text.removeprefix("ref:").strip()
    if not ref.startswith("refs/heads/") or not is_branch(ref.removeprefix("refs/heads/")):
        raise CheckoutTampered(path, "HEAD names no branch")
    return Head(ref.removeprefix("refs/heads/"), commit_of(path, ref))


def commit_of(path: Path, ref: str) -> Sha | None:
    """The commit of one ref; None if there is no such ref."""
    text = _text(path, *ref.split("/"))
    return _packed(path, ".git").get(ref) if text is None else _commit(path, ref, text)


def local_refs(path: Path) -> dict[str, Sha]:
    """Every branch, tag and stash of a checkout."""
    refs = {
        ref: commit
        for ref, commit in _packed(path, ".git").items()
        if ref.startswith(("refs/heads/", "refs/tags/"))
    }
    for space in ("heads", "tags"):
        for parts, _ in beneath.files(path, ".git", "refs", space):
            ref = "/".join(("refs", space, *parts))
            if is_branch(ref) and (found := commit_of(path, ref)):
                refs[ref] = found
    return refs | _stashes(path)


def _stashes(path: Path) -> dict[str, Sha]:
    """Only the newest stash is a ref; the others are lines of its log."""
    newest = commit_of(path, "refs/stash")
    if newest is None:
        return {}
    log = beneath.read(path, ".git", "logs", "refs", "stash", limit=STASH_LOG_LIMIT) or b""
    lines = [line.split(" ") for line in log.decode("utf-8", "replace").splitlines()]
    found = [_commit(path, "the log of stashes", line[1]) for line in lines if len(line) > 1]
    older = {f"stash@{{{age}}}": commit for age, commit in enumerate(reversed(found))}
    return {"refs/stash": newest} | older


def fetched_refs(path: Path, *git_dir: str) -> set[Sha]:
    """The commits that a repository below a checkout has seen on its remotes."""
    commits = {
        commit for ref, commit in _packed(path, *git_dir).items() if ref.startswith("refs/remotes/")
    }
    for parts, _ in beneath.files(path, *git_dir, "refs", "remotes"):
        data = beneath.read(path, *git_dir, "refs", "remotes", *parts, limit=SMALL) or b""
        if not data.startswith(b"ref:"):
            commits.add(_commit(path, "a submodule's ref", data.decode("utf-8", "replace").strip()))
    return commits


def require_branch(found: Head, branch: str) -> Sha:
    """The head's commit, if HEAD is on the task's branch."""
    if found.branch is None:
        raise DetachedHead(branch, found.commit or "")
    if found.branch != branch:
        raise WrongBranch(branch, found.branch)
    if found.commit is None:
        raise BranchDeleted(branch)
    return found.commit


def require_finished(path: Path) -> None:
    """No merge or the like may be half done."""
    for name, operation in _UNFINISHED.items():
        if beneath.exists(path, ".git", name):
            raise UnfinishedMerge(operation)


def require_objects(path: Path, mirror_objects: Path) -> Path:
    """The folder of a checkout's objects, if it holds plain files and borrows from us alone."""
    total = 0
    for parts, found in beneath.files(path, ".git", "objects"):
        if not stat.S_ISREG(found.st_mode):
            raise CheckoutTampered(path, f"objects/{'/'.join(parts)} is not a plain file")
        total += found.st_size
    if total > OBJECTS_LIMIT:
        raise CheckoutTampered(path, f"its objects have {total} bytes")
    borrowed = _text(path, "objects", "info", "alternates")
    if borrowed != str(mirror_objects):
        raise CheckoutTampered(path, "its objects are borrowed from elsewhere")
    return path / ".git" / "objects"


def _packed(path: Path, *git_dir: str) -> dict[str, Sha]:
    data = beneath.read(path, *git_dir, "packed-refs", limit=PACKED_REFS_LIMIT) or b""
    refs: dict[str, Sha] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        commit, _, ref = line.partition(" ")
        if ref and not line.startswith(("#", "^")):
            refs[ref] = _commit(path, "packed-refs", commit)
    return refs


def _text(path: Path, *parts: str) -> str | None:
    data = beneath.read(path, ".git", *parts, limit=SMALL)
    return None if data is None else data.decode("utf-8", "replace").strip()


def _commit(path: Path, where: str, text: str) -> Sha:
    try:
        return sha(text)
    except ValueError:
        raise CheckoutTampered(path, f"{where} holds no commit") from None
