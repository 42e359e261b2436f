"""Access a folder that an agent can write, without following links or running git in it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from hostler.checkouts.errors import (
    BranchDeleted,
    CheckoutMissing,
    CheckoutTampered,
    DetachedHead,
    DiskFull,
    UnfinishedMerge,
    WrongBranch,
)
from hostler.checkouts.names import Sha, is_branch_name, parse_sha

_DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextlib.contextmanager
def translate_disk_full(place: Path) -> Iterator[None]:
    """Raise `DiskFull` for operating system errors about a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_FULL_ERRNOS:
            raise
        raise DiskFull(place) from None


_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Do not block if the file is a FIFO.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_REFUSED_KINDS = {
    errno.ELOOP: "a link",
    errno.ENOTDIR: "something that is no folder",
    errno.EISDIR: "a folder",
    errno.EACCES: "something that we may not open",
}


@contextlib.contextmanager
def _refuse_links(root: Path, parts: Sequence[str]) -> Iterator[None]:
    """Translate operating system errors about links and file types into `CheckoutTampered`."""
    try:
        yield
    except OSError as error:
        kind = _REFUSED_KINDS.get(error.errno or 0)
        if kind is None:
            raise
        raise CheckoutTampered(root, f"{'/'.join(parts) or 'it'} is or lies in {kind}") from None


@contextlib.contextmanager
def open_folder(root: Path, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """Open a folder, following no links at any level."""
    with contextlib.ExitStack() as opened:
        with _refuse_links(root, parts):
            here = os.open(root, _FOLDER_FLAGS)
            opened.callback(os.close, here)
            for part in parts:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=here)
                here = os.open(part, _FOLDER_FLAGS, dir_fd=here)
                opened.callback(os.close, here)
        yield here


def read_file(root: Path, *parts: str, limit: int) -> bytes | None:
    """Return the content of a small regular file, or None if it does not exist."""
    with contextlib.suppress(FileNotFoundError), open_folder(root, parts[:-1]) as here:
        with _refuse_links(root, parts):
            opened = os.open(parts[-1], _FILE_FLAGS, dir_fd=here)
        with os.fdopen(opened, "rb") as file:
            found = os.fstat(opened)
            if not stat.S_ISREG(found.st_mode):
                raise CheckoutTampered(root, f"{'/'.join(parts)} is not a regular file")
            if found.st_size > limit:
                raise CheckoutTampered(root, f"{'/'.join(parts)} is larger than {limit} bytes")
            return file.read(limit)
    return None


def write_file(root: Path, *parts: str, data: bytes) -> None:
    """Write a regular file atomically; a link at its path is replaced."""
    temporary = f".hostler-{uuid4().hex}"
    with (
        translate_disk_full(root),
        open_folder(root, parts[:-1], create=True) as here,
        _refuse_links(root, parts),
    ):
        try:
            with os.fdopen(os.open(temporary, _NEW_FILE_FLAGS, 0o644, dir_fd=here), "wb") as file:
                file.write(data)
            os.rename(temporary, parts[-1], src_dir_fd=here, dst_dir_fd=here)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=here)
            raise


def remove_file(root: Path, *parts: str) -> None:
    """Remove a file if it exists."""
    with contextlib.suppress(FileNotFoundError), open_folder(root, parts[:-1]) as here:
        os.unlink(parts[-1], dir_fd=here)


def has_entry(root: Path, *parts: str) -> bool:
    """Return whether an entry of any type has this name."""
    with contextlib.suppress(FileNotFoundError), open_folder(root, parts[:-1]) as here:
        os.lstat(parts[-1], dir_fd=here)
        return True
    return False


def list_files(root: Path, *parts: str) -> Iterator[tuple[tuple[str, ...], os.stat_result]]:
    """Return the relative paths of all entries below a folder that are not folders."""
    with contextlib.suppress(FileNotFoundError), open_folder(root, parts) as here:
        for path, folders, names, place in os.fwalk(".", dir_fd=here, follow_symlinks=False):
            # A link to a folder is listed among the folders.
            for name in (*names, *folders):
                found = os.lstat(name, dir_fd=place)
                if not stat.S_ISDIR(found.st_mode):
                    yield (*Path(path).parts, name), found


def remove_folder(path: Path) -> None:
    """Rename a folder away, then delete it, so that its name is free even after a crash."""
    if not os.path.lexists(path):
        return
    trash = path.with_name(f".{path.name.lstrip('.')}.{uuid4().hex}.trash")
    path.rename(trash)
    empty_trash(path.parent)


def empty_trash(folder: Path) -> None:
    """Delete folders that were renamed away, also by a killed process."""
    for trash in folder.glob(".*.trash"):
        if trash.is_symlink() or not trash.is_dir():
            trash.unlink(missing_ok=True)
            continue
        _make_writable(trash)
        shutil.rmtree(trash, ignore_errors=True)


def _make_writable(folder: Path) -> None:
    """Make folders writable that tools left read-only; links are not followed."""
    for _, folders, _, here in os.fwalk(folder, follow_symlinks=False):
        os.fchmod(here, stat.S_IRWXU)
        for name in folders:
            with contextlib.suppress(OSError):
                if stat.S_ISDIR(os.lstat(name, dir_fd=here).st_mode):
                    os.chmod(name, stat.S_IRWXU, dir_fd=here)


MAX_SMALL_FILE_BYTES = 4096
MAX_PACKED_REFS_BYTES = 64 * 1024 * 1024
MAX_STASH_LOG_BYTES = 1024 * 1024
# Far more than a task adds; a pack that fills the disk is rejected before it is read.
MAX_OBJECTS_BYTES = 4 * 1024 * 1024 * 1024
_OPERATIONS = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}


