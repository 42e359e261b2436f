"""The store on SQLite: three engines on one file, and the queue of its writers."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event

from hostler.clock import Clock
from hostler.errors import StoreBusy, StoreError
from hostler.store import holders
from hostler.store.checkouts import connected
from hostler.store.forks import PerProcess
from hostler.store.place import SqlitePlace
from hostler.store.translate import Kind, kind_of, translated
from hostler.store.writers import Patience, Turn, queue_of


def connect(path: Path, mode: str, timeout: float) -> sqlite3.Connection:
    """A connection that opens no transactions by itself; `mode` is rw, ro or rwc (create)."""
    # Without a mode, connecting to a missing database would create an empty one.
    address = f"file:{quote(os.fsencode(path))}?mode={mode}"
    return sqlite3.connect(
        address, uri=True, isolation_level=None, timeout=timeout, check_same_thread=False
    )


def create(path: Path, timeout: float) -> sqlite3.Connection:
    """A connection to a database that is made where it is missing, readable by us alone."""
    # SQLite gives the files beside a database the same mode. Where this fails, it says why.
    with suppress(OSError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    return connect(path, "rwc", timeout)


def make_engine(
    connecting: Callable[[], sqlite3.Connection],
    begin: str,
    *pragmas: str,
    pool_size: int = 1,
    pool_timeout: float = 30.0,
) -> Engine:
    """An engine whose transactions start with `begin` and whose connections carry the pragmas."""
    engine = create_engine(
        "sqlite://",
        creator=connecting,
        poolclass=QueuePool,
        pool_size=pool_size,
        pool_timeout=pool_timeout,
        max_overflow=10 if pool_size > 1 else 0,
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: sqlite3.Connection, _record: Any) -> None:
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


class Engines:
    """What one process has open on the file."""

    def __init__(self, place: SqlitePlace, patience: Patience) -> None:
        def connecting() -> sqlite3.Connection:
            return connect(place.path, "rw", patience.begin_seconds)

        # `synchronous` cannot change inside a transaction, hence two engines for writers.
        writer = ("journal_mode=WAL", "foreign_keys=ON")
        self.durable = make_engine(connecting, "BEGIN IMMEDIATE", *writer, "synchronous=FULL")
        self.relaxed = make_engine(connecting, "BEGIN IMMEDIATE", *writer, "synchronous=NORMAL")
        self.reading = make_engine(
            connecting,
            "BEGIN",
            "query_only=ON",
            pool_size=5,
            pool_timeout=patience.seconds,
        )
        self.watching = _Watch(connecting)

    def close(self) -> None:
        """Close every connection that is not in use."""
        for engine in (self.durable, self.relaxed, self.reading):
            engine.dispose()
        self.watching.close()


class _Watch:
    """One connection that notices others' commits; its numbers mean nothing elsewhere."""

    def __init__(self, connecting: Callable[[], sqlite3.Connection]) -> None:
        self._connecting = connecting
        self._connection: sqlite3.Connection | None = None
        self._guard = threading.Lock()

    def version(self) -> int:
        """A number that changes with every commit that is not made on this connection."""
        with self._guard:
            if self._connection is None:
                self._connection = self._connecting()
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
            return int(version)

    def close(self) -> None:
        with self._guard:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


class SqliteBackend:
    """What the store needs of SQLite."""

    poll_seconds = 0.25

    def __init__(self, place: SqlitePlace, clock: Clock, patience: Patience) -> None:
        self.place = place
        self._clock = clock
        self._patience = patience
        self._queue = queue_of(place.writer)
        self._engines = PerProcess(lambda: Engines(place, patience))

    @property
    def engines(self) -> Engines:
        """The engines of this process."""
        return self._engines.value

    @contextmanager
    def writing(
        self,
        scopes: tuple[str, ...],  # noqa: ARG002
        *,
        relaxed: bool,
    ) -> Iterator[Connection]:
        """The one writer's connection. Scopes add nothing where all writers queue."""
        engine = self.engines.relaxed if relaxed else self.engines.durable
        with self._queue.turn(self._patience, self._clock) as turn, connected(engine) as connection:
            try:
                connection.begin()
            except Exception as error:
                if kind_of(error) is Kind.BUSY:
                    raise StoreBusy(self._holder(turn), turn.waited) from error
                raise
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees one moment and cannot write."""
        with connected(self.engines.reading) as connection:
            connection.begin()
            yield connection

    def now(self, _connection: Connection) -> datetime:
        """The injected clock."""
        return self._clock.now()

    def before_commit(self, connection: Connection) -> None:
        """Make sure that there is something to commit."""
        driver: Any = connection.connection.driver_connection
        if not driver.in_transaction:
            raise StoreError(
                f"The database {self.place} ended a transaction by itself.",
                safe="Nothing of it was written.",
                remedy="Try again; if it stays so, run `hostler db check`.",
            )

    def version(self) -> int:
        """A number that changes when another process commits."""
        with translated(self.place):
            return self.engines.watching.version()

    def on_change(self, tell: Callable[[], None]) -> None:
        """SQLite tells nobody; `version` has to be asked."""

    def close(self) -> None:
        """Close all connections of this process."""
        self.engines.close()

    def _holder(self, turn: Turn) -> str:
        # In order and still locked: the holder is a program that does not queue with us.
        queued = holders.UNKNOWN if turn.in_order else self._queue.holder()
        if queued != holders.UNKNOWN:
            return queued
        return holders.sqlite_writer(self.place.shm) or holders.UNKNOWN
