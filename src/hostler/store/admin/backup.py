"""Back up a database and restore it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from pathlib import Path

from sqlalchemy import Connection, insert, inspect, select, update

from hostler import __version__
from hostler.clock import Clock
from hostler.errors import StoreBusy, StoreCorrupt, StoreError, StoreMissing, StoreNewer
from hostler.model import format_timestamp
from hostler.store.admin.revision import (
    READ_REVISION,
    REVISIONS,
    one_revision,
    read_revision,
    require_known,
)
from hostler.store.engine import locks
from hostler.store.engine.backend import Place, PostgresPlace, SqlitePlace
from hostler.store.engine.errors import Kind, kind_of, translated
from hostler.store.engine.locks import home_lock, part_of, private_folder, sync, written
from hostler.store.engine.postgres import make_engine, migration_lock
from hostler.store.engine.sqlite import Patience, connect, queue_of
from hostler.store.schema import metadata, store_meta
from hostler.store.transaction import Transaction

# Told of pages done and pages in all.
Progress = Callable[[int, int], None]
_PAGES_PER_STEP = 4096
_COPY_TIMEOUT = 5.0


def copy_database(source: SqlitePlace, target: Path, progress: Progress, *, mode: str) -> None:
    """Write one moment of a database into a new file, which appears only when it is whole."""
    with (
        translated(source),
        closing(connect(source.path, mode, _COPY_TIMEOUT)) as origin,
        part_of(target) as part,
        translated(SqlitePlace(target)),
        closing(connect(part, "rw", _COPY_TIMEOUT)) as copy,
    ):
        _pin(origin)
        _copy(origin, copy, progress)


def _pin(origin: sqlite3.Connection) -> None:
    # Reading pins one moment: writers go on, and the copy need not start again for them.
    origin.execute("BEGIN")
    origin.execute("SELECT count(*) FROM sqlite_master").fetchone()


def _copy(origin: sqlite3.Connection, copy: sqlite3.Connection, progress: Progress) -> None:
    origin.backup(
        copy,
        pages=_PAGES_PER_STEP,
        progress=lambda _status, left, total: progress(total - left, total),
        sleep=0,
    )
    # One file alone: a copy that needs its -wal beside it is easily torn apart.
    copy.execute("PRAGMA journal_mode=DELETE")


# How long a dump or a restore waits for tables that others use.
LOCK_MILLISECONDS = 15_000


def find_tool(name: str) -> str | None:
    """A program of PostgreSQL: on the path, or where Debian keeps the newest one."""
    found = shutil.which(name)
    if found:
        return found
    beside = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    return str(beside[0]) if beside else None


def dump(place: PostgresPlace, target: Path, tables: Sequence[str]) -> None:
    """Write one moment of the tables into a new file, which appears only when it is whole."""
    if find_tool("pg_dump") is None:
        raise StoreError(
            "No backup can be taken: pg_dump is not installed.",
            safe="Nothing was touched.",
            remedy="Install PostgreSQL's client programs, or take a backup of your own "
            "and say --no-backup.",
        )
    # Quoted, or it would be a pattern.
    which = [f'--table="{name}"' for name in tables]
    how = ("--format=custom", "--no-owner", f"--lock-wait-timeout={LOCK_MILLISECONDS}")
    with part_of(target) as part:
        _run("pg_dump", *how, f"--file={part}", *which, _at(place))


def revisions_in(file: Path) -> list[str]:
    """The layouts that a dump notes, which should be one; fails on what is not a dump."""
    only = ("--data-only", "--table=alembic_version", "--file=-")
    lines = iter(_run("pg_restore", *only, str(file)).splitlines())
    if not any(line.startswith("COPY ") and "alembic_version" in line for line in lines):
        return []
    return [line.strip() for line in takewhile(lambda line: line != "\\.", lines)]


def undump(place: PostgresPlace, file: Path, tables: Sequence[str]) -> None:
    """Put a dump in place of the tables, in one transaction."""
    script = _run("pg_restore", "--no-owner", "--file=-", str(file))
    # All of ours, not only those in the dump: an older one has fewer.
    names = ", ".join(f'"{name}"' for name in tables)
    drop = [f"--command=DROP TABLE IF EXISTS {names}"] if tables else []
    how = ("--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1", _at(place))
    _run("psql", *how, *drop, "--file=-", stdin=script)


def _at(place: PostgresPlace) -> str:
    return f"--dbname={place.bounded(LOCK_MILLISECONDS)}"


def _run(name: str, *argv: str, stdin: str = "") -> str:
    tool = find_tool(name)
    if tool is None:
        raise StoreError(
            f"{name} is not installed.",
            safe="Nothing was touched.",
            remedy="Install PostgreSQL's client programs.",
        )
    # Without a terminal to ask on, a missing password is an error and not a silent wait.
    quiet = [] if name == "pg_restore" else ["--no-password"]
    done = subprocess.run(
        [tool, *quiet, *argv], capture_output=True, text=True, check=False, input=stdin
    )
    if done.returncode:
        words = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise StoreError(f"{name} failed: {words}", safe="Nothing was changed.")
    return done.stdout


STORE_ID, CREATED_AT, CREATED_BY = "store_id", "created_at", "created_by"
UPGRADED_AT, UPGRADED_BY = "upgraded_at", "upgraded_by"
# The tables that migrations made, so that an older program can copy and drop all of them.
TABLES = "tables"


def read_meta(tx: Transaction) -> dict[str, str]:
    """All facts, by key."""
    rows = tx.execute(select(store_meta.c.key, store_meta.c.value))
    return {str(row.key): str(row.value) for row in rows}


def noted_tables(connection: Connection) -> set[str]:
    """Our tables, as the last upgrade noted them; none in a database from before such notes."""
    noted = select(store_meta.c.value).where(store_meta.c.key == TABLES)
    return set((connection.execute(noted).scalar() or "").split())


def note_upgrade(connection: Connection, now: datetime, tables: Iterable[str]) -> None:
    """Note who made the database, who changed it last, and which tables it has now."""
    known = {str(row[0]) for row in connection.execute(select(store_meta.c.key))}
    facts = {
        UPGRADED_AT: format_timestamp(now),
        UPGRADED_BY: __version__,
        TABLES: " ".join(sorted(tables)),
    }
    if STORE_ID not in known:
        facts |= {
            STORE_ID: uuid.uuid4().hex,
            CREATED_AT: format_timestamp(now),
            CREATED_BY: __version__,
        }
    for key, value in facts.items():
        if key in known:
            connection.execute(
                update(store_meta).where(store_meta.c.key == key).values(value=value)
            )
        else:
            connection.execute(insert(store_meta).values(key=key, value=value))


VERSION_TABLE = "alembic_version"


def owned_on_server(place: PostgresPlace, patience: Patience) -> list[str]:
    """Our tables on a server; none where the database is empty. Raises where that is unknown."""
    engine = make_engine(place, patience)
    try:
        # A transaction of its own: its locks must be gone before anybody drops a table.
        with translated(place, reading=True), engine.connect() as connection:
            return owned_tables(connection, place)
    finally:
        engine.dispose()


def owned_tables(connection: Connection, place: Place) -> list[str]:
    """Our tables, in the order of their names."""
    revision = read_revision(connection, place)
    if revision is None:
        return []
    noted = noted_tables(connection)
    if revision not in REVISIONS and not noted:
        raise StoreNewer(
            f"The database {place} has layout {revision}, which this program does not know, "
            "and does not say which tables belong to it.",
            safe="Nothing was touched: a copy could have lacked some of them.",
            remedy="Use the newer Hostler for this.",
        )
    present = set(inspect(connection).get_table_names())
    return sorted(present & {*noted, *metadata.tables, VERSION_TABLE})


FOLDER = "backups"
_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was taken, or looked at."""

    path: Path
    revision: str
    size: int


