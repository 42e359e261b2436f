"""Translate errors of SQLAlchemy and of the drivers into ours."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import exc

from hostler.errors import (
    HostlerError,
    StoreBusy,
    StoreConflict,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreMissing,
    StoreReadOnly,
    StoreUnreachable,
    StoreUnsteady,
)
from hostler.store.engine.backend import Place, PostgresPlace, SqlitePlace
from hostler.store.engine.locks import UNKNOWN, sqlite_writer


class Kind(Enum):
    """What a foreign error means to us."""

    BUSY = auto()
    CONFLICT = auto()
    CORRUPT = auto()
    FULL = auto()
    READ_ONLY = auto()
    NOT_GRANTED = auto()
    CROWDED = auto()
    DISK = auto()
    CANNOT_OPEN = auto()
    UNREACHABLE = auto()
    BUG = auto()


# SQLite: by extended code where it says more, else by primary code (the low byte).
SQLITE: dict[int, Kind] = {
    sqlite3.SQLITE_ERROR: Kind.BUG,
    sqlite3.SQLITE_INTERNAL: Kind.BUG,
    sqlite3.SQLITE_PERM: Kind.READ_ONLY,
    sqlite3.SQLITE_ABORT: Kind.BUG,
    sqlite3.SQLITE_BUSY: Kind.BUSY,
    sqlite3.SQLITE_LOCKED: Kind.BUSY,
    sqlite3.SQLITE_NOMEM: Kind.BUG,
    sqlite3.SQLITE_READONLY: Kind.READ_ONLY,
    sqlite3.SQLITE_INTERRUPT: Kind.BUG,
    sqlite3.SQLITE_IOERR: Kind.DISK,
    sqlite3.SQLITE_IOERR_SHMSIZE: Kind.FULL,
    sqlite3.SQLITE_IOERR_CORRUPTFS: Kind.CORRUPT,
    sqlite3.SQLITE_CORRUPT: Kind.CORRUPT,
    sqlite3.SQLITE_NOTFOUND: Kind.BUG,
    sqlite3.SQLITE_FULL: Kind.FULL,
    sqlite3.SQLITE_CANTOPEN: Kind.CANNOT_OPEN,
    sqlite3.SQLITE_PROTOCOL: Kind.BUSY,
    sqlite3.SQLITE_EMPTY: Kind.BUG,
    sqlite3.SQLITE_SCHEMA: Kind.BUSY,
    sqlite3.SQLITE_TOOBIG: Kind.BUG,
    sqlite3.SQLITE_CONSTRAINT: Kind.CONFLICT,
    sqlite3.SQLITE_MISMATCH: Kind.BUG,
    sqlite3.SQLITE_MISUSE: Kind.BUG,
    sqlite3.SQLITE_NOLFS: Kind.FULL,
    sqlite3.SQLITE_AUTH: Kind.BUG,
    sqlite3.SQLITE_FORMAT: Kind.CORRUPT,
    sqlite3.SQLITE_RANGE: Kind.BUG,
    sqlite3.SQLITE_NOTADB: Kind.CORRUPT,
}

# PostgreSQL: by whole state where it says more, else by its class (the first two letters).
SQLSTATES: dict[str, Kind] = {
    **dict.fromkeys(("02", "03", "09", "0A", "0B", "0F", "0L", "0P", "0Z"), Kind.BUG),
    **dict.fromkeys(("10", "20", "21", "22", "24", "25", "26", "27", "2B", "2D", "2F"), Kind.BUG),
    **dict.fromkeys(("34", "38", "39", "3B", "3F", "42", "44", "54", "72", "F0"), Kind.BUG),
    **dict.fromkeys(("HV", "P0"), Kind.BUG),
    "08": Kind.UNREACHABLE,  # connection lost or refused
    "23": Kind.CONFLICT,  # a constraint
    "25006": Kind.READ_ONLY,  # a standby, or a read-only transaction
    "28": Kind.UNREACHABLE,  # who we are is not accepted
    "3D": Kind.UNREACHABLE,  # no such database
    "40": Kind.BUSY,  # deadlock or serialisation: try again
    "42501": Kind.NOT_GRANTED,  # a missing grant
    "53": Kind.UNREACHABLE,  # the server lacks memory or connections
    "53100": Kind.FULL,
    "55": Kind.BUSY,  # somebody else has it
    "57": Kind.UNREACHABLE,  # stopped by an operator
    "57014": Kind.BUSY,  # cancelled after waiting too long
    "58": Kind.DISK,
    "XX": Kind.BUG,
    "XX001": Kind.CORRUPT,
    "XX002": Kind.CORRUPT,
}

# By class, for errors without a code; the nearest class in the error's own line counts.
CLASSES: dict[str, Kind] = {
    "sqlite3.Error": Kind.BUG,
    "sqlite3.Warning": Kind.BUG,
    "psycopg.Error": Kind.BUG,
    "psycopg.OperationalError": Kind.UNREACHABLE,
    "psycopg.Warning": Kind.BUG,
    "psycopg.Rollback": Kind.BUG,
    "sqlalchemy.exc.SQLAlchemyError": Kind.BUG,
    "sqlalchemy.exc.DisconnectionError": Kind.UNREACHABLE,
    "sqlalchemy.exc.TimeoutError": Kind.CROWDED,
}


def kind_of(error: BaseException) -> Kind | None:
    """What a foreign error means; None for errors that are not foreign."""
    if isinstance(error, exc.StatementError) and error.orig is not None:
        return kind_of(error.orig)
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, sqlite3.Error) and code is not None:
        return SQLITE.get(code, SQLITE.get(code & 0xFF, Kind.BUG))
    state = getattr(error, "sqlstate", None)
    if isinstance(state, str):
        return SQLSTATES.get(state, SQLSTATES.get(state[:2], Kind.BUG))
    return kind_of_class(type(error))


def kind_of_class(error: type[BaseException]) -> Kind | None:
    """What a class of errors without a code means."""
    for base in error.__mro__:
        # psycopg shows its classes under its own name, whatever file they are in.
        kind = CLASSES.get(f"{base.__module__.removesuffix('.errors')}.{base.__name__}")
        if kind is not None:
            return kind
    return None


@contextmanager
def translated(place: Place, *, reading: bool = False) -> Iterator[None]:
    """Let foreign errors leave this block as ours; who waited in vain did so since its start."""
    began = time.monotonic()
    try:
        yield
    except (exc.SQLAlchemyError, sqlite3.Error) as error:
        kind = kind_of(error)
        if kind is None or kind is Kind.BUG:
            raise
        if kind in {Kind.BUSY, Kind.CROWDED}:
            raise _busy(kind, place, time.monotonic() - began) from error
        raise _ours(kind, place, error, reading) from error


def _busy(kind: Kind, place: Place, waited: float) -> StoreBusy:
    if kind is Kind.CROWDED:
        return _crowded(waited)
    holder = sqlite_writer(place.shm) if isinstance(place, SqlitePlace) else None
    return StoreBusy(holder or UNKNOWN, waited)


def _crowded(waited: float) -> StoreBusy:
    error = StoreBusy("this process", waited)
    error.what = (
        "This process has too many transactions open at once; "
        f"none ended in time (waited {waited:.0f} s)."
    )
    error.args = (error.what,)
    error.remedy = "Try again; if it stays so, something keeps its transactions open."
    return error


def _ours(kind: Kind, place: Place, error: Exception, reading: bool) -> HostlerError:
    cause = getattr(error, "orig", None) or error
    if kind is Kind.CANNOT_OPEN:
        return _cannot_open(place, cause)
    if kind is Kind.UNREACHABLE and isinstance(place, PostgresPlace):
        from hostler.store.engine.postgres import explain

        return explain(place, cause)
    if kind is Kind.NOT_GRANTED:
        return _not_granted(place, cause, reading)
    if kind is Kind.DISK and _is_full(place):
        return _full(place, cause)
    if kind is Kind.READ_ONLY and reading and _was_asked_to_write(cause):
        return StoreReadOnly("A read-only transaction was asked to write.", safe=_UNCHANGED)
    return _WORDS.get(kind, _disk)(place, cause)


_NO_SPACE = 1024 * 1024
_UNCHANGED = "Nothing was written; what was stored before is as it was."


def _conflict(place: Place, cause: Any) -> HostlerError:  # noqa: ARG001
    return StoreConflict(
        f"A row is not as the writer expected: {first_line(cause)}", safe=_UNCHANGED
    )


def _corrupt(place: Place, cause: Any) -> HostlerError:
    return StoreCorrupt(
        f"The database {place} is damaged: {first_line(cause)}",
        safe="Backups are not touched; they lie in the home's folder `backups`.",
        remedy="Look with `hostler db check`; go back with `hostler db restore FILE`.",
    )


def _full(place: Place, cause: Any) -> HostlerError:
    return StoreFull(
        f"No space is left for the database {place} ({first_line(cause)}).",
        safe=_UNCHANGED,
        remedy="Free some space; nothing needs repair.",
    )


def _read_only(place: Place, cause: Any) -> HostlerError:
    return StoreReadOnly(
        f"The database {place} cannot be written ({first_line(cause)}).",
        safe=_UNCHANGED,
        remedy="Look at owner, permissions and mount of the file and its folder, or at grants.",
    )


def _not_granted(place: Place, cause: Any, reading: bool) -> HostlerError:
    error = StoreUnreachable if reading else StoreReadOnly
    return error(
        f"The PostgreSQL server does not let us use all of {place}: {first_line(cause)}",
        safe=_UNCHANGED,
        remedy="Look at the grants of this user, or name another one in the database URL.",
    )


def _was_asked_to_write(cause: Any) -> bool:
    # SQLite's longer codes are about the file or its folder, not about what was asked.
    code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_READONLY)
    return bool(code == sqlite3.SQLITE_READONLY)


def _is_full(place: Place) -> bool:
    # SQLite often has no better word for a full disk than "I/O error".
    if not isinstance(place, SqlitePlace):
        return False
    try:
        return shutil.disk_usage(place.path.parent).free < _NO_SPACE
    except OSError:
        return False


def _disk(place: Place, cause: Any) -> HostlerError:
    return StoreError(
        f"The disk below the database {place} failed: {first_line(cause)}",
        safe=_UNCHANGED,
        remedy="Look at the system's log; then run `hostler db check`.",
    )


_WORDS = {
    Kind.CONFLICT: _conflict,
    Kind.CORRUPT: _corrupt,
    Kind.FULL: _full,
    Kind.READ_ONLY: _read_only,
    Kind.DISK: _disk,
}


def _cannot_open(place: Place, cause: Any) -> HostlerError:
    # SQLite has one code for all of these, so we look at the file ourselves.
    if isinstance(place, SqlitePlace):
        if not place.exists():
            return missing(place)
        if not os.access(place.path.parent, os.W_OK) or not os.access(place.path, os.W_OK):
            return _read_only(place, cause)
        if place.path.is_dir():
            return StoreError(
                f"There is a folder where the database should be: {place}",
                safe="Nothing was touched.",
                remedy="Move it away, or use another home.",
            )
        if _is_full(place):
            return _full(place, cause)
        if _opens(place.path):
            # As where somebody made it after SQLite had looked for it.
            return StoreUnsteady(
                f"The database {place} could not be opened for a moment.",
                safe=_UNCHANGED,
                remedy="Try again.",
            )
    return _disk(place, cause)


def _opens(path: Path) -> bool:
    address = f"file:{quote(os.fsencode(path))}?mode=rw"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.OperationalError as error:
        # Whoever makes it holds it for a moment.
        return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
    except sqlite3.Error:
        return False
    return True


def missing(place: Place) -> StoreError:
    """There is no database at this place yet."""
    if isinstance(place, SqlitePlace) and place.leads_nowhere():
        return StoreError(
            f"{place} is a link to {place.path.readlink()}, which is not there.",
            safe="Nothing was touched.",
            remedy="Mount or bring back what it leads to, or remove the link.",
        )
    return StoreMissing(
        f"There is no database yet at {place}.",
        safe="Nothing was touched.",
        remedy="Create it with: hostler db upgrade",
    )


def first_line(cause: object) -> str:
    """The foreign words, for people to read; never for us to match."""
    lines = str(cause).strip().splitlines()
    return lines[0] if lines else type(cause).__name__
