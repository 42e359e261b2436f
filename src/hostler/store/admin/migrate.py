"""Create a database or upgrade it to this program's schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect

from hostler.clock import Clock
from hostler.errors import HostlerError, StoreError, StoreMissing
from hostler.store.admin.backup import (
    Backup,
    Progress,
    backup_path,
    note_upgrade,
    owned_tables,
    take_backup,
)
from hostler.store.admin.revision import HEAD, read_revision, require_known
from hostler.store.engine import postgres, sqlite
from hostler.store.engine.backend import Place, PostgresPlace, SqlitePlace
from hostler.store.engine.errors import missing, translated
from hostler.store.engine.locks import home_lock
from hostler.store.engine.sqlite import Patience, queue_of
from hostler.store.store import make_backend

MIGRATIONS = Path(__file__).parent.parent / "migrations"


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What an upgrade did. `before` is None for a database that it created."""

    before: str | None
    after: str
    backup: Backup | None

    @property
    def changed(self) -> bool:
        """Return True if the upgrade changed anything."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Plan:
    """The revision to upgrade to, and the migrations to use."""

    to: str = HEAD
    migrations: Path = MIGRATIONS
    with_backup: bool = True


def upgrade(
    home: Path,
    place: Place,
    *,
    clock: Clock,
    patience: Patience,
    progress: Progress,
    plan: Plan | None = None,
) -> Upgrade:
    """Create the database, or upgrade it to this program's schema atomically."""
    with home_lock(home, clock):
        return upgrade_under_lock(
            home, place, clock=clock, patience=patience, progress=progress, plan=plan
        )


def upgrade_under_lock(
    home: Path,
    place: Place,
    *,
    clock: Clock,
    patience: Patience,
    progress: Progress,
    plan: Plan | None = None,
) -> Upgrade:
    """Upgrade while the caller holds the lock of the home."""
    plan = plan or Plan()
    before = present_revision(place, clock, patience)
    if before == plan.to:
        return Upgrade(before, before, None)
    if before is not None:
        require_known(before, place)
    backup = None
    if before is not None and plan.with_backup:
        path = backup_path(home, place, before, clock)
        backup = take_backup(place, path, before, progress)
    with _failing(before, plan, backup), _migrating(place, clock, patience) as connection:
        _migrate(connection, place, before, plan, clock)
    return Upgrade(before, plan.to, backup)


def present_revision(place: Place, clock: Clock, patience: Patience) -> str | None:
    """Return the revision of a database; None if there is no database yet."""
    if isinstance(place, SqlitePlace) and not place.exists():
        if place.leads_nowhere():
            raise missing(place)
        return None
    backend = make_backend(place, clock, patience)
    try:
        with translated(place, reading=True), backend.reading() as connection:
            return read_revision(connection, place)
    finally:
        backend.close()


def _migrate(
    connection: Connection, place: Place, before: str | None, plan: Plan, clock: Clock
) -> None:
    if read_revision(connection, place) != before:
        raise StoreError(
            "Another process has just upgraded the database.",
            safe="Nothing was changed here.",
            remedy="Run the command again.",
        )
    config = Config()
    # Alembic's settings give % a meaning of its own.
    config.set_main_option("script_location", str(plan.migrations).replace("%", "%%"))
    config.attributes["connection"] = connection
    owned = set(owned_tables(connection, place))
    there = _tables(connection)
    command.upgrade(config, plan.to)
    after = _tables(connection)
    note_upgrade(connection, clock.now(), (owned & after) | (after - there))
    if isinstance(place, SqlitePlace):
        _require_foreign_keys(connection)
    connection.commit()


def _tables(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names())


def _require_foreign_keys(connection: Connection) -> None:
    # Foreign keys are off while tables are rebuilt, so check them at the end.
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    if broken:
        raise StoreError(f"{len(broken)} rows refer to rows that are not there.")


@contextmanager
def _migrating(place: Place, clock: Clock, patience: Patience) -> Iterator[Connection]:
    """Yield a connection in a transaction that no other migration shares."""
    if isinstance(place, PostgresPlace):
        with _opened(lambda: postgres.make_engine(place, patience), place) as connection:
            postgres.take_migration_lock(connection)
            yield connection
        return
    turn = queue_of(place.writer).turn(patience, clock)
    with turn, _opened(lambda: _sqlite_engine(place, patience), place) as connection:
        yield connection


@contextmanager
def _opened(make: Callable[[], Engine], place: Place) -> Iterator[Connection]:
    engine = make()
    try:
        with translated(place), engine.connect() as connection:
            connection.begin()
            yield connection
    finally:
        engine.dispose()


def _sqlite_engine(place: SqlitePlace, patience: Patience) -> Engine:
    return sqlite.make_engine(
        lambda: sqlite.create(place.path, patience.begin_seconds),
        "BEGIN IMMEDIATE",
        "journal_mode=WAL",
        "synchronous=FULL",
        # Rebuilding a table would otherwise delete the rows that refer to it.
        "foreign_keys=OFF",
    )


@contextmanager
def _failing(before: str | None, plan: Plan, backup: Backup | None) -> Iterator[None]:
    """Say of every failure that it was rolled back, and where the backup is."""
    undone = "Every change was rolled back"
    undone += f"; a backup from before is at {backup.path}." if backup else "."
    try:
        yield
    except StoreMissing:
        raise
    except HostlerError as error:
        error.safe = f"{error.safe} {undone}".strip()
        raise
    except Exception as error:
        raise StoreError(
            f"The upgrade from {before or 'nothing'} to {plan.to} failed: "
            f"{type(error).__name__}: {error}",
            safe=undone,
            remedy="Please report this; the program before this one still works with the database.",
        ) from error


def known_revisions(migrations: Path = MIGRATIONS) -> list[str]:
    """Return the revisions of the migrations, oldest first."""
    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    script = ScriptDirectory.from_config(config)
    return [item.revision for item in script.walk_revisions()][::-1]
