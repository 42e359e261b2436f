"""The PostgreSQL backend, with its listener for commits."""

from __future__ import annotations

import os
import select
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, create_engine

from hostler.errors import MissingExtra, StoreBusy, StoreError, StoreMissing, StoreUnreachable
from hostler.store.engine.backend import CONNECT_SECONDS, PerProcess, PostgresPlace, connected
from hostler.store.engine.errors import Kind, first_line, kind_of, translated
from hostler.store.engine.sqlite import OneWritePerThread, Patience, Turn
from hostler.store.schema import NOT_ENDED, runs

if TYPE_CHECKING:
    import psycopg


CHANNEL = "hostler_changes"
LISTEN = f"LISTEN {CHANNEL}"


class Listener:
    """Counts notifications that are not our own."""

    def __init__(
        self, place: PostgresPlace, me: Callable[[], str], tell: Callable[[], None]
    ) -> None:
        self._place = place
        self._me = me
        self._tell = tell
        self._guard = threading.Lock()
        self._ear: _Ear | None = None
        self._heard = 0

    def heard(self) -> int:
        """How many so far; counting begins with the first call."""
        with self._guard:
            if self._ear is None or not self._ear.is_alive():
                # Forget it first: connecting again may fail, and it must be stopped only once.
                ended, self._ear = self._ear, None
                if ended is not None:
                    ended.stop()
                # What was said while nobody listened is unknown, so it counts as one.
                self._heard += 1
                self._ear = _Ear(self._place, self._hear, self._tell)
                self._ear.start()
            return self._heard

    def close(self) -> None:
        """Stop listening."""
        with self._guard:
            ear, self._ear = self._ear, None
        if ear is not None:
            ear.stop()

    def _hear(self, payload: bytes) -> None:
        if payload != self._me().encode():
            with self._guard:
                self._heard += 1
            self._tell()


class _Ear(threading.Thread):
    """Sleeps on the connection's socket, and on a pipe by which it is told to stop."""

    def __init__(
        self, place: PostgresPlace, hear: Callable[[bytes], None], lost: Callable[[], None]
    ) -> None:
        super().__init__(name="hostler-listener", daemon=True)
        self._hear = hear
        self._lost = lost
        # Before the thread starts: who asks for a mark must be heard from then on.
        self._connection = _connect(place)
        self._stop_reader, self._stop_writer = os.pipe()

    def run(self) -> None:
        import psycopg

        try:
            while self._wait():
                self._receive()
        except psycopg.Error:
            # The server is gone: waiters look, and whoever listens next connects anew.
            pass
        finally:
            self._connection.close()
            os.close(self._stop_reader)
        self._lost()

    def stop(self) -> None:
        """End the thread and its connection."""
        os.close(self._stop_writer)
        self.join()

    def _wait(self) -> bool:
        poll = select.poll()
        for descriptor in (self._connection.pgconn.socket, self._stop_reader):
            poll.register(descriptor, select.POLLIN)
        return self._stop_reader not in dict(poll.poll())

    def _receive(self) -> None:
        pgconn: Any = self._connection.pgconn
        pgconn.consume_input()
        while (notify := pgconn.notifies()) is not None:
            self._hear(notify.extra)


def _connect(place: PostgresPlace) -> psycopg.Connection[Any]:
    import psycopg
    from sqlalchemy import exc

    try:
        connection = psycopg.connect(place.bounded(), autocommit=True)
        connection.execute(LISTEN)
    except psycopg.Error as error:
        # Into the wrapper that all other errors of the driver come in.
        raise exc.DBAPIError.instance(LISTEN, None, error, psycopg.Error) from error
    return connection


# Held to the end of the transaction, whichever way it ends.
LOCK_SCOPE = "SELECT pg_advisory_xact_lock(%s)"
# The same, without waiting.
TRY_SCOPE = "SELECT pg_try_advisory_xact_lock(%s)"
# Who has a scope: the lock table keeps the key in two halves.
WHO_HOLDS = """
    SELECT a.application_name, a.pid, a.xact_start
    FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND ((l.classid::bigint << 32) | l.objid::bigint) = ANY(%s)
      AND a.pid <> pg_backend_pid()
    LIMIT 1
"""
# `now()` is the start of the transaction, which is before its locks were had.
SERVER_CLOCK = "SELECT clock_timestamp()"
# Delivered when the transaction commits, and only then.
NOTIFY = "SELECT pg_notify(%s, %s)"
# May lose the last moments in a crash of the server, never consistency.
RELAX = "SET LOCAL synchronous_commit = off"
# The scope of whoever changes the layout or replaces the whole.
MIGRATION = "migration"


