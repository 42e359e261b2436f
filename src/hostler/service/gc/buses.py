"""Files of buses that were set aside long ago."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hostler.bus import Bus
from hostler.bus.files import set_aside
from hostler.bus.ids import id_of
from hostler.bus.place import FILE_NAME
from hostler.errors import HostlerError
from hostler.service.gc.folders import is_ours, listed, size_of
from hostler.service.gc.premises import Premises
from hostler.service.gc.report import Found, Kind
from hostler.service.gc.rules import Why, judge_bus
from hostler.store.dependencies import tasks_named
from hostler.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Buses:
    """The buses of all projects and tasks."""

    at: Premises
    kind: Kind = Kind.BUS

    def look(self) -> Iterator[list[Found]]:
        for project in listed(self.at.home / "projects"):
            folders = [project, *listed(project / "tasks")]
            old = {folder: size for folder in folders if (size := self._size(folder))}
            if old:
                with self.at.store.read() as tx:
                    yield [self._found(tx, folder, size) for folder, size in old.items()]

    def remove(self, going: Sequence[Found]) -> list[Found]:
        with self.at.removing() as (tx, _):
            return [self._remove(tx, one, one.key) for one in going]

    def _size(self, folder: Path) -> int:
        """Bytes of what is old; the newest file that was set aside always stays."""
        if not is_ours(self.at.home, folder / FILE_NAME):
            return 0
        try:
            files = set_aside(folder / FILE_NAME)[:-1]
        except HostlerError:
            return 0
        limit = id_of(self.at.moment)
        return sum(size_of(file.path) for file in files if file.id < limit)

    def _found(self, tx: Transaction, folder: Path, size: int) -> Found:
        why = _judge(tx, folder)
        return Found(_name(folder), 0 if why else size, why, key=folder)

    def _remove(self, tx: Transaction, found: Found, folder: Path) -> Found:
        why = _judge(tx, folder)
        if why is None:
            try:
                Bus(folder / FILE_NAME).forget(self.at.moment)
            except (HostlerError, OSError):
                why = Why.REFUSED
        return replace(found, why=why)


def _judge(tx: Transaction, folder: Path) -> Why | None:
    found = tasks_named(tx, [folder.name]).get(folder.name) if _is_task(folder) else None
    return judge_bus(found.state if found else None)


def _is_task(folder: Path) -> bool:
    return folder.parent.name == "tasks"


def _name(folder: Path) -> str:
    return f"{folder.parent.parent.name}/{folder.name}" if _is_task(folder) else folder.name
