"""Bare repositories: one of them, and the folder that holds all of a sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import Self

from hostler.sandbox.git import names
from hostler.sandbox.git.errors import NoSuchObject
from hostler.sandbox.git.process import CommandOutput, GitRunner, Signature

_FAST = 1


def _write_object(repository: Path, kind: str, data: bytes) -> str:
    """Store an object; return its sha."""
    body = f"{kind} {len(data)}\0".encode() + data
    # Git names objects so; nothing here depends on the strength of the digest.
    sha = sha1(body, usedforsecurity=False).hexdigest()
    target = repository / "objects" / sha[:2] / sha[2:]
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        # By this name git knows a file that a killed process left behind.
        handle, part = tempfile.mkstemp(prefix="tmp_obj_", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(zlib.compress(body, _FAST))
        Path(part).chmod(0o444)
        Path(part).replace(target)
    return sha


def _tree_of_file(name: str, blob: str) -> bytes:
    """Return the content of a tree that holds one plain file."""
    return f"100644 {name}\0".encode() + bytes.fromhex(blob)


# Outputs about objects that are kept: so many, each not longer than this.
MAX_KEPT = 1000
MAX_KEPT_BYTES = 65_536
# What a public host allows: single commits by sha, partial clones, and no writing to refs/pull.
CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
\tlogAllRefUpdates = false
\thooksPath = /dev/null
[gc]
\tauto = 0
[http]
\treceivepack = true
\tgetanyfile = false
[receive]
\tautogc = false
\tfsckObjects = true
\thideRefs = refs/pull
\tadvertisePushOptions = false
[uploadpack]
\tallowAnySHA1InWant = true
\tallowFilter = true
[diff]
\trenameLimit = 1000
"""


@dataclass(slots=True)
class Repository:
    """A bare repository. A caller that moves refs holds `lock`."""

    path: Path
    runner: GitRunner
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _kept: OrderedDict[tuple[str, ...], CommandOutput] = field(default_factory=OrderedDict)

    async def git(
        self,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        accept: tuple[int, ...] = (0,),
    ) -> CommandOutput:
        """Run a git command on this repository."""
        where = {"GIT_DIR": str(self.path)} | dict(env or {})
        return await self.runner.run(*args, cwd=self.path, stdin=stdin, env=where, accept=accept)

    async def read(
        self,
        *args: str,
        about: tuple[str, ...],
        accept: tuple[int, ...] = (0,),
        final: tuple[int, ...] = (0,),
    ) -> CommandOutput:
        """Run a git command that reads nothing but the objects `about`.

        Objects never change, so the output is kept where `about` are full shas and the exit code
        is one of `final`: one that does not say that an object is missing.
        """
        known = self._kept.get(args)
        if known is not None:
            self._kept.move_to_end(args)
            return known
        output = await self.git(*args, accept=accept)
        if all(map(names.is_sha, about)) and output.code in final:
            self._keep(args, output)
        return output

    def _keep(self, args: tuple[str, ...], output: CommandOutput) -> None:
        if len(output.out) <= MAX_KEPT_BYTES:
            self._kept[args] = output
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)

    async def write_blob(self, data: bytes) -> str:
        """Store a file's content; its sha."""
        return await asyncio.to_thread(_write_object, self.path, "blob", data)

    async def write_commit(
        self,
        tree: str,
        parents: tuple[str, ...],
        message: str,
        author: Signature,
        committer: Signature,
    ) -> str:
        """Store a commit without moving any ref; its sha."""
        flags = [part for parent in parents for part in ("-p", parent)]
        env = author.as_author() | committer.as_committer()
        words = message.replace("\0", "").encode()
        made = await self.git("commit-tree", tree, *flags, "-F", "-", stdin=words, env=env)
        return made.text.strip()

    async def first_commit(self, branch: str, title: str, person: Signature) -> str:
        """Give an empty repository a README on `branch`; the commit's sha."""
        blob = await self.write_blob(f"# {title}\n".encode())
        tree = _write_object(self.path, "tree", _tree_of_file("README.md", blob))
        commit = await self.write_commit(tree, (), "Initial commit\n", person, person)
        await self.git("update-ref", names.branch_ref(branch), commit, names.ZERO)
        return commit

    async def set_default_branch(self, branch: str) -> None:
        """Point HEAD at `branch`, whether or not it exists yet."""
        await self.git("symbolic-ref", "HEAD", names.branch_ref(branch))


