"""The store on both databases, each test with a database of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from database import Database
from pg_server import PostgresServer, migrated_template, shared_server

from hostler.clock import FakeClock
from hostler.store import Store

BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database to copy, before anybody has it open."""
    database = Database(tmp_path_factory.mktemp("template"))
    database.upgrade()
    return database.file


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    server = shared_server()
    with pytest.MonkeyPatch.context() as patch:
        # Dumps need programs of the server's own version.
        patch.setenv("PATH", f"{server.binaries}:{os.environ['PATH']}")
        yield server


@pytest.fixture
def sqlite_database(home: Path, sqlite_template: Path) -> Database:
    home.mkdir()
    shutil.copy(sqlite_template, home / sqlite_template.name)
    return Database(home)


@pytest.fixture
def postgres_database(home: Path, server: PostgresServer) -> Iterator[Database]:
    url = server.new_database(migrated_template())
    yield Database(home, url)
    server.drop_database(url)


@pytest.fixture(params=BOTH)
def database(request: pytest.FixtureRequest) -> Database:
    """A migrated database."""
    return request.getfixturevalue(f"{request.param}_database")


@pytest.fixture(params=BOTH)
def empty(request: pytest.FixtureRequest, home: Path) -> Iterator[Database]:
    """A place where no database is yet."""
    if request.param == "sqlite":
        yield Database(home)
        return
    server = request.getfixturevalue("server")
    url = server.new_database()
    yield Database(home, url)
    server.drop_database(url)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def opened(database: Database, clock: FakeClock) -> Iterator[Callable[[], Store]]:
    """Open the database as often as a test likes; all are closed at its end."""
    stores: list[Store] = []

    def open_another() -> Store:
        stores.append(database.open(clock))
        return stores[-1]

    yield open_another
    for store in stores:
        store.close()


@pytest.fixture
def store(opened: Callable[[], Store]) -> Store:
    return opened()


@pytest.fixture
def sqlite_store(sqlite_database: Database, clock: FakeClock) -> Iterator[Store]:
    with closing(sqlite_database.open(clock)) as store:
        yield store
