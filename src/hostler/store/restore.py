"""Going back to a backup: the present database is kept aside, and replaced in one step.

A kill at any moment leaves a whole database in place: the old one or the new one.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from hostler.clock import Clock
from hostler.errors import StoreBusy, StoreError
from hostler.model import stamp
from hostler.store import holders, pgtools
from hostler.store.backup import FOLDER, Backup, backup_path, take_backup, verify_backup
from hostler.store.copies import Progress, copy_database
from hostler.store.homelock import home_lock
from hostler.store.owned import owned_on_server
from hostler.store.parts import private_folder, sync
from hostler.store.place import Place, PostgresPlace, SqlitePlace
from hostler.store.postgres import migration_lock
from hostler.store.sqlite import connect
from hostler.store.translate import Kind, kind_of
from hostler.store.writers import Patience, queue_of


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
    pgtools.undump(place, file, ours)
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
    moment = stamp(clock.now()).replace(":", "").replace(".", "")
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
            holder = holders.sqlite_writer(place.shm) or "another process that has it open"
            raise StoreBusy(holder, patience.begin_seconds) from error
        return False
    return True
