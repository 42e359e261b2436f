"""The remote repository and its local bare mirror: fetch, read refs, move it to another name."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

from hostler.checkouts import agent_folder
from hostler.checkouts.agent_folder import translate_disk_full
from hostler.checkouts.errors import BranchMissing, CheckoutTampered
from hostler.checkouts.git import Git, RemoteAccess
from hostler.checkouts.names import Sha, parse_sha, require_branch_name
from hostler.model import RepoName

SCHEMES = frozenset({"https", "http", "file"})
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_PRINTABLE_ASCII = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Remote:
    """Where to fetch and push. The token is read again for each command."""

    url: str
    token: Callable[[], str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in SCHEMES or not _PRINTABLE_ASCII.fullmatch(self.url):
            raise ValueError(
                f"not an address that we fetch from: {parts.scheme}://{parts.hostname}"
            )
        if parts.username is not None or parts.password is not None:
            raise ValueError("an address must not contain credentials")
        if self.token and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise ValueError("a token is not sent over plain http to another machine")

    @property
    def scheme(self) -> str:
        return urlsplit(self.url).scheme

    def access(self) -> RemoteAccess:
        """Return what one command needs to reach the remote."""
        protocols = frozenset({self.scheme})
        if self.token is None or self.scheme == "file":
            return RemoteAccess(self.url, protocols)
        token = self.token()
        basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        # Bound to this repository's URL: no other one gets the header.
        header = (f"http.{self.url}.extraHeader", f"Authorization: Basic {basic}")
        return RemoteAccess(self.url, protocols, (header,), (token, basic))


def read_remote_head(git: Git, remote: Remote, branch: str) -> Sha | None:
    """Return the current commit of the remote's branch."""
    ref = f"refs/heads/{require_branch_name(branch)}"
    listed = git.using(remote.access())("ls-remote", remote.url, ref).lines
    # A pattern also matches the end of longer names.
    return next(
        (parse_sha(line.split("\t")[0]) for line in listed if line.endswith(f"\t{ref}")), None
    )


def read_default_branch(git: Git, remote: Remote) -> str | None:
    """Return the remote's default branch, or None."""
    listed = git.using(remote.access())("ls-remote", "--symref", remote.url, "HEAD").lines
    for line in listed:
        if line.startswith("ref: refs/heads/") and line.endswith("\tHEAD"):
            return line.removeprefix("ref: refs/heads/").removesuffix("\tHEAD")
    return None


MIRROR_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tbare = true
\tfilemode = true
\tlogAllRefUpdates = false
[gc]
\tauto = 0
\tpruneExpire = never
[maintenance]
\tauto = false
"""
# Files that could make git read settings, objects or history from elsewhere.
_UNWANTED_ENTRIES = (
    *("commondir", "config.worktree", "shallow", "info", "hooks", "remotes", "branches"),
    *("modules", "worktrees", "objects/info", "refs/replace"),
)
_BRANCH_PREFIX = "refs/heads/"


@dataclass(frozen=True, slots=True)
class Mirror:
    """One local mirror."""

    path: Path
    repo: RepoName

    @property
    def objects(self) -> Path:
        return self.path / "objects"

    @property
    def views(self) -> Path:
        return self.path / "views"

    def git(self) -> Git:
        """Return git for this mirror, after resetting its config."""
        reset_config(self.path)
        return Git(self.path, self.path)


def mirror_path(mirrors: Path, repo: RepoName) -> Path:
    """Return the path of a repository's mirror, whether it exists or not."""
    return mirrors / repo.owner / f"{repo.name}.git"


def open_mirror(mirrors: Path, repo: RepoName) -> Mirror:
    """Return the mirror of a repository; create an empty one if needed."""
    mirror = Mirror(mirror_path(mirrors, repo), repo)
    if not mirror.path.is_dir():
        new = mirror.path.with_name(f".{repo.name}.{uuid4().hex}")
        with translate_disk_full(mirrors):
            create_bare_repo(new)
        try:
            new.rename(mirror.path)
        except OSError:
            # Another process created it at the same time.
            shutil.rmtree(new)
            if not mirror.path.is_dir():
                raise
    return mirror


def create_bare_repo(path: Path) -> None:
    """Create an empty bare repository without git's templates."""
    for folder in ("objects/pack", "refs/heads", "refs/tags"):
        (path / folder).mkdir(parents=True)
    (path / "HEAD").write_text("ref: refs/heads/none\n")
    (path / "config").write_text(MIRROR_CONFIG)


def reset_config(path: Path) -> None:
    """Rewrite the config and remove other files that could change what git does."""
    for name in _UNWANTED_ENTRIES:
        _delete(path / name)
    config = path / "config"
    if (
        not config.is_symlink()
        and config.is_file()
        and config.read_text("latin-1") == MIRROR_CONFIG
    ):
        return
    if config.is_dir() and not config.is_symlink():
        _delete(config)
    new = path / f"config.{uuid4().hex}"
    with translate_disk_full(path):
        new.write_text(MIRROR_CONFIG)
        new.replace(config)


