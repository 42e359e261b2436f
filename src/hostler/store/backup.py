"""Backups: where they lie, how they are taken, and whether one can be trusted."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hostler.clock import Clock
from hostler.errors import StoreCorrupt, StoreError, StoreMissing
from hostler.model import stamp
from hostler.store import pgtools
from hostler.store.copies import Progress, copy_database
from hostler.store.owned import owned_on_server
from hostler.store.parts import private_folder, written
from hostler.store.place import Place, PostgresPlace, SqlitePlace
from hostler.store.revision import READ_REVISION, one_revision, require_known
from hostler.store.sqlite import connect
from hostler.store.translate import translated
from hostler.store.writers import Patience

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
    moment = stamp(clock.now()).replace("-", "").replace(":", "").replace(".", "")
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
        pgtools.dump(place, target, owned_on_server(place, Patience()))
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
        return one_revision(pgtools.revisions_in(file), SqlitePlace(file))
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
