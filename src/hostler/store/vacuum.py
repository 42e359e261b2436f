"""Giving unused space back."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hostler.clock import Clock
from hostler.store import postgres
from hostler.store.homelock import home_lock
from hostler.store.place import Place, PostgresPlace, SqlitePlace
from hostler.store.revision import read_revision
from hostler.store.sqlite import connect
from hostler.store.store import make_backend
from hostler.store.translate import missing, translated
from hostler.store.writers import Patience, queue_of

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
