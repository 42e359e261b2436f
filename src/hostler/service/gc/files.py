"""Collectors of files: mirrors, checkouts, folders of runs, logs, buses."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

from hostler.bus.bus import BUS_FILE_NAME, Bus
from hostler.bus.files import list_rotated_files
from hostler.bus.message import id_from_time
from hostler.checkouts import agent_folder
from hostler.checkouts.checkout import KEPT_REFS, PUSHED_REFS, Checkout, CheckoutLocation
from hostler.checkouts.cleanup import find_loss
from hostler.checkouts.mirror import Mirror, mirror_path
from hostler.config.repositories import repo_full_name
from hostler.errors import HostlerError
from hostler.model import RepoName, format_timestamp
from hostler.runs.run_folder import is_locked
from hostler.service.gc.context import GcContext, GcItem, GcKind
from hostler.service.gc.folders import TrashBin, exists, is_inside_home, list_folder, measure_size
from hostler.service.gc.rules import (
    CheckoutFacts,
    KeepReason,
    MirrorFacts,
    RunFacts,
    is_expired_log,
    judge_bus,
    judge_checkout,
    judge_mirror,
    judge_owner,
    judge_run,
)
from hostler.store.dependencies import tasks_named
from hostler.store.engine.locks import who_works
from hostler.store.retention import OldRun, runs_before, runs_named
from hostler.store.runs import Run, RunState, runs_of
from hostler.store.tasks import OVER, Task, TaskState, find_task, tasks_in
from hostler.store.transaction import Transaction

MIRROR_SUFFIX = ".git"
MAX_PATH_LENGTH = 4096
UNFINISHED_STATES = tuple(state for state in TaskState if state not in OVER)


@dataclass(frozen=True, slots=True)
class MirrorCollector:
    """All mirrors, one by one."""

    at: GcContext
    kind: GcKind = GcKind.MIRRORS

    def scan(self) -> Iterator[list[GcItem]]:
        for owner in list_folder(self.at.home / "mirrors"):
            for path in list_folder(owner):
                mirror = _mirror_from_path(path)
                if mirror is not None and is_inside_home(self.at.home, path):
                    yield [self._found(mirror)]

    def remove(self, going: Sequence[GcItem]) -> list[GcItem]:
        return [self._remove(one, one.key) for one in going]

    def _found(self, mirror: Mirror) -> GcItem:
        with self.at.store.read() as tx:
            why = judge_mirror(self._facts(tx, mirror, keeps=_keeps_work(mirror)), self.at.limit)
        size = 0 if why else measure_size(mirror.path)
        return GcItem(str(mirror.repo), size, why, key=mirror)

    def _remove(self, found: GcItem, mirror: Mirror) -> GcItem:
        with _try_lock(mirror) as alone:
            # Nobody writes it any more: what it keeps is asked for before the transaction.
            keeps = alone and _keeps_work(mirror)
            with self.at.removing() as (tx, aside):
                facts = replace(self._facts(tx, mirror, keeps=keeps), busy=not alone)
                why = judge_mirror(facts, self.at.limit)
                if why is None and not aside.take(mirror.path):
                    why = KeepReason.REFUSED
                return replace(found, why=why)

    def _facts(self, tx: Transaction, mirror: Mirror, *, keeps: bool) -> MirrorFacts:
        name = str(mirror.repo).lower()
        watched = {str(repo_full_name(repo)).lower() for repo in self.at.settings.repo.values()}
        unfinished = tasks_in(tx, UNFINISHED_STATES)
        return MirrorFacts(
            watched=name in watched,
            service=who_works(self.at.home) is not None,
            changed=_last_change(mirror),
            unfinished=any((task.repo_full_name or "").lower() == name for task in unfinished),
            borrowed=self._is_borrowed(mirror),
            keeps=keeps,
        )

    def _is_borrowed(self, mirror: Mirror) -> bool:
        """Whether a checkout that stays takes its objects from here, or cannot be asked."""
        root = self.at.home / "checkouts"
        for folder in (path for project in list_folder(root) for path in list_folder(project)):
            if self.at.going.has(GcKind.CHECKOUTS, f"{folder.parent.name}/{folder.name}"):
                continue
            if _borrowed_objects(folder) in (mirror.objects.resolve(), None):
                return True
        return False


def _mirror_for(home: Path, repo: RepoName) -> Mirror:
    """Where a repository's mirror is, if there is one. Makes nothing."""
    return Mirror(mirror_path(home / "mirrors", repo), repo)


def _mirror_from_path(path: Path) -> Mirror | None:
    if not path.name.endswith(MIRROR_SUFFIX) or not path.is_dir() or path.is_symlink():
        return None
    try:
        return Mirror(path, RepoName(path.parent.name, path.name.removesuffix(MIRROR_SUFFIX)))
    except ValueError:
        return None


