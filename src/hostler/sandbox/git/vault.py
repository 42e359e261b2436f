"""The folder of all repositories, each under its numeric id, so a rename moves nothing."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from hostler.sandbox.git import repository
from hostler.sandbox.git.errors import NoSuchObject
from hostler.sandbox.git.process import Person, Runner
from hostler.sandbox.git.repository import Repository

_OBJECTS = "objects"
_PREFIX = "hostler-sandbox-git-"


@dataclass(slots=True)
class Vault:
    """All repositories of one sandbox."""

    root: Path
    runner: Runner
    _open: dict[int, Repository] = field(default_factory=dict)
    _lock: int | None = None

    @classmethod
    def at(cls, folder: Path) -> Self:
        """The vault in `folder`, made where it is missing."""
        home = folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        return cls(folder, Runner(home))

    @classmethod
    def temporary(cls) -> Self:
        """A vault in a fresh temporary folder; `close` removes it, or the next one after a kill."""
        sweep()
        # Locked before it has the name by which it is swept.
        fresh = Path(tempfile.mkdtemp(prefix="hostler-sandbox-new-"))
        lock = _locked(fresh)
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
        """Where a repository lies; ids are numbers, so no name can lead elsewhere."""
        return self.root / f"{int(number)}.git"

    async def create(
        self, number: int, *, title: str, default_branch: str, person: Person, readme: bool = True
    ) -> Repository:
        """A new repository, by default with a first commit."""
        made = await repository.create(self.path(number), self.runner, default_branch)
        if readme:
            await made.first_commit(default_branch, title, person)
        self._open[number] = made
        return made

    def get(self, number: int) -> Repository:
        """The repository with this id."""
        known = self._open.get(number)
        if known is not None:
            return known
        path = self.path(number)
        if not path.is_dir():
            raise NoSuchObject(f"repository {number}")
        return self._open.setdefault(number, Repository(path, self.runner))

    def numbers(self) -> list[int]:
        """The ids of all repositories."""
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


def sweep() -> None:
    """Remove temporary vaults whose sandboxes were killed: our own, that nobody holds."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid != os.getuid():
                continue
            lock = _locked(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _locked(folder: Path) -> int | None:
    """A hold on a folder that ends with this process; None while somebody else has it."""
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
