"""Open the database, run transactions on it, and wait for commits of other processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection

from hostler.clock import Clock, SystemClock, Wakeup
from hostler.errors import StoreError, StoreUnsteady
from hostler.model import RepoName
from hostler.store.admin.revision import read_revision, require_head
from hostler.store.engine.backend import Backend, PerProcess, Place, PostgresPlace, find_place
from hostler.store.engine.errors import translated
from hostler.store.engine.postgres import PostgresBackend
from hostler.store.engine.sqlite import Patience, SqliteBackend
from hostler.store.repositories import Repo
from hostler.store.transaction import Transaction, metered


class Changes:
    """Counts the commits that this process knows of, and wakes threads that wait for one."""

    def __init__(
        self, clock: Clock, version: Callable[[], int], poll_seconds: float | None
    ) -> None:
        self._clock = clock
        self._version = version
        self._poll_seconds = poll_seconds
        self._guard = threading.Lock()
        self._waiters: set[Wakeup] = set()
        self._count = 0
        self._seen: int | None = None

    def mark(self) -> int:
        """Return a number that changes with every commit of any process."""
        version = self._version()
        with self._guard:
            return self._noticed(version)

    def wait(self, since: int, timeout: float | None) -> int:
        """Block until the number differs from `since`, or the timeout; return the number."""
        end = None if timeout is None else self._clock.monotonic() + timeout
        wakeup = self._clock.wakeup()
        with self._guard:
            self._waiters.add(wakeup)
        try:
            while (mark := self.mark()) == since:
                seconds = self._nap(end)
                if seconds is not None and seconds <= 0:
                    break
                wakeup.wait(seconds)
                wakeup.clear()
            return mark
        finally:
            with self._guard:
                self._waiters.discard(wakeup)

    def committed(self) -> None:
        """Count a commit of this process."""
        with self._guard:
            if self._seen is not None:
                # This commit changes the version too; reading it now saves a second wakeup.
                with suppress(StoreError):
                    self._seen = self._version()
            self._count += 1
        self.wake()

    def wake(self) -> None:
        """Wake every waiter."""
        with self._guard:
            for wakeup in self._waiters:
                wakeup.set()

    def _noticed(self, version: int) -> int:
        if self._seen is not None and version != self._seen:
            self._count += 1
        self._seen = version
        return self._count

    def _nap(self, end: float | None) -> float | None:
        naps = [] if self._poll_seconds is None else [self._poll_seconds]
        if end is not None:
            naps.append(end - self._clock.monotonic())
        return min(naps, default=None)


class Store:
    """Transactions on one database. Safe to share between threads, and to carry across a fork."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._backend = backend
        self._changes = PerProcess(lambda: Changes(clock, backend.version, backend.poll_seconds))
        backend.on_change(lambda: self._changes.value.wake())

    @property
    def place(self) -> Place:
        """Where the database is."""
        return self._backend.place

    def repo(self, name: str | RepoName) -> Repo:
        """Return the rows of one repository."""
        return Repo(RepoName.parse(name) if isinstance(name, str) else name)

    @contextmanager
    def write(self, *scopes: str, relaxed: bool = False) -> Iterator[Transaction]:
        """Run one write transaction: committed when the block ends, rolled back when it raises.

        Writers that name a common scope run one after another, on every host. `relaxed` is for rows
        that may be lost in a power cut.
        """
        opening = self._backend.writing(scopes, relaxed=relaxed)
        with (
            metered("relaxed" if relaxed else "write") as begun,
            self._block(opening, reading=False, at_end=self._commit) as tx,
        ):
            begun()
            yield tx
        self._changes.value.committed()
        tx.committed()

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Run one read transaction on a snapshot. Do not keep it open while waiting."""
        opening = self._backend.reading()
        with metered("read"), self._block(opening, reading=True, at_end=_roll_back) as tx:
            yield tx

    def change_mark(self) -> int:
        """Where we are now, for `wait_for_change`. Take it before reading what you wait for."""
        return self._changes.value.mark()

    def wait_for_change(self, since: int, timeout: float | None = None) -> int:
        """Block until a process commits, or the timeout; return the new count."""
        return self._changes.value.wait(since, timeout)

    def close(self) -> None:
        """Close all connections of this process."""
        self._backend.close()

    @contextmanager
    def _block(
        self,
        opening: AbstractContextManager[Connection],
        *,
        reading: bool,
        at_end: Callable[[Transaction, Connection], None],
    ) -> Iterator[Transaction]:
        backend = self._backend
        with translated(backend.place, reading=reading), opening as connection:
            tx = Transaction(
                backend.place, connection, lambda: backend.now(connection), reading=reading
            )
            try:
                yield tx
                at_end(tx, connection)
            except BaseException:
                if not tx.inherited():
                    _roll_back(tx, connection)
                raise
            finally:
                tx.close()

    def _commit(self, tx: Transaction, connection: Connection) -> None:
        if tx.inherited():
            raise RuntimeError("a forked child left its parent's transaction: end it with os._exit")
        if tx.failure is not None:
            raise tx.failure
        # A block of its own: the caller's errors are not the commit's.
        with translated(self._backend.place):
            self._backend.before_commit(connection)
            connection.commit()


def _roll_back(_tx: Transaction, connection: Connection) -> None:
    connection.rollback()


def make_backend(place: Place, clock: Clock, patience: Patience) -> Backend:
    """Return the backend for a location."""
    if isinstance(place, PostgresPlace):
        return PostgresBackend(place, patience)
    return SqliteBackend(place, clock, patience)


def open_store(
    home: Path,
    database_url: str | None = None,
    *,
    clock: Clock | None = None,
    patience: Patience | None = None,
) -> Store:
    """Open the database of a home, or raise what prevents it."""
    clock, patience = clock or SystemClock(), patience or Patience()
    place = find_place(home, database_url)
    try:
        return _opened(place, clock, patience)
    except StoreUnsteady:
        return _opened(place, clock, patience)


def _opened(place: Place, clock: Clock, patience: Patience) -> Store:
    backend = make_backend(place, clock, patience)
    try:
        with translated(place, reading=True), backend.reading() as connection:
            require_head(read_revision(connection, place), place)
    except BaseException:
        backend.close()
        raise
    return Store(backend, clock)