async def _create_repository(path: Path, runner: GitRunner, default_branch: str) -> Repository:
    """Create an empty bare repository with the sandbox's configuration."""
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (path / folder).mkdir(parents=True)
    (path / "HEAD").write_text(f"ref: {names.branch_ref(default_branch)}\n", encoding="utf-8")
    (path / "config").write_text(CONFIG)
    return Repository(path, runner)


_OBJECTS = "objects"
_PREFIX = "hostler-sandbox-git-"


@dataclass(slots=True)
class RepoStore:
    """All repositories of one sandbox."""

    root: Path
    runner: GitRunner
    _open: dict[int, Repository] = field(default_factory=dict)
    _lock: int | None = None

    @classmethod
    def at(cls, folder: Path) -> Self:
        """Return the store in `folder`, which is created if it is missing."""
        home = folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        return cls(folder, GitRunner(home))

    @classmethod
    def temporary(cls) -> Self:
        """Return a store in a new temporary folder. `close` removes it, or the next store does."""
        _remove_orphans()
        # Locked before it has the name by which it is swept.
        fresh = Path(tempfile.mkdtemp(prefix="hostler-sandbox-new-"))
        lock = _try_lock(fresh)
        folder = fresh.rename(fresh.with_name(_PREFIX + fresh.name.rpartition("-")[2]))
        made = cls.at(folder)
        made._lock = lock
        return made

    def close(self) -> None:
        """Remove everything from disk."""
        shutil.rmtree(self.root, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def path(self, number: int) -> Path:
        """Return the path of a repository; ids are numbers, so no name can lead elsewhere."""
        return self.root / f"{int(number)}.git"

    async def create(
        self,
        number: int,
        *,
        title: str,
        default_branch: str,
        person: Signature,
        readme: bool = True,
    ) -> Repository:
        """Create a repository, by default with a first commit."""
        made = await _create_repository(self.path(number), self.runner, default_branch)
        if readme:
            await made.first_commit(default_branch, title, person)
        self._open[number] = made
        return made

    def get(self, number: int) -> Repository:
        """Return the repository with this id."""
        known = self._open.get(number)
        if known is not None:
            return known
        path = self.path(number)
        if not path.is_dir():
            raise NoSuchObject(f"repository {number}")
        return self._open.setdefault(number, Repository(path, self.runner))

    def numbers(self) -> list[int]:
        """Return the ids of all repositories."""
        return sorted(int(path.stem) for path in self.root.glob("*.git") if path.stem.isdigit())

    async def remove(self, number: int) -> None:
        """Delete one repository."""
        self._open.pop(number, None)
        await asyncio.to_thread(shutil.rmtree, self.path(number), True)

    async def export(self, target: Path) -> None:
        """Copy all repositories to `target`, which appears only once it is complete."""
        part = target.with_name(f".{target.name}.part")
        await asyncio.to_thread(shutil.rmtree, part, True)
        part.mkdir(parents=True)
        for number in self.numbers():
            kept = self.get(number)
            async with kept.lock:
                await asyncio.to_thread(_copy, kept.path, part / kept.path.name)
        part.rename(target)

    async def load(self, source: Path) -> None:
        """Replace all repositories by those exported to `source`."""
        for number in self.numbers():
            await self.remove(number)
        for path in sorted(source.glob("*.git")):
            await asyncio.to_thread(_copy, path, self.root / path.name)


def _remove_orphans() -> None:
    """Remove this user's temporary stores whose sandboxes were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid != os.getuid():
                continue
            lock = _try_lock(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _try_lock(folder: Path) -> int | None:
    """Lock a folder until this process ends; return None if another process has the lock."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        return None
    return opened


def _copy(source: Path, target: Path) -> None:
    """Copy refs first, objects last: what the refs name is then always there."""
    skip = shutil.ignore_patterns(_OBJECTS, "*.lock")
    shutil.copytree(source, target, ignore=skip)
    temporary = shutil.ignore_patterns("tmp_*", "incoming-*")
    shutil.copytree(source / _OBJECTS, target / _OBJECTS, ignore=temporary, copy_function=_link)


def _link(source: str, target: str) -> None:
    """Objects never change once written, so a link is a copy; across disks it has to be one."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
