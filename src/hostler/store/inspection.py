"""Looking at a whole database: content, references, revision, tables."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from hostler.clock import Clock
from hostler.errors import HostlerError, StoreCorrupt
from hostler.store.layout import differences
from hostler.store.place import Place, SqlitePlace
from hostler.store.revision import read_revision, require_head
from hostler.store.store import make_backend
from hostler.store.tables import metadata
from hostler.store.translate import missing, translated
from hostler.store.writers import Patience


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found."""

    revision: str | None
    problems: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether all is as it should be."""
        return not self.problems


def inspect_database(place: Place, clock: Clock, patience: Patience) -> Inspection:
    """Read everything and say what is wrong. Raises where there is nothing to look at."""
    backend = make_backend(place, clock, patience)
    revision: str | None = None
    try:
        with translated(place, reading=True), backend.reading() as connection:
            revision = read_revision(connection, place)
            if revision is None:
                raise missing(place)
            problems = _damage(connection, place) or _misfits(connection, place, revision)
            return Inspection(revision, tuple(problems))
    except StoreCorrupt as error:
        return Inspection(revision, (error.what,))
    finally:
        backend.close()


def _misfits(connection: Connection, place: Place, revision: str) -> list[str]:
    try:
        require_head(revision, place)
    except HostlerError as error:
        return [error.what]
    return [f"not as expected: {difference}" for difference in differences(connection)]


def _damage(connection: Connection, place: Place) -> list[str]:
    if isinstance(place, SqlitePlace):
        return _sqlite_damage(connection)
    # A server checks its references itself; reading every row finds damaged pages.
    for table in metadata.sorted_tables:
        if table.name in connection.dialect.get_table_names(connection):
            connection.execute(select(func.count()).select_from(table))
    return []


def _sqlite_damage(connection: Connection) -> list[str]:
    lines = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(100)")]
    broken = [
        f"row {row[1]} of {row[0]} refers to a row of {row[2]} that is not there"
        for row in connection.exec_driver_sql("PRAGMA foreign_key_check")
    ]
    return [line for line in lines if line != "ok"] + broken
