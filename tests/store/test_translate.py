"""Every foreign error is in a table, so none can surprise us."""

from __future__ import annotations

import inspect
import sqlite3

import psycopg
import pytest
import sqlalchemy.exc
from psycopg import errors as postgres_errors

from hostler.errors import HostlerError, StoreBusy, StoreConflict, StoreFull, StoreReadOnly
from hostler.store.engine.backend import find_place
from hostler.store.engine.errors import (
    CLASSES,
    SQLITE,
    SQLSTATES,
    Kind,
    kind_of,
    kind_of_class,
    translated,
)

# Not raised at run time, or no errors at all.
NOT_ERRORS = {"EmulatedDBAPIException"}


def errors_of(module):
    classes = [item for _, item in inspect.getmembers(module, inspect.isclass)]
    return [
        item
        for item in classes
        if issubclass(item, Exception)
        and not (issubclass(item, Warning) and module is sqlalchemy.exc)
        and item.__name__ not in NOT_ERRORS
        and item.__module__ != "builtins"
    ]


@pytest.mark.parametrize("module", [sqlalchemy.exc, sqlite3, psycopg, postgres_errors])
def test_every_class_of_errors_has_a_meaning(module):
    unknown = [item for item in errors_of(module) if kind_of_class(item) is None]
    assert unknown == []


def test_the_tables_name_only_what_exists():
    known = {
        f"{item.__module__.removesuffix('.errors')}.{item.__name__}"
        for module in (sqlalchemy.exc, sqlite3, psycopg, postgres_errors)
        for item in errors_of(module)
    }
    assert set(CLASSES) <= known


def primary_codes():
    # The names of the module also hold actions and limits; result codes are those of errors.
    names = [
        "ABORT",
        "AUTH",
        "BUSY",
        "CANTOPEN",
        "CONSTRAINT",
        "CORRUPT",
        "EMPTY",
        "ERROR",
        "FORMAT",
        "FULL",
        "INTERNAL",
        "INTERRUPT",
        "IOERR",
        "LOCKED",
        "MISMATCH",
        "MISUSE",
        "NOLFS",
        "NOMEM",
        "NOTADB",
        "NOTFOUND",
        "PERM",
        "PROTOCOL",
        "RANGE",
        "READONLY",
        "SCHEMA",
        "TOOBIG",
    ]
    return {getattr(sqlite3, f"SQLITE_{name}") for name in names}


def test_every_code_of_sqlite_has_a_meaning():
    assert primary_codes() <= set(SQLITE)
    # 1 to 26 are errors; 27 and 28 are notes, 100 and 101 are not failures.
    assert primary_codes() == set(range(1, 27))


def test_every_state_of_postgresql_has_a_meaning():
    found = {getattr(item, "sqlstate", None) for item in errors_of(postgres_errors)} - {None}
    assert len(found) > 200
    assert {state[:2] for state in found} <= set(SQLSTATES)


def sqlite_error(code):
    error = sqlite3.OperationalError("words")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY_SNAPSHOT, Kind.BUSY),
        (sqlite3.SQLITE_READONLY_DBMOVED, Kind.READ_ONLY),
        (sqlite3.SQLITE_IOERR_SHMSIZE, Kind.FULL),
        (sqlite3.SQLITE_IOERR_WRITE, Kind.DISK),
        (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, Kind.CONFLICT),
        (sqlite3.SQLITE_CORRUPT_INDEX, Kind.CORRUPT),
        (sqlite3.SQLITE_ERROR, Kind.BUG),
    ],
)
def test_extended_codes_count_before_primary_ones(code, kind):
    assert kind_of(sqlite_error(code)) is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (postgres_errors.DiskFull(), Kind.FULL),
        (postgres_errors.TooManyConnections(), Kind.UNREACHABLE),
        (postgres_errors.DeadlockDetected(), Kind.BUSY),
        (postgres_errors.LockNotAvailable(), Kind.BUSY),
        (postgres_errors.UniqueViolation(), Kind.CONFLICT),
        (postgres_errors.ReadOnlySqlTransaction(), Kind.READ_ONLY),
        (postgres_errors.InsufficientPrivilege(), Kind.NOT_GRANTED),
        (postgres_errors.UndefinedTable(), Kind.BUG),
        (postgres_errors.DataCorrupted(), Kind.CORRUPT),
        (postgres_errors.AdminShutdown(), Kind.UNREACHABLE),
        (postgres_errors.IoError(), Kind.DISK),
        (psycopg.OperationalError("no code"), Kind.UNREACHABLE),
        (postgres_errors.ConnectionTimeout(), Kind.UNREACHABLE),
        (sqlalchemy.exc.TimeoutError(), Kind.CROWDED),
    ],
)
def test_states_count_before_their_classes(error, kind):
    assert kind_of(error) is kind
    wrapped = sqlalchemy.exc.DBAPIError("SELECT", None, error)
    assert kind_of(wrapped) is kind


def test_errors_of_our_own_are_not_foreign():
    assert kind_of(HostlerError("ours")) is None
    assert kind_of(ValueError()) is None


@pytest.mark.parametrize(
    ("code", "ours"),
    [
        (sqlite3.SQLITE_BUSY, StoreBusy),
        (sqlite3.SQLITE_FULL, StoreFull),
        (sqlite3.SQLITE_CONSTRAINT, StoreConflict),
        (sqlite3.SQLITE_READONLY, StoreReadOnly),
    ],
)
def test_foreign_errors_leave_as_ours_and_say_what_is_safe(home, code, ours):
    with pytest.raises(ours) as caught, translated(find_place(home)):
        raise sqlite_error(code)
    assert caught.value.safe
    assert isinstance(caught.value.__cause__, sqlite3.Error)


def test_mistakes_of_our_own_pass_unchanged(home):
    with pytest.raises(sqlite3.OperationalError), translated(find_place(home)):
        raise sqlite_error(sqlite3.SQLITE_ERROR)