def _last_change(mirror: Mirror) -> str:
    """When git has changed it last; looking at checkouts is no change."""
    places = [mirror.path / "packed-refs", mirror.path / "HEAD", mirror.objects / "pack"]
    for folder, _, names in os.walk(mirror.path / "refs"):
        places += [Path(folder), *(Path(folder, name) for name in names)]
    times = [place.lstat().st_mtime for place in places if os.path.lexists(place)]
    return format_timestamp(datetime.fromtimestamp(max(times, default=0), UTC))


def _keeps_work(mirror: Mirror) -> bool:
    """Whether it has work that was set aside, or heads that were never pushed."""
    try:
        git = mirror.git()
        if git("for-each-ref", "--count=1", KEPT_REFS).text:
            return True
        ours = ("--glob=refs/hostler/heads/*", "--glob=refs/hostler/sealed/*")
        pushed = ("--branches", "--tags", f"--glob={PUSHED_REFS}*")
        return bool(git("rev-list", "-n1", *ours, "--not", *pushed).text)
    except (HostlerError, OSError):
        return True


def _borrowed_objects(checkout: Path) -> Path | None:
    """Whose objects a checkout uses; None where that cannot be told."""
    where = (".git", "objects", "info", "alternates")
    try:
        found = agent_folder.read_file(checkout, *where, limit=MAX_PATH_LENGTH)
    except (HostlerError, OSError):
        return None
    return None if found is None else Path(os.fsdecode(found.strip())).resolve()