@dataclass(frozen=True, slots=True)
class CheckoutHead:
    """Where HEAD is: on a branch (possibly without a commit), or on a detached commit."""

    branch: str | None
    commit: Sha | None


def require_checkout(path: Path) -> None:
    """Raise unless there is a folder with a `.git` folder, and neither is a link."""
    if not path.exists() and not path.is_symlink():
        raise CheckoutMissing(
            f"There is no checkout at {path}.",
            remedy="Restart the task: a new one is created from what was pushed.",
        )
    if not has_entry(path, ".git"):
        raise CheckoutTampered(path, "its .git is gone")
    with open_folder(path, (".git",)):
        pass


def read_head(path: Path) -> CheckoutHead:
    """Return the HEAD of a checkout."""
    text = _read_git_file(path, "HEAD")
    if text is None:
        raise CheckoutTampered(path, ".git/HEAD is gone")
    if not text.startswith("ref:"):
        return CheckoutHead(None, _parse_commit(path, "HEAD", text))
    ref = text.removeprefix("ref:").strip()
    if not ref.startswith("refs/heads/") or not is_branch_name(ref.removeprefix("refs/heads/")):
        raise CheckoutTampered(path, "HEAD names no branch")
    return CheckoutHead(ref.removeprefix("refs/heads/"), read_ref(path, ref))


def read_ref(path: Path, ref: str) -> Sha | None:
    """Return the commit of one ref, or None."""
    text = _read_git_file(path, *ref.split("/"))
    return (
        _read_packed_refs(path, ".git").get(ref) if text is None else _parse_commit(path, ref, text)
    )


def read_local_refs(path: Path) -> dict[str, Sha]:
    """Return every branch, tag and stash of a checkout."""
    refs = {
        ref: commit
        for ref, commit in _read_packed_refs(path, ".git").items()
        if ref.startswith(("refs/heads/", "refs/tags/"))
    }
    for space in ("heads", "tags"):
        for parts, _ in list_files(path, ".git", "refs", space):
            ref = "/".join(("refs", space, *parts))
            if is_branch_name(ref) and (found := read_ref(path, ref)):
                refs[ref] = found
    return refs | _read_stashes(path)


def _read_stashes(path: Path) -> dict[str, Sha]:
    """Only the newest stash is a ref; the others are lines of its log."""
    newest = read_ref(path, "refs/stash")
    if newest is None:
        return {}
    log = read_file(path, ".git", "logs", "refs", "stash", limit=MAX_STASH_LOG_BYTES) or b""
    lines = [line.split(" ") for line in log.decode("utf-8", "replace").splitlines()]
    found = [_parse_commit(path, "the log of stashes", line[1]) for line in lines if len(line) > 1]
    older = {f"stash@{{{age}}}": commit for age, commit in enumerate(reversed(found))}
    return {"refs/stash": newest} | older


def read_remote_commits(path: Path, *git_dir: str) -> set[Sha]:
    """Return the commits that a nested repository has seen on its remotes."""
    commits = {
        commit
        for ref, commit in _read_packed_refs(path, *git_dir).items()
        if ref.startswith("refs/remotes/")
    }
    for parts, _ in list_files(path, *git_dir, "refs", "remotes"):
        data = (
            read_file(path, *git_dir, "refs", "remotes", *parts, limit=MAX_SMALL_FILE_BYTES) or b""
        )
        if not data.startswith(b"ref:"):
            commits.add(
                _parse_commit(path, "a submodule's ref", data.decode("utf-8", "replace").strip())
            )
    return commits


def require_on_branch(found: CheckoutHead, branch: str) -> Sha:
    """Return the head's commit. Raise unless HEAD is on the task's branch."""
    if found.branch is None:
        raise DetachedHead(branch, found.commit or "")
    if found.branch != branch:
        raise WrongBranch(branch, found.branch)
    if found.commit is None:
        raise BranchDeleted(branch)
    return found.commit


def require_no_merge(path: Path) -> None:
    """Raise if a merge or similar is unfinished."""
    for name, operation in _OPERATIONS.items():
        if has_entry(path, ".git", name):
            raise UnfinishedMerge(operation)


def require_objects(path: Path, mirror_objects: Path) -> Path:
    """Return the objects folder. Raise unless it has only regular files and our mirror."""
    total = 0
    for parts, found in list_files(path, ".git", "objects"):
        if not stat.S_ISREG(found.st_mode):
            raise CheckoutTampered(path, f"objects/{'/'.join(parts)} is not a regular file")
        total += found.st_size
    if total > MAX_OBJECTS_BYTES:
        raise CheckoutTampered(path, f"its objects have {total} bytes")
    borrowed = _read_git_file(path, "objects", "info", "alternates")
    if borrowed != str(mirror_objects):
        raise CheckoutTampered(path, "its objects are borrowed from elsewhere")
    return path / ".git" / "objects"


def _read_packed_refs(path: Path, *git_dir: str) -> dict[str, Sha]:
    data = read_file(path, *git_dir, "packed-refs", limit=MAX_PACKED_REFS_BYTES) or b""
    refs: dict[str, Sha] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        commit, _, ref = line.partition(" ")
        if ref and not line.startswith(("#", "^")):
            refs[ref] = _parse_commit(path, "packed-refs", commit)
    return refs


def _read_git_file(path: Path, *parts: str) -> str | None:
    data = read_file(path, ".git", *parts, limit=MAX_SMALL_FILE_BYTES)
    return None if data is None else data.decode("utf-8", "replace").strip()


def _parse_commit(path: Path, where: str, text: str) -> Sha:
    try:
        return parse_sha(text)
    except ValueError:
        raise CheckoutTampered(path, f"{where} holds no commit") from None
