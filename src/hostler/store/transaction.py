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
    """What can be done between the begin and the end of a block."""

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
        """Which dialect statements are for, where that matters."""
        return isinstance(self._place, PostgresPlace)

    def execute(self, statement: Executable, values: Values | None = None) -> CursorResult[Any]:
        """Run a statement of SQLAlchemy Core."""
        return self._run(lambda: self._connection.execute(statement, values))

    def constant(self, sql: str, values: Sequence[Any] = ()) -> CursorResult[Any]:
        """Run a constant statement straight through the driver; `?` marks a value.

        For hot paths only: it saves building and compiling, and gives up their checks.
        """
        if self.on_postgres:
            sql = _for_psycopg(sql)
        return self._run(lambda: self._connection.exec_driver_sql(sql, tuple(values)))

    def now(self) -> datetime:
        """This transaction's one moment, by the server's clock or the injected one."""
        if self._now is None:
            self._require_open()
            moment = self._clock()
            # As precise as it is stored, so that a moment compares equal to its own stamp.
            self._now = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        return self._now

    def stamp(self) -> str:
        """This transaction's moment as stored."""
        return format_timestamp(self.now())

    def after_commit(self, act: Callable[[], None]) -> None:
        """Do this when all of it is stored, and not at all if it is undone. For counting."""
        self._afterwards.append(act)

    def committed(self) -> None:
        """It is stored."""
        for act in self._afterwards:
            act()

    def close(self) -> None:
        """The block is over; whoever kept this object must not use it."""
        self._closed = True

    def inherited(self) -> bool:
        """Whether this is a forked child's copy of its parent's transaction."""
        return self._process != os.getpid()

    def _run(self, action: Callable[[], CursorResult[Any]]) -> CursorResult[Any]:
        self._require_open()
        try:
            with translated(self._place, reading=self.reading):
                return action()
        except Exception as error:
            # Some errors end SQLite's transaction unasked: going on would commit piece by piece.
            self.failure = self.failure or error
            raise

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("this transaction is over: its block has ended")
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
    """Insert a row unless its primary key is taken."""
    statement = _insert(tx, table).values(**row)
    tx.execute(statement.on_conflict_do_nothing(index_elements=_key(table)))


def insert_if_new(
    tx: Transaction, table: Table, row: Mapping[str, Any], *, key: Sequence[str]
) -> bool:
    """Insert a row unless these columns' values are taken; whether it was inserted."""
    insert = _insert(tx, table).values(**row).inline()
    maybe = insert.on_conflict_do_nothing(index_elements=list(key))
    # Otherwise PostgreSQL's answer to an insert is dropped before anybody can count.
    return tx.execute(maybe.execution_options(preserve_rowcount=True)).rowcount == 1


def insert_or_update(tx: Transaction, table: Table, row: Mapping[str, Any]) -> None:
    """Insert a row, or give the row of the same primary key these values."""
    statement = _insert(tx, table).values(**row)
    key = _key(table)
    changed = {name: statement.excluded[name] for name in row if name not in key}
    tx.execute(statement.on_conflict_do_update(index_elements=key, set_=changed))


def _insert(tx: Transaction, table: Table) -> sqlite.Insert | postgresql.Insert:
    if not tx.on_postgres:
        return sqlite.insert(table)
    # Here alone: it takes long to load, and most homes have no server.
    from sqlalchemy.dialects.postgresql import insert

    return insert(table)


def _key(table: Table) -> list[str]:
    return [column.name for column in table.primary_key]


def clamped_deadline(stored: datetime, now: datetime, maximum: timedelta) -> datetime:
    """A deadline as it may be believed: never farther ahead than it could have been set."""
    return min(stored, now + maximum)


def not_after(stored: datetime, now: datetime) -> datetime:
    """A past moment as it may be believed: one from the future counts as now."""
    return min(stored, now)


def age(stored: datetime, now: datetime) -> timedelta:
    """How long ago a stored moment was; never negative."""
    return now - not_after(stored, now)


def seconds_between(earlier: str, later: str) -> float:
    """How long it was from one stored moment to another; never negative."""
    return max((parse_timestamp(later) - parse_timestamp(earlier)).total_seconds(), 0.0)


def normal_stamp(text: str) -> str:
    """A received UTC timestamp in our form, so that text order is time order."""
    return format_timestamp(parse_timestamp(text))


@contextmanager
def metered(kind: str) -> Iterator[Callable[[], None]]:
    """Count a transaction by how its block ends; call what is yielded when a writer's turn came."""
    asked = time.monotonic()
    try:
        yield lambda: metrics.observe(STORE_WRITE_WAIT, time.monotonic() - asked)
    except BaseException:
        metrics.count(STORE_TRANSACTIONS, kind=kind, end="rollback")
        raise
    metrics.count(STORE_TRANSACTIONS, kind=kind, end="commit")
