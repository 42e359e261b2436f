"""The SQLite backend, with a fair queue of writers across processes."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event

from hostler.clock import Clock
from hostler.errors import StoreBusy, StoreError
from hostler.forks import reset_after_fork
from hostler.store.engine import locks
from hostler.store.engine.backend import PerProcess, SqlitePlace, connected
from hostler.store.engine.errors import Kind, kind_of, translated


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a writer waits: in the queue, and then for the database itself.

    These are real seconds: the kernel and SQLite count them, not our clock.
    """

    queue_seconds: float = 10.0
    begin_seconds: float = 5.0

    @property
    def seconds(self) -> float:
        """Both together."""
        return self.queue_seconds + self.begin_seconds


class Turn:
    """One writer's turn: since when it waited, and whether the queue let it in."""

    def __init__(self) -> None:
        self.asked_at = time.monotonic()
        self.in_order = False

    @property
    def waited(self) -> float:
        """Seconds since the writer asked."""
        return time.monotonic() - self.asked_at


class OneWritePerThread:
    """Refuses a write inside a write of the same thread, which would wait for itself."""

    def __init__(self) -> None:
        self._threads: set[int] = set()

    @contextmanager
    def block(self) -> Iterator[None]:
        """One write of this thread."""
        me = threading.get_ident()
        if me in self._threads:
            raise RuntimeError(
                "store.write() inside store.write(): pass the open transaction on instead"
            )
        self._threads.add(me)
        try:
            yield
        finally:
            self._threads.discard(me)


class _Ticket(threading.Thread):
    """A place in the kernel's own queue, which is fair; asking again and again is not.

    `flock` knows no timeout, so a thread of its own waits. Whoever gives up leaves the
    ticket in the queue and may come back to it.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(name="hostler-writer-queue", daemon=True)
        self._file = file
        self._guard = threading.Lock()
        self._wanted = True
        self._called = threading.Event()

    def run(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        with self._guard:
            self._called.set()
            if not self._wanted:
                _unlock(self._file)

    def wait(self, seconds: float) -> BinaryIO | None:
        """The locked file, or None when the time is over."""
        try:
            self._called.wait(seconds)
        except BaseException:
            self._give_up()
            raise
        with self._guard:
            self._wanted = self._called.is_set()
        return self._file if self._wanted else None

    def resume(self) -> bool:
        """Come back to the place in the queue; False if our turn came while nobody wanted it."""
        with self._guard:
            self._wanted = not self._called.is_set()
            return self._wanted

    def forget(self) -> None:
        """In a forked child: the parent's thread waits, not we."""
        self._file.close()

    def _give_up(self) -> None:
        with self._guard:
            self._wanted = False
            if self._called.is_set():
                _unlock(self._file)


class WriterQueue:
    """One per database file and process, so that every user of the file in it queues here."""

    def __init__(self, side_file: Path) -> None:
        self._side_file = side_file
        self._begin()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Start anew: the lock and ticket of the parent's threads mean nothing here."""
        # Closing leaves the parent's locks in place; keeping them open would make us a holder.
        if self._file is not None:
            self._file.close()
        if self._ticket is not None:
            self._ticket.forget()
        self._begin()

    def _begin(self) -> None:
        self._file: BinaryIO | None = None
        self._mutex = threading.Lock()
        self._once = OneWritePerThread()
        self._ticket: _Ticket | None = None

    @contextmanager
    def turn(self, patience: Patience, clock: Clock) -> Iterator[Turn]:
        """Wait for our turn and hold it."""
        turn = Turn()
        with self._once.block(), self._entered(patience, turn):
            self._file = file = self._lock(patience.queue_seconds)
            turn.in_order = file is not None
            if file is not None:
                locks.write_holder(file.fileno(), locks.myself(clock.now()))
            yield turn

    def holder(self) -> str:
        """Who has the turn now, as far as can be known."""
        return str(locks.read_holder(self._side_file) or locks.UNKNOWN)

    @contextmanager
    def _entered(self, patience: Patience, turn: Turn) -> Iterator[None]:
        if not self._mutex.acquire(timeout=patience.seconds):
            raise StoreBusy(self.holder(), turn.waited)
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        file, self._file = self._file, None
        if file is not None and not file.closed:
            locks.clear_holder(file.fileno())
            _unlock(file)
        # Unlocked already where a fork inside the turn gave us a new lock.
        with suppress(RuntimeError):
            self._mutex.release()

    def _lock(self, seconds: float) -> BinaryIO | None:
        ticket, self._ticket = self._ticket, None
        if ticket is None or not ticket.resume():
            file = self._open()
            if file is None or locks.try_lock(file):
                return file
            ticket = _Ticket(file)
            ticket.start()
        self._ticket = ticket
        locked = ticket.wait(seconds)
        if locked is not None:
            self._ticket = None
        return locked

    def _open(self) -> BinaryIO | None:
        # In a folder that cannot be written the database will say so better than we could.
        try:
            descriptor = os.open(self._side_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None
        return os.fdopen(descriptor, "r+b", buffering=0)


def _unlock(file: BinaryIO) -> None:
    # Closing would not be enough where a child has inherited the descriptor.
    fcntl.flock(file, fcntl.LOCK_UN)
    file.close()


_queues: weakref.WeakValueDictionary[Path, WriterQueue] = weakref.WeakValueDictionary()
_queues_guard = threading.Lock()


def _renew_guard() -> None:
    # A thread of the parent may have held it, and nobody here would ever let go.
    global _queues_guard
    _queues_guard = threading.Lock()


os.register_at_fork(after_in_child=_renew_guard)


def queue_of(side_file: Path) -> WriterQueue:
    """The one queue that this process has for a side file."""
    key = side_file.absolute()
    with _queues_guard:
        queue = _queues.get(key)
        if queue is None:
            _queues[key] = queue = WriterQueue(key)
        return queue


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
        queued = locks.UNKNOWN if turn.in_order else self._queue.holder()
        if queued != locks.UNKNOWN:
            return queued
        return locks.sqlite_writer(self.place.shm) or locks.UNKNOWN
