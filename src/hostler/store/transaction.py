"""One open transaction: statements, upserts, batches, stored timestamps, metrics."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, CursorResult, Executable, Table
from sqlalchemy.dialects import sqlite

from hostler.model import format_timestamp, parse_timestamp
from hostler.store.engine.backend import Place, PostgresPlace
from hostler.store.engine.errors import translated
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import STORE_TRANSACTIONS, STORE_WRITE_WAIT

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql


T = TypeVar("T")
Values = Mapping[str, Any] | Sequence[Mapping[str, Any]]

# Databases limit how many values one statement may carry.
MAX_VALUES_PER_STATEMENT = 400


def batches(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield the values in lists that fit into one statement each."""
    left = iter(values)
    while batch := list(islice(left, MAX_VALUES_PER_STATEMENT)):
        yield batch


class Transaction:
    """Statements between the begin and the end of a transaction block."""

    def __init__(
        self, place: Place, connection: Connection, clock: Callable[[], datetime], *, reading: bool
    ) -> None:
        self.reading = reading
        self._place = place
        self._connection = connection
        self._clock = clock
        self._now: datetime | None = None
        self._process = os.getpid()
        self._closed = False
        self.failure: Exception | None = None
        self._afterwards: list[Callable[[], None]] = []

    @property
    def on_postgres(self) -> bool:
        """Return True on PostgreSQL, where statements must differ."""
        return isinstance(self._place, PostgresPlace)

    def execute(self, statement: Executable, values: Values | None = None) -> CursorResult[Any]:
        """Run a statement of SQLAlchemy Core."""
        return self._run(lambda: self._connection.execute(statement, values))

    def constant(self, sql: str, values: Sequence[Any] = ()) -> CursorResult[Any]:
        """Run a constant SQL statement directly through the driver; `?` marks a value.

        For hot paths only: it skips building and compiling statements, and their checks.
        """
        if self.on_postgres:
            sql = _for_psycopg(sql)
        return self._run(lambda: self._connection.exec_driver_sql(sql, tuple(values)))

    def now(self) -> datetime:
        """Return this transaction's time, by the server's clock or the injected one."""
        if self._now is None:
            self._require_open()
            moment = self._clock()
            # As precise as it is stored, so that a time equals its stored form.
            self._now = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        return self._now

    def stamp(self) -> str:
        """This transaction's moment as stored."""
        return format_timestamp(self.now())

    def after_commit(self, act: Callable[[], None]) -> None:
        """Call this after the commit, and never after a rollback. For counting."""
        self._afterwards.append(act)

    def committed(self) -> None:
        """Call the `after_commit` functions."""
        for act in self._afterwards:
            act()

    def close(self) -> None:
        """Mark the transaction as ended: it must not be used any more."""
        self._closed = True

    def inherited(self) -> bool:
        """Return True in a forked child that inherited its parent's transaction."""
        return self._process != os.getpid()

    def _run(self, action: Callable[[], CursorResult[Any]]) -> CursorResult[Any]:
        self._require_open()
        try:
            with translated(self._place, reading=self.reading):
                return action()
        except Exception as error:
            # Some errors end SQLite's transaction by themselves; continuing would commit statement
            # by statement.
            self.failure = self.failure or error
            raise

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("this transaction has ended: it was used after its block")
        if self.inherited():
            raise RuntimeError("this transaction belongs to the parent process")
        if self.failure is not None:
            raise RuntimeError("a statement failed in this transaction: leave its block")


@cache
def _for_psycopg(sql: str) -> str:
    if "%" in sql:
        raise ValueError("constant statements contain no %, which psycopg would read as a value")
    return sql.replace("?", "%s")


def insert_if_absent(tx: Transaction, table: Table, row: Mapping[str, Any]) -> None:
    """Insert a row unless its primary key exists."""
    statement = _insert(tx, table).values(**row)
    tx.execute(statement.on_conflict_do_nothing(index_elements=_key(table)))


def insert_if_new(
    tx: Transaction, table: Table, row: Mapping[str, Any], *, key: Sequence[str]
) -> bool:
    """Insert a row unless these columns' values exist. Return False if they do."""
    insert = _insert(tx, table).values(**row).inline()
    maybe = insert.on_conflict_do_nothing(index_elements=list(key))
    # Otherwise PostgreSQL's row count is dropped before it can be read.
    return tx.execute(maybe.execution_options(preserve_rowcount=True)).rowcount == 1


def insert_or_update(tx: Transaction, table: Table, row: Mapping[str, Any]) -> None:
    """Insert a row, or update the row with the same primary key."""
    statement = _insert(tx, table).values(**row)
    key = _key(table)
    changed = {name: statement.excluded[name] for name in row if name not in key}
    tx.execute(statement.on_conflict_do_update(index_elements=key, set_=changed))


def _insert(tx: Transaction, table: Table) -> sqlite.Insert | postgresql.Insert:
    if not tx.on_postgres:
        return sqlite.insert(table)
    # Imported here because it loads slowly, and most homes have no server.
    from sqlalchemy.dialects.postgresql import insert

    return insert(table)


def _key(table: Table) -> list[str]:
    return [column.name for column in table.primary_key]


def clamped_deadline(stored: datetime, now: datetime, maximum: timedelta) -> datetime:
    """Return a stored deadline, at most `maximum` ahead of now."""
    return min(stored, now + maximum)


def not_after(stored: datetime, now: datetime) -> datetime:
    """Return a stored past time, or now if it lies in the future."""
    return min(stored, now)


def age(stored: datetime, now: datetime) -> timedelta:
    """Return how long ago a stored time was; never negative."""
    return now - not_after(stored, now)


def seconds_between(earlier: str, later: str) -> float:
    """Return the seconds between two stored times; never negative."""
    return max((parse_timestamp(later) - parse_timestamp(earlier)).total_seconds(), 0.0)


def normal_stamp(text: str) -> str:
    """Return a received UTC timestamp in our format, in which text order is time order."""
    return format_timestamp(parse_timestamp(text))


@contextmanager
def metered(kind: str) -> Iterator[Callable[[], None]]:
    """Count a transaction by its end; call what is yielded once the writer's turn came."""
    asked = time.monotonic()
    try:
        yield lambda: metrics.observe(STORE_WRITE_WAIT, time.monotonic() - asked)
    except BaseException:
        metrics.count(STORE_TRANSACTIONS, kind=kind, end="rollback")
        raise
    metrics.count(STORE_TRANSACTIONS, kind=kind, end="commit")
