"""Check and compact a database, and count its rows."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, func, inspect, select

from hostler.clock import Clock
from hostler.errors import HostlerError, StoreCorrupt
from hostler.store.admin.revision import read_revision, require_head
from hostler.store.engine import postgres
from hostler.store.engine.backend import Place, PostgresPlace, SqlitePlace
from hostler.store.engine.errors import missing, translated
from hostler.store.engine.locks import home_lock
from hostler.store.engine.sqlite import Patience, connect, queue_of
from hostler.store.schema import metadata, outbox, runs, tasks
from hostler.store.store import make_backend
from hostler.store.transaction import Transaction


def differences(connection: Connection) -> list[str]:
    """Every difference in a line of its own; none for a database as it should be."""
    context = MigrationContext.configure(
        connection,
        opts={"compare_type": True, "compare_server_default": _default_differs},
    )
    found = [_words(difference) for difference in compare_metadata(context, metadata)]
    return found or _other_keys(connection)


def _words(difference: Any) -> str:
    # A changed column comes as a list of changes, everything else as one tuple.
    change = difference[0] if isinstance(difference, list) else difference
    return " ".join(str(part) for part in change if part is not None)


def _default_differs(
    _context: Any, _found: Any, _expected: Any, found: str | None, _text: Any, expected: str | None
) -> bool:
    return _plain(found) != _plain(expected)


def _plain(default: str | None) -> str:
    """A default without what PostgreSQL adds when it prints one: casts, brackets, quotes."""
    return re.sub(r"::\w+|[\s()'\"]", "", default or "").lower()


def _other_keys(connection: Connection) -> list[str]:
    """Primary keys that differ, which Alembic does not compare."""
    inspector = inspect(connection)
    return [
        f"primary key of {table.name}"
        for table in metadata.sorted_tables
        if inspector.get_pk_constraint(table.name)["constrained_columns"]
        != [column.name for column in table.primary_key]
    ]


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


DATABASE_SIZE = "SELECT pg_database_size(current_database())"


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """Bytes before and after."""

    before: int
    after: int


def vacuum(home: Path, place: Place, *, clock: Clock, patience: Patience) -> Vacuumed:
    """Rebuild the database without its unused pages."""
    if isinstance(place, PostgresPlace):
        _require_ours(place, clock, patience)
        return _on_server(place, patience)
    # Long, and nobody else can write meanwhile: not under a running service.
    with home_lock(home, clock):
        _require_ours(place, clock, patience)
        with queue_of(place.writer).turn(patience, clock):
            return _file(place, patience)


def _require_ours(place: Place, clock: Clock, patience: Patience) -> None:
    # An empty file would become a database of nobody's.
    backend = make_backend(place, clock, patience)
    try:
        with translated(place, reading=True), backend.reading() as connection:
            if read_revision(connection, place) is None:
                raise missing(place)
    finally:
        backend.close()


def _file(place: SqlitePlace, patience: Patience) -> Vacuumed:
    with translated(place), closing(connect(place.path, "rw", patience.begin_seconds)) as database:
        before = _size(place)
        database.execute("VACUUM")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        database.execute("PRAGMA optimize")
    return Vacuumed(before, _size(place))


def _size(place: SqlitePlace) -> int:
    return sum(part.stat().st_size for part in (place.path, place.wal) if part.exists())


def _on_server(place: PostgresPlace, patience: Patience) -> Vacuumed:
    engine = postgres.make_engine(place, patience)
    try:
        with translated(place), engine.connect() as connection:
            database = connection.execution_options(isolation_level="AUTOCOMMIT")
            before = database.exec_driver_sql(DATABASE_SIZE).scalar_one()
            database.exec_driver_sql("VACUUM (ANALYZE)")
            return Vacuumed(before, database.exec_driver_sql(DATABASE_SIZE).scalar_one())
    finally:
        engine.dispose()


def census(tx: Transaction) -> dict[str, Any]:
    """Counts of rows, of tasks by state and gate, of runs by state and outcome, of writes."""
    tables = {
        table.name: int(tx.execute(select(func.count()).select_from(table)).scalar_one())
        for table in metadata.sorted_tables
    }
    groups = {
        "tasks_by_state": tasks.c.state,
        "tasks_by_gate": tasks.c.gate,
        "runs_by_state": runs.c.state,
        "runs_by_outcome": runs.c.outcome,
        "writes_by_state": outbox.c.state,
    }
    counted = {}
    for name, column in groups.items():
        rows: list[Any] = list(tx.execute(select(column, func.count()).group_by(column)).all())
        counted[name] = {str(value or "none"): int(count) for value, count in rows}
    return {"rows": tables, **counted}