def scope_key(name: str) -> int:
    """A scope's number, the same in every process and version."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


def scope_keys(names: Iterable[str]) -> list[int]:
    """The numbers in the one order in which all writers take them, so that none can deadlock."""
    return sorted({scope_key(name) for name in names})


def _complete_tables() -> None:
    """What tables need here alone; where they are made, it would load this dialect at every start.

    One task never has two live agents: the database itself says no.
    """
    one_open = next(index for index in runs.indexes if index.name == "ix_runs_open")
    one_open.dialect_options["postgresql"]["where"] = NOT_ENDED


def make_engine(place: PostgresPlace, patience: Patience) -> Engine:
    """An engine whose waits for locks are bounded and whose connections say who we are."""
    if find_spec("psycopg") is None:
        raise MissingExtra("PostgreSQL", "postgres")
    _complete_tables()
    milliseconds = int(patience.seconds * 1000)
    given = place.url.query.get("options", "")
    options = f"{given} -c lock_timeout={milliseconds} -c timezone=UTC".strip()
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    return create_engine(
        place.url,
        connect_args={
            "application_name": f"hostler {program} (pid {os.getpid()} on {os.uname().nodename})",
            "connect_timeout": CONNECT_SECONDS,
            "options": options,
        },
        # A server that was restarted must not cost the next caller an error.
        pool_pre_ping=True,
        pool_timeout=patience.seconds,
    )


class PostgresBackend:
    """What the store needs of PostgreSQL."""

    poll_seconds = None

    def __init__(self, place: PostgresPlace, patience: Patience) -> None:
        self.place = place
        self._id = uuid.uuid4().hex
        self._tell: Callable[[], None] = lambda: None
        self._once = PerProcess(OneWritePerThread)
        self._engine = PerProcess(lambda: make_engine(place, patience))
        self._listener = PerProcess(lambda: Listener(place, self._me, lambda: self._tell()))

    @contextmanager
    def writing(self, scopes: tuple[str, ...], *, relaxed: bool) -> Iterator[Connection]:
        """A connection that holds the scopes' locks."""
        with self._once.value.block(), connected(self._engine.value) as connection:
            connection.begin()
            if relaxed:
                connection.exec_driver_sql(RELAX)
            self._take(connection, scope_keys(scopes))
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees one moment and cannot write."""
        engine = self._engine.value.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        with connected(engine) as connection:
            connection.begin()
            yield connection

    def now(self, connection: Connection) -> datetime:
        """The server's clock."""
        moment: datetime = connection.exec_driver_sql(SERVER_CLOCK).scalar_one()
        return moment

    def before_commit(self, connection: Connection) -> None:
        """Let those who wait know of this commit."""
        connection.exec_driver_sql(NOTIFY, (CHANNEL, self._me()))

    def version(self) -> int:
        """How many commits of others we were told of."""
        with translated(self.place):
            return self._listener.value.heard()

    def on_change(self, tell: Callable[[], None]) -> None:
        """Whom to tell of a notification."""
        self._tell = tell

    def close(self) -> None:
        """Close all connections of this process."""
        self._listener.value.close()
        self._engine.value.dispose()

    def _me(self) -> str:
        """Marks our own notifications, which are news to nobody in this process."""
        return f"{self._id}/{os.getpid()}"

    def _take(self, connection: Connection, keys: list[int]) -> None:
        turn = Turn()
        try:
            for key in keys:
                connection.exec_driver_sql(LOCK_SCOPE, (key,))
        except Exception as error:
            if kind_of(error) is Kind.BUSY:
                raise StoreBusy(self._holder(keys), turn.waited) from error
            raise

    def _holder(self, keys: list[int]) -> str:
        # On a connection of its own: the one that waited in vain is in a failed transaction.
        with connected(self._engine.value) as connection:
            return who_holds(connection, keys)


def who_holds(connection: Connection, keys: list[int]) -> str:
    """The session that has one of the scopes, as shown to a person."""
    row: Any = connection.exec_driver_sql(WHO_HOLDS, (keys,)).one_or_none()
    if row is None:
        return "another session"
    return f"{row.application_name or 'a session'} [backend {row.pid}, since {row.xact_start}]"


def take_migration_lock(connection: Connection) -> None:
    """Keep other upgrades and restores out, on every host, to the end of the transaction."""
    key = scope_key(MIGRATION)
    if not connection.exec_driver_sql(TRY_SCOPE, (key,)).scalar_one():
        raise StoreBusy(who_holds(connection, [key]), 0.0)


@contextmanager
def migration_lock(place: PostgresPlace, patience: Patience) -> Iterator[None]:
    """Hold that lock for a block, on a connection that locks no table."""
    engine = make_engine(place, patience)
    try:
        with translated(place), engine.connect() as connection:
            take_migration_lock(connection)
            yield
    finally:
        engine.dispose()


_NOTHING = "Nothing was written, unless the connection broke during a commit."


def explain(place: PostgresPlace, cause: BaseException) -> StoreError:
    """The error that says what is the matter and what to do."""
    from psycopg import pq

    words = first_line(cause)
    if pq.PGconn.ping(place.bounded().encode()) != pq.Ping.OK:
        return StoreUnreachable(
            f"The PostgreSQL server at {place} does not answer: {words}",
            safe=_NOTHING,
            remedy="Start it, or look at host and port in the database URL.",
        )
    if _lacks_the_database(place):
        return StoreMissing(
            f"The PostgreSQL server has no database called {place.database!r}.",
            safe="Nothing was touched.",
            remedy=f"Create it with `createdb {place.database}`, then run `hostler db upgrade`.",
        )
    if _wants_a_password(cause):
        return StoreUnreachable(
            f"The PostgreSQL server at {place} does not accept our password: {words}",
            safe=_NOTHING,
            remedy="Give the right one in PGPASSFILE or PGPASSWORD, never in the URL.",
        )
    return StoreUnreachable(
        f"The PostgreSQL server at {place} refuses us: {words}",
        safe=_NOTHING,
        remedy="Look at the server's log, and at user and database in the URL.",
    )


def _wants_a_password(cause: object) -> bool:
    connection = getattr(cause, "pgconn", None)
    return connection is not None and bool(connection.needs_password or connection.used_password)


def _lacks_the_database(place: PostgresPlace) -> bool:
    import psycopg

    # `postgres` is there on every server for exactly such questions.
    try:
        with psycopg.connect(place.bounded(database="postgres")) as connection:
            found = connection.execute(
                "SELECT 1 FROM pg_database WHERE datname = %s", (place.database,)
            ).fetchone()
    except psycopg.Error:
        return False
    return found is None
