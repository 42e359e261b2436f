"""Checkouts of tasks that are over, as long as nothing is lost with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hostler.checkouts.cleaning import would_lose
from hostler.checkouts.place import Checkout, Place
from hostler.errors import HostlerError
from hostler.service.gc.folders import is_ours, listed, size_of
from hostler.service.gc.mirrors import mirror_of
from hostler.service.gc.premises import Premises
from hostler.service.gc.report import Found, Kind
from hostler.service.gc.rules import CheckoutFacts, Why, judge_checkout, judge_owner
from hostler.store.runs import Run, RunState, runs_of
from hostler.store.tasks import Task, find_task
from hostler.store.transaction import Transaction

MOST_TOLD = 3


@dataclass(frozen=True, slots=True)
class _Seen:
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
class Checkouts:
    """All folders in `checkouts/`, one by one: looking into them takes its time."""

    at: Premises
    kind: Kind = Kind.CHECKOUTS

    def look(self) -> Iterator[list[Found]]:
        root = self.at.home / "checkouts"
        for folder in (path for project in listed(root) for path in listed(project)):
            yield [self._found(folder)]

    def remove(self, going: Sequence[Found]) -> list[Found]:
        return [self._remove(one, *one.key) for one in going]

    def _found(self, folder: Path) -> Found:
        name = f"{folder.parent.name}/{folder.name}"
        if not is_ours(self.at.home, folder) or not folder.is_dir() or folder.is_symlink():
            return Found(name, why=Why.STRANGE)
        with self.at.store.read() as tx:
            seen = _see(tx, folder)
        why = judge_owner(seen.facts(), self.at.limit)
        if why is not None or seen.task is None:
            return Found(name, why=why)
        return self._looked_into(name, folder, seen, seen.task)

    def _looked_into(self, name: str, folder: Path, seen: _Seen, task: Task) -> Found:
        try:
            lost = would_lose(self._checkout(task)).everything
        except (HostlerError, ValueError, OSError) as error:
            detail = error.what if isinstance(error, HostlerError) else str(error)
            return Found(name, why=Why.STRANGE, detail=detail)
        why = judge_checkout(seen.facts(lost), self.at.limit)
        size = 0 if why else size_of(folder)
        return Found(name, size, why, ", ".join(lost[:MOST_TOLD]), (folder, seen))

    def _remove(self, found: Found, folder: Path, seen: _Seen) -> Found:
        with self.at.removing() as (tx, aside):
            if _see(tx, folder) != seen:
                return replace(found, why=Why.BUSY)
            return found if aside.take(folder) else replace(found, why=Why.REFUSED)

    def _checkout(self, task: Task) -> Checkout:
        place = Place(self.at.home / "checkouts", task.project, task.id)
        mirror = mirror_of(self.at.home, task.repo)
        if not mirror.path.is_dir():
            raise HostlerError(f"Its mirror {mirror.path} is missing.")
        return Checkout(place, mirror, task.branch)


def _see(tx: Transaction, folder: Path) -> _Seen:
    task = find_task(tx, folder.name)
    if task is None or task.project != folder.parent.name:
        return _Seen(None)
    return _Seen(task, tuple(runs_of(tx, task.id)))
