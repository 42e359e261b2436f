"""Mirrors of repositories that nobody works on any more."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from hostler.checkouts import beneath
from hostler.checkouts.mirror import Mirror, place_of
from hostler.checkouts.place import KEPT, PUSHED
from hostler.config.repos import full_name
from hostler.errors import HostlerError
from hostler.model import RepoName, stamp
from hostler.service.gc.folders import is_ours, listed, size_of
from hostler.service.gc.premises import Premises
from hostler.service.gc.report import Found, Kind
from hostler.service.gc.rules import MirrorFacts, Why, judge_mirror
from hostler.store.engine.locks import who_works
from hostler.store.tasks import OVER, TaskState, tasks_in
from hostler.store.transaction import Transaction

SUFFIX = ".git"
LONGEST_PATH = 4096
UNFINISHED = tuple(state for state in TaskState if state not in OVER)


@dataclass(frozen=True, slots=True)
class Mirrors:
    """All mirrors, one by one."""

    at: Premises
    kind: Kind = Kind.MIRRORS

    def look(self) -> Iterator[list[Found]]:
        for owner in listed(self.at.home / "mirrors"):
            for path in listed(owner):
                mirror = _named(path)
                if mirror is not None and is_ours(self.at.home, path):
                    yield [self._found(mirror)]

    def remove(self, going: Sequence[Found]) -> list[Found]:
        return [self._remove(one, one.key) for one in going]

    def _found(self, mirror: Mirror) -> Found:
        with self.at.store.read() as tx:
            why = judge_mirror(self._facts(tx, mirror, keeps=_keeps_work(mirror)), self.at.limit)
        size = 0 if why else size_of(mirror.path)
        return Found(str(mirror.repo), size, why, key=mirror)

    def _remove(self, found: Found, mirror: Mirror) -> Found:
        with _alone(mirror) as alone:
            # Nobody writes it any more: what it keeps is asked for before the transaction.
            keeps = alone and _keeps_work(mirror)
            with self.at.removing() as (tx, aside):
                facts = replace(self._facts(tx, mirror, keeps=keeps), busy=not alone)
                why = judge_mirror(facts, self.at.limit)
                if why is None and not aside.take(mirror.path):
                    why = Why.REFUSED
                return replace(found, why=why)

    def _facts(self, tx: Transaction, mirror: Mirror, *, keeps: bool) -> MirrorFacts:
        name = str(mirror.repo).lower()
        watched = {str(full_name(repo)).lower() for repo in self.at.settings.repo.values()}
        unfinished = tasks_in(tx, UNFINISHED)
        return MirrorFacts(
            watched=name in watched,
            service=who_works(self.at.home) is not None,
            changed=_changed(mirror),
            unfinished=any((task.repo_full_name or "").lower() == name for task in unfinished),
            borrowed=self._is_borrowed(mirror),
            keeps=keeps,
        )

    def _is_borrowed(self, mirror: Mirror) -> bool:
        """Whether a checkout that stays takes its objects from here, or cannot be asked."""
        root = self.at.home / "checkouts"
        for folder in (path for project in listed(root) for path in listed(project)):
            if self.at.going.has(Kind.CHECKOUTS, f"{folder.parent.name}/{folder.name}"):
                continue
            if _borrows(folder) in (mirror.objects.resolve(), None):
                return True
        return False


def mirror_of(home: Path, repo: RepoName) -> Mirror:
    """Where a repository's mirror is, if there is one. Makes nothing."""
    return Mirror(place_of(home / "mirrors", repo), repo)


def _named(path: Path) -> Mirror | None:
    if not path.name.endswith(SUFFIX) or not path.is_dir() or path.is_symlink():
        return None
    try:
        return Mirror(path, RepoName(path.parent.name, path.name.removesuffix(SUFFIX)))
    except ValueError:
        return None


def _changed(mirror: Mirror) -> str:
    """When git has changed it last; looking at checkouts is no change."""
    places = [mirror.path / "packed-refs", mirror.path / "HEAD", mirror.objects / "pack"]
    for folder, _, names in os.walk(mirror.path / "refs"):
        places += [Path(folder), *(Path(folder, name) for name in names)]
    times = [place.lstat().st_mtime for place in places if os.path.lexists(place)]
    return stamp(datetime.fromtimestamp(max(times, default=0), UTC))


def _keeps_work(mirror: Mirror) -> bool:
    """Whether it has work that was set aside, or heads that were never pushed."""
    try:
        git = mirror.git()
        if git("for-each-ref", "--count=1", KEPT).text:
            return True
        ours = ("--glob=refs/hostler/heads/*", "--glob=refs/hostler/sealed/*")
        pushed = ("--branches", "--tags", f"--glob={PUSHED}*")
        return bool(git("rev-list", "-n1", *ours, "--not", *pushed).text)
    except (HostlerError, OSError):
        return True


def _borrows(checkout: Path) -> Path | None:
    """Whose objects a checkout uses; None where that cannot be told."""
    where = (".git", "objects", "info", "alternates")
    try:
        found = beneath.read(checkout, *where, limit=LONGEST_PATH)
    except (HostlerError, OSError):
        return None
    return None if found is None else Path(os.fsdecode(found.strip())).resolve()


@contextmanager
def _alone(mirror: Mirror) -> Iterator[bool]:
    """Hold the mirror's lock, if nobody works there."""
    with (mirror.path / "hostler.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
