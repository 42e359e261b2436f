"""Where a database is, what a backend does, and its connections."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Generic, Protocol, TypeVar
from urllib.parse import quote, urlencode

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from hostler.errors import StoreError
from hostler.forks import reset_after_fork

FILE_NAME = "hostler.db"
URL_VARIABLE = "HOSTLER_DATABASE_URL"
# How long a server may take to accept a connection.
CONNECT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class SqlitePlace:
    """A file, with the files that SQLite and we keep beside it."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def exists(self) -> bool:
        """Whether something is there; also where we may not look, as opening says that better."""
        try:
            self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return True

    def leads_nowhere(self) -> bool:
        """Whether it is a link to something that is not there, as on a disk not mounted."""
        return not self.exists() and self.path.is_symlink()

    @property
    def wal(self) -> Path:
        """What was committed and not yet moved into the file."""
        return self.path.with_name(self.path.name + "-wal")

    @property
    def shm(self) -> Path:
        """SQLite's shared memory, where its locks are."""
        return self.path.with_name(self.path.name + "-shm")

    @property
    def writer(self) -> Path:
        """The side file in which writers queue."""
        return self.path.with_name(self.path.name + ".writer")


@dataclass(frozen=True, slots=True)
class PostgresPlace:
    """A database on a server. Credentials come from libpq's own places."""

    url: URL

    def __str__(self) -> str:
        return self.conninfo

    @property
    def conninfo(self) -> str:
        """The address as libpq and its tools read it."""
        return _address(self.url, {})

    def bounded(self, lock_milliseconds: int = 0, *, database: str | None = None) -> str:
        """The same with bounds on its waits, for who connects without the store's engine."""
        more = {"connect_timeout": str(CONNECT_SECONDS)}
        if lock_milliseconds:
            given = str(self.url.query.get("options", ""))
            more["options"] = f"{given} -c lock_timeout={lock_milliseconds}".strip()
        url = self.url if database is None else self.url.set(database=database)
        return _address(url, more)

    @property
    def database(self) -> str:
        """The database's name, where the URL says it."""
        return self.url.database or ""


def _address(url: URL, more: dict[str, str]) -> str:
    bare = url.set(drivername="postgresql", query={}).render_as_string(hide_password=False)
    # Quoted by ourselves: libpq does not read a + as a space.
    query = urlencode({**url.query, **more}, doseq=True, quote_via=quote)
    return f"{bare}?{query}" if query else bare


Place = SqlitePlace | PostgresPlace


def find_place(home: Path, database_url: str | None = None) -> Place:
    """The database that a home uses: the one at the URL, or the file in the home."""
    if not database_url:
        return SqlitePlace(_behind_links(home / FILE_NAME))
    url = _parse(database_url)
    if url.password is not None or "password" in url.query:
        raise StoreError(
            "The database URL contains a password.",
            safe="It was not used, and is not repeated here.",
            remedy="Take it out of the URL; put it into PGPASSFILE, PGPASSWORD or a service file.",
        )
    return PostgresPlace(url.set(drivername="postgresql+psycopg"))


def _behind_links(path: Path) -> Path:
    """The file itself where the name is a link: SQLite keeps its log beside the file."""
    try:
        return path.resolve(strict=True) if path.is_symlink() else path
    except (OSError, RuntimeError):  # it leads nowhere, or in a circle: opening says so
        return path


def _parse(text: str) -> URL:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # The text itself may hold a password, so it is not shown.
        raise _bad_url("The database URL cannot be read.") from None
    if url.drivername not in {"postgresql", "postgres", "postgresql+psycopg"}:
        raise _bad_url(f"The database URL begins with {url.drivername!r}.")
    return url


def _bad_url(what: str) -> StoreError:
    return StoreError(
        what,
        safe="Nothing was opened.",
        remedy="Write it as postgresql://user@host:port/database, or leave it out for SQLite.",
    )


class Backend(Protocol):
    """The seam between the store and a database."""

    @property
    def place(self) -> Place:
        """Where the database is."""
        ...

    @property
    def poll_seconds(self) -> float | None:
        """How often a waiter asks for `version`; None where it is told instead."""
        ...

    def writing(
        self, scopes: tuple[str, ...], *, relaxed: bool
    ) -> AbstractContextManager[Connection]:
        """A connection in a write transaction that no writer of the same scopes shares."""
        ...

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection in a transaction that sees one moment and cannot write."""
        ...

    def now(self, connection: Connection) -> datetime:
        """The moment of a transaction."""
        ...

    def before_commit(self, connection: Connection) -> None:
        """What has to be done as the last thing of a write transaction."""
        ...

    def version(self) -> int:
        """A number that changes when another process commits."""
        ...

    def on_change(self, tell: Callable[[], None]) -> None:
        """Whom to tell when `version` has changed, where the database tells us."""
        ...

    def close(self) -> None:
        """Close all connections of this process."""
        ...


T = TypeVar("T")

# For the child's whole life: forgetting them would close them.
_inherited: list[object] = []


def set_aside(item: object) -> None:
    """Keep something inherited, so that nothing ever closes it here."""
    _inherited.append(item)


class PerProcess(Generic[T]):
    """A value that each process makes for itself; an inherited one is set aside, never closed."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.value = make()
        reset_after_fork(self)

    def after_fork(self) -> None:
        set_aside(self.value)
        self.value = self._make()


@contextmanager
def connected(engine: Engine) -> Iterator[Connection]:
    """A connection that goes back at the end, unless a forked child is the one that ends."""
    process = os.getpid()
    connection = engine.connect()
    try:
        yield connection
    finally:
        # Going back means rolling back, and in a child that would be the parent's transaction.
        if os.getpid() == process:
            connection.close()
        else:
            set_aside(connection)