@contextlib.contextmanager
def lock_mirror(mirror: Mirror) -> Iterator[Git]:
    """Yield git for a mirror while holding its write lock.

    Each git child inherits the lock's descriptor: if this process is killed, the lock is held
    until that child has ended too, so lock files found later are certain to be stale.
    """
    with (mirror.path / "hostler.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _remove_stale_locks(mirror.path)
        yield replace(mirror.git(), keep_open=(lock.fileno(),))


def fetch_mirror(mirror: Mirror, remote: Remote) -> None:
    """Update branches and tags from the remote."""
    with lock_mirror(mirror) as git:
        git.using(remote.access())(
            *("fetch", "--quiet", "--prune", "--no-write-fetch-head", "--no-tags", remote.url),
            *("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"),
        )


def read_mirror_ref(mirror: Mirror, ref: str) -> Sha | None:
    """Return the commit of one of the mirror's refs."""
    found = mirror.git()("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", accept=(0, 1))
    return parse_sha(found.text) if found.code == 0 else None


def list_branches(mirror: Mirror) -> list[str]:
    """Return the remote's branches as of the last fetch."""
    return mirror.git()("for-each-ref", "--format=%(refname:lstrip=2)", _BRANCH_PREFIX).lines


def resolve_base(mirror: Mirror, remote: Remote, base_branch: str) -> tuple[str, Sha]:
    """Return the base branch and its commit; without a name, the remote's default branch."""
    name = base_branch or read_default_branch(mirror.git(), remote) or ""
    found = read_mirror_ref(mirror, _BRANCH_PREFIX + name) if name else None
    if found is None:
        raise BranchMissing(name, list_branches(mirror))
    return name, found


def is_ancestor(mirror: Mirror, older: Sha, newer: Sha) -> bool:
    """Return whether `older` is `newer` or one of its ancestors."""
    return mirror.git()("merge-base", "--is-ancestor", older, newer, accept=(0, 1)).code == 0


def set_ref(git: Git, ref: str, commit: Sha) -> None:
    """Set one of Hostler's refs to a commit."""
    git("update-ref", "--no-deref", ref, commit)


def _remove_stale_locks(path: Path) -> None:
    """Remove lock files and partial packs of a killed git."""
    stale = [path / "packed-refs.lock", path / "HEAD.lock", path / "config.lock"]
    stale += (path / "refs").rglob("*.lock")
    stale += (path / "objects" / "pack").glob("tmp_*")
    for file in stale:
        file.unlink(missing_ok=True)


def _delete(path: Path) -> None:
    # Another thread may remove the same file at the same time.
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


_ALTERNATES = (".git", "objects", "info", "alternates")
_MAX_ALTERNATES_BYTES = 16_384


def move_mirror(mirrors: Path, checkouts: Path, old: RepoName, new: RepoName) -> None:
    """Move a mirror if it exists, and update its checkouts. Safe to repeat after a crash.

    During the move, checkouts list both paths, so a running agent misses no object.
    """
    source, target = mirror_path(mirrors, old), mirror_path(mirrors, new)
    if source == target:
        return
    borrowers = list(_find_borrowers(checkouts, source))
    if source.is_dir():
        if target.exists():
            # Rename an existing mirror at the new path.
            move_mirror(mirrors, checkouts, new, _free_name(mirrors, new))
        for checkout in borrowers:
            _write_alternates(checkout, source, target)
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
    for checkout in borrowers if target.is_dir() else ():
        _write_alternates(checkout, target)


def _find_borrowers(checkouts: Path, mirror: Path) -> Iterator[Path]:
    """Return checkouts that borrow objects from a mirror."""
    for checkout in sorted(checkouts.glob("*/*")):
        try:
            found = (
                agent_folder.read_file(checkout, *_ALTERNATES, limit=_MAX_ALTERNATES_BYTES) or b""
            )
        except (CheckoutTampered, OSError):
            continue  # reported when the checkout is used
        if os.fsencode(mirror / "objects") in found.splitlines():
            yield checkout


def _write_alternates(checkout: Path, *mirrors: Path) -> None:
    lines = (os.fsencode(mirror / "objects") for mirror in mirrors)
    agent_folder.write_file(checkout, *_ALTERNATES, data=b"\n".join(lines) + b"\n")


def _free_name(mirrors: Path, repo: RepoName) -> RepoName:
    number = 1
    while mirror_path(
        mirrors, named := RepoName(repo.owner, f"{repo.name}.former-{number}")
    ).exists():
        number += 1
    return named