def backup_path(home: Path, place: Place, revision: str, clock: Clock) -> Path:
    """A new name in the home's folder of backups."""
    folder = home / FOLDER
    ending = "db" if isinstance(place, SqlitePlace) else "dump"
    moment = format_timestamp(clock.now()).replace("-", "").replace(":", "").replace(".", "")
    path = folder / f"hostler-{revision}-{moment}.{ending}"
    tries = 1
    with written(path):
        while path.exists():
            tries += 1
            path = folder / f"hostler-{revision}-{moment}-{tries}.{ending}"
    return path


def take_backup(place: Place, target: Path, revision: str, progress: Progress) -> Backup:
    """Copy the database, while others use it, into a file that does not exist yet."""
    with written(target):
        taken = target.exists()
        private_folder(target.parent)
    if taken:
        raise StoreError(
            f"{target} exists already.", safe="It was not touched.", remedy="Name another file."
        )
    if isinstance(place, PostgresPlace):
        dump(place, target, owned_on_server(place, Patience()))
    else:
        copy_database(place, target, progress, mode="rw")
    return Backup(target, revision, target.stat().st_size)


def verify_backup(place: Place, file: Path) -> Backup:
    """Read a whole backup and say what it is, or raise why it cannot be used."""
    if not _is_file(file):
        raise StoreMissing(
            f"There is no backup at {file}.",
            safe="Nothing was touched.",
            remedy="Backups lie in the home's folder `backups`.",
        )
    read = _dump_revision if isinstance(place, PostgresPlace) else _copy_revision
    revision = read(file)
    if revision is None:
        raise StoreError(f"{file} is not a backup of Hostler.", safe="Nothing was touched.")
    require_known(revision, SqlitePlace(file))
    return Backup(file, revision, file.stat().st_size)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        raise StoreError(
            f"{path} cannot be looked at: {error.strerror}.",
            safe="Nothing was touched.",
            remedy="Look at the permissions of the folders above it.",
        ) from error