@contextmanager
def _try_lock(mirror: Mirror) -> Iterator[bool]:
    """Hold the mirror's lock, if nobody works there."""
    with (mirror.path / "hostler.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


MAX_LOST_LISTED = 3


@dataclass(frozen=True, slots=True)
class _CheckoutOwner:
    """A checkout's task and runs at one moment: as long as they stay so, nobody works in it."""

    task: Task | None
    runs: tuple[Run, ...] = ()

    def facts(self, lost: tuple[str, ...] | None = None) -> CheckoutFacts:
        task = self.task
        if task is None:
            return CheckoutFacts(None, (), open_run=False, lost=lost)
        ends = (run.ended_at for run in self.runs)
        return CheckoutFacts(
            task.state,
            (task.state_since, task.updated_at, *ends),
            open_run=any(run.state is not RunState.ENDED for run in self.runs),
            lost=lost,
        )


@dataclass(frozen=True, slots=True)
class CheckoutCollector:
    """All folders in `checkouts/`, one by one: looking into them takes its time."""

    at: GcContext
    kind: GcKind = GcKind.CHECKOUTS

    def scan(self) -> Iterator[list[GcItem]]:
        root = self.at.home / "checkouts"
        for folder in (path for project in list_folder(root) for path in list_folder(project)):
            yield [self._found(folder)]

    def remove(self, going: Sequence[GcItem]) -> list[GcItem]:
        return [self._remove(one, *one.key) for one in going]

    def _found(self, folder: Path) -> GcItem:
        name = f"{folder.parent.name}/{folder.name}"
        if not is_inside_home(self.at.home, folder) or not folder.is_dir() or folder.is_symlink():
            return GcItem(name, why=KeepReason.STRANGE)
        with self.at.store.read() as tx:
            seen = _read_owner(tx, folder)
        why = judge_owner(seen.facts(), self.at.limit)
        if why is not None or seen.task is None:
            return GcItem(name, why=why)
        return self._looked_into(name, folder, seen, seen.task)

    def _looked_into(self, name: str, folder: Path, seen: _CheckoutOwner, task: Task) -> GcItem:
        try:
            lost = find_loss(self._checkout(task)).all_work
        except (HostlerError, ValueError, OSError) as error:
            detail = error.what if isinstance(error, HostlerError) else str(error)
            return GcItem(name, why=KeepReason.STRANGE, detail=detail)
        why = judge_checkout(seen.facts(lost), self.at.limit)
        size = 0 if why else measure_size(folder)
        return GcItem(name, size, why, ", ".join(lost[:MAX_LOST_LISTED]), (folder, seen))

    def _remove(self, found: GcItem, folder: Path, seen: _CheckoutOwner) -> GcItem:
        with self.at.removing() as (tx, aside):
            if _read_owner(tx, folder) != seen:
                return replace(found, why=KeepReason.BUSY)
            return found if aside.take(folder) else replace(found, why=KeepReason.REFUSED)

    def _checkout(self, task: Task) -> Checkout:
        place = CheckoutLocation(self.at.home / "checkouts", task.project, task.id)
        mirror = _mirror_for(self.at.home, task.repo)
        if not mirror.path.is_dir():
            raise HostlerError(f"Its mirror {mirror.path} is missing.")
        return Checkout(place, mirror, task.branch)


def _read_owner(tx: Transaction, folder: Path) -> _CheckoutOwner:
    task = find_task(tx, folder.name)
    if task is None or task.project != folder.parent.name:
        return _CheckoutOwner(None)
    return _CheckoutOwner(task, tuple(runs_of(tx, task.id)))


RUN_PAGE_SIZE = 200


@dataclass(frozen=True, slots=True)
class RunCollector:
    """Runs that were admitted before the limit."""

    at: GcContext
    kind: GcKind = GcKind.RUNS

    def scan(self) -> Iterator[list[GcItem]]:
        after = ""
        while True:
            with self.at.store.read() as tx:
                page = runs_before(tx, self.at.limit, after, RUN_PAGE_SIZE)
            if not page:
                return
            yield [self._found(run) for run in page if self._is_here(run)]
            after = page[-1].run

    def remove(self, going: Sequence[GcItem]) -> list[GcItem]:
        known = {one.key: one for one in going}
        with self.at.removing() as (tx, aside):
            return [self._take(known[run.run], run, aside) for run in runs_named(tx, known)]

    def _is_here(self, run: OldRun) -> bool:
        """Whether it has a folder, and one that does not go with its task anyway."""
        return not self.at.going.has(GcKind.TASKS, run.task_id) and exists(
            self.at.home / run.folder
        )

    def _found(self, run: OldRun) -> GcItem:
        why = self._judge(run)
        size = 0 if why else measure_size(self.at.home / run.folder)
        return GcItem(run.run, size, why, key=run.run)

    def _take(self, found: GcItem, run: OldRun, aside: TrashBin) -> GcItem:
        why = self._judge(run)
        if why is None and not aside.take(self.at.home / run.folder):
            why = KeepReason.REFUSED
        return replace(found, why=why)

    def _judge(self, run: OldRun) -> KeepReason | None:
        folder = self.at.home / run.folder
        facts = RunFacts(
            state=run.state,
            stamps=(run.admitted_at, run.ended_at, run.task_since),
            newest=run.newest,
            locked=is_locked(folder),
            task=run.task_state,
        )
        return judge_run(facts, self.at.limit) or (
            None if is_inside_home(self.at.home, folder) else KeepReason.STRANGE
        )


LOG_SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class LogCollector:
    """The files in `logs/` that are named for a day."""

    at: GcContext
    kind: GcKind = GcKind.LOGS

    def scan(self) -> Iterator[list[GcItem]]:
        found = [
            GcItem(path.name, measure_size(path), key=path)
            for path in list_folder(self.at.home / "logs")
            if self._is_past(path) and is_inside_home(self.at.home, path)
        ]
        if found:
            yield found

    def remove(self, going: Sequence[GcItem]) -> list[GcItem]:
        return [_remove_log(one, one.key) for one in going]

    def _is_past(self, path: Path) -> bool:
        day = _log_day(path)
        kept = self.at.settings.runtime.log_retention_days
        return day is not None and is_expired_log(day, self.at.now.date(), self.at.days, kept)


def _log_day(path: Path) -> date | None:
    try:
        return date.fromisoformat(path.stem) if path.suffix == LOG_SUFFIX else None
    except ValueError:
        return None


def _remove_log(found: GcItem, path: Path) -> GcItem:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        return replace(found, why=KeepReason.REFUSED, detail=error.strerror or "")
    return found


@dataclass(frozen=True, slots=True)
class BusCollector:
    """The buses of all projects and tasks."""

    at: GcContext
    kind: GcKind = GcKind.BUS

    def scan(self) -> Iterator[list[GcItem]]:
        for project in list_folder(self.at.home / "projects"):
            folders = [project, *list_folder(project / "tasks")]
            old = {folder: size for folder in folders if (size := self._size(folder))}
            if old:
                with self.at.store.read() as tx:
                    yield [self._found(tx, folder, size) for folder, size in old.items()]

    def remove(self, going: Sequence[GcItem]) -> list[GcItem]:
        with self.at.removing() as (tx, _):
            return [self._remove(tx, one, one.key) for one in going]

    def _size(self, folder: Path) -> int:
        """Bytes of what is old; the newest file that was set aside always stays."""
        if not is_inside_home(self.at.home, folder / BUS_FILE_NAME):
            return 0
        try:
            files = list_rotated_files(folder / BUS_FILE_NAME)[:-1]
        except HostlerError:
            return 0
        limit = id_from_time(self.at.moment)
        return sum(measure_size(file.path) for file in files if file.id < limit)

    def _found(self, tx: Transaction, folder: Path, size: int) -> GcItem:
        why = _judge_bus_folder(tx, folder)
        return GcItem(_bus_name(folder), 0 if why else size, why, key=folder)

    def _remove(self, tx: Transaction, found: GcItem, folder: Path) -> GcItem:
        why = _judge_bus_folder(tx, folder)
        if why is None:
            try:
                Bus(folder / BUS_FILE_NAME).forget(self.at.moment)
            except (HostlerError, OSError):
                why = KeepReason.REFUSED
        return replace(found, why=why)


def _judge_bus_folder(tx: Transaction, folder: Path) -> KeepReason | None:
    found = tasks_named(tx, [folder.name]).get(folder.name) if _is_task_folder(folder) else None
    return judge_bus(found.state if found else None)


def _is_task_folder(folder: Path) -> bool:
    return folder.parent.name == "tasks"


def _bus_name(folder: Path) -> str:
    return f"{folder.parent.parent.name}/{folder.name}" if _is_task_folder(folder) else folder.name
