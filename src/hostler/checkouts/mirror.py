"""A repository's mirror: what the remote has, and what we keep. Its config is a constant."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from hostler.checkouts.disk import minding_space
from hostler.checkouts.errors import BranchMissing
from hostler.checkouts.git import Git
from hostler.checkouts.names import Sha, sha
from hostler.checkouts.remote import Remote, default_branch
from hostler.model import RepoName

CONFIG = """\
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
# Whatever could make git read settings, objects or history from elsewhere.
_STEERING = (
    *("commondir", "config.worktree", "shallow", "info", "hooks", "remotes", "branches"),
    *("modules", "worktrees", "objects/info", "refs/replace"),
)
_HEADS = "refs/heads/"


@dataclass(frozen=True, slots=True)
class Mirror:
    """One mirror, on disk."""

    path: Path
    repo: RepoName

    @property
    def objects(self) -> Path:
        return self.path / "objects"

    @property
    def views(self) -> Path:
        return self.path / "views"

    def git(self) -> Git:
        """Git on this mirror, after undoing whatever anybody wrote into its settings."""
        write_settings(self.path)
        return Git(self.path, self.path)


def place_of(mirrors: Path, repo: RepoName) -> Path:
    """Where the mirror of a repository is, or would be."""
    return mirrors / repo.owner / f"{repo.name}.git"


def open_mirror(mirrors: Path, repo: RepoName) -> Mirror:
    """The mirror of a repository; an empty one is made where there is none."""
    mirror = Mirror(place_of(mirrors, repo), repo)
    if not mirror.path.is_dir():
        new = mirror.path.with_name(f".{repo.name}.{uuid4().hex}")
        with minding_space(mirrors):
            make_bare(new)
        try:
            new.rename(mirror.path)
        except OSError:
            # Somebody else made it at the same moment.
            shutil.rmtree(new)
            if not mirror.path.is_dir():
                raise
    return mirror


def make_bare(path: Path) -> None:
    """An empty bare repository, without git's templates."""
    for folder in ("objects/pack", "refs/heads", "refs/tags"):
        (path / folder).mkdir(parents=True)
    (path / "HEAD").write_text("ref: refs/heads/none\n")
    (path / "config").write_text(CONFIG)


def write_settings(path: Path) -> None:
    """Make the config the constant again and remove what else could steer git."""
    for name in _STEERING:
        _discard(path / name)
    config = path / "config"
    if not config.is_symlink() and config.is_file() and config.read_text("latin-1") == CONFIG:
        return
    if config.is_dir() and not config.is_symlink():
        _discard(config)
    new = path / f"config.{uuid4().hex}"
    with minding_space(path):
        new.write_text(CONFIG)
        new.replace(config)


@contextlib.contextmanager
def writing(mirror: Mirror) -> Iterator[Git]:
    """Git on a mirror that nobody else writes meanwhile.

    The lock's descriptor goes to every git child: should we be killed, the lock is held until
    that child has ended too, and lock files found later are certain to be nobody's.
    """
    with (mirror.path / "hostler.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _drop_debris(mirror.path)
        yield replace(mirror.git(), keep_open=(lock.fileno(),))


def update(mirror: Mirror, remote: Remote) -> None:
    """Bring branches and tags to where the remote has them."""
    with writing(mirror) as git:
        git.using(remote.access())(
            *("fetch", "--quiet", "--prune", "--no-write-fetch-head", "--no-tags", remote.url),
            *("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"),
        )


def head_of(mirror: Mirror, ref: str) -> Sha | None:
    """The commit of one of the mirror's refs."""
    found = mirror.git()("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", accept=(0, 1))
    return sha(found.text) if found.code == 0 else None


def branches(mirror: Mirror) -> list[str]:
    """The remote's branches, as of the last update."""
    return mirror.git()("for-each-ref", "--format=%(refname:lstrip=2)", _HEADS).lines


def base_of(mirror: Mirror, remote: Remote, base_branch: str) -> tuple[str, Sha]:
    """The branch to work from, with its commit; without a name, the remote's default branch."""
    name = base_branch or default_branch(mirror.git(), remote) or ""
    found = head_of(mirror, _HEADS + name) if name else None
    if found is None:
        raise BranchMissing(name, branches(mirror))
    return name, found


def is_ancestor(mirror: Mirror, older: Sha, newer: Sha) -> bool:
    """Whether `older` is `newer` or one of its ancestors."""
    return mirror.git()("merge-base", "--is-ancestor", older, newer, accept=(0, 1)).code == 0


def set_ref(git: Git, ref: str, commit: Sha) -> None:
    """Point one of our own refs at a commit."""
    git("update-ref", "--no-deref", ref, commit)


def _drop_debris(path: Path) -> None:
    """Lock files and half-written packs of a git that was killed."""
    stale = [path / "packed-refs.lock", path / "HEAD.lock", path / "config.lock"]
    stale += (path / "refs").rglob("*.lock")
    stale += (path / "objects" / "pack").glob("tmp_*")
    for file in stale:
        file.unlink(missing_ok=True)


def _discard(path: Path) -> None:
    # Another thread may remove the same thing at this moment.
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