def _dump_revision(file: Path) -> str | None:
    try:
        return one_revision(revisions_in(file), SqlitePlace(file))
    except StoreError as error:
        raise _damaged(file, error.what) from error


def _copy_revision(file: Path) -> str | None:
    try:
        with translated(SqlitePlace(file)), closing(connect(file, "ro", _TIMEOUT)) as copy:
            found = [str(row[0]) for row in copy.execute("PRAGMA integrity_check(10)")]
            if found != ["ok"]:
                raise _damaged(file, found[0])
            tables = {row[0] for row in copy.execute("SELECT name FROM sqlite_master")}
            if "alembic_version" not in tables:
                return None
            noted = [str(row[0]) for row in copy.execute(READ_REVISION)]
            return one_revision(noted, SqlitePlace(file))
    except StoreCorrupt as error:
        raise _damaged(file, error.what) from error


def _damaged(file: Path, why: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"The backup {file} cannot be used: {why}",
        safe="The database was not touched.",
        remedy="Use another backup.",
    )


@dataclass(frozen=True, slots=True)
class Restored:
    """What was put in place, and where the database before it is now."""

    backup: Backup
    kept: Path | None


def restore(
    home: Path, place: Place, file: Path, *, clock: Clock, patience: Patience, progress: Progress
) -> Restored:
    """Replace the database by a backup."""
    backup = verify_backup(place, file)
    with home_lock(home, clock):
        if isinstance(place, PostgresPlace):
            with migration_lock(place, patience):
                kept = _replace_on_server(home, place, file, clock, patience, progress)
            return Restored(backup, kept)
        with queue_of(place.writer).turn(patience, clock) as turn:
            if not turn.in_order:
                raise StoreBusy(queue_of(place.writer).holder(), turn.waited)
            return Restored(backup, _replace_file(home, place, file, clock, patience, progress))


def _replace_on_server(
    home: Path,
    place: PostgresPlace,
    file: Path,
    clock: Clock,
    patience: Patience,
    progress: Progress,
) -> Path | None:
    ours = owned_on_server(place, patience)
    kept = backup_path(home, place, "replaced", clock) if ours else None
    if kept is not None:
        take_backup(place, kept, "replaced", progress)
    undump(place, file, ours)
    return kept


def _replace_file(
    home: Path,
    place: SqlitePlace,
    file: Path,
    clock: Clock,
    patience: Patience,
    progress: Progress,
) -> Path | None:
    staged = place.path.with_name(place.path.name + ".restoring")
    staged.unlink(missing_ok=True)
    copy_database(SqlitePlace(file), staged, progress, mode="ro")
    try:
        kept = _keep(home, place, clock, patience) if place.exists() else None
        staged.replace(place.path)
    except BaseException:
        with suppress(OSError):
            staged.unlink(missing_ok=True)
        raise
    sync(place.path.parent)
    return kept


def _keep(home: Path, place: SqlitePlace, clock: Clock, patience: Patience) -> Path:
    """Give the present database a second name, and leave nothing beside it that outlives it."""
    moment = format_timestamp(clock.now()).replace(":", "").replace(".", "")
    kept = SqlitePlace(home / FOLDER / f"replaced-{moment}" / place.path.name)
    _link(place, kept)
    try:
        whole = _end_wal(place, patience)
    except BaseException:
        shutil.rmtree(kept.path.parent, ignore_errors=True)
        raise
    if whole:
        # All of it is in the file now, which both names lead to.
        kept.wal.unlink(missing_ok=True)
    # A -wal left beside the new database would be replayed into it.
    place.wal.unlink(missing_ok=True)
    place.shm.unlink(missing_ok=True)
    return kept.path


def _link(place: SqlitePlace, kept: SqlitePlace) -> None:
    # Before anybody opens the file: SQLite removes the log of a database that it cannot read.
    try:
        private_folder(kept.path.parent.parent)
        kept.path.parent.mkdir(mode=0o700)
        os.link(place.path, kept.path)
        if place.wal.exists():
            os.link(place.wal, kept.wal)
        sync(kept.path.parent)
    except OSError as error:
        raise StoreError(
            f"The present database could not be kept in {kept.path.parent}: {error.strerror}.",
            safe="It was not replaced.",
            remedy="Look at the home's folder `backups`.",
        ) from error


def _end_wal(place: SqlitePlace, patience: Patience) -> bool:
    """Leave WAL mode; False for a database that cannot be read, the best reason to restore one."""
    # It needs the file for oneself: it fails where anybody else has it open.
    try:
        with closing(connect(place.path, "rw", patience.begin_seconds)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        if kind_of(error) is Kind.BUSY:
            holder = locks.sqlite_writer(place.shm) or "another process that has it open"
            raise StoreBusy(holder, patience.begin_seconds) from error
        return False
    return True
