"""What the tests of the governor share."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from database import Database
from pg_server import PostgresServer

from hostler.clock import FakeClock
from hostler.store import Store
from hostler.store.engine.postgres import PostgresBackend

if sys.platform != "linux":
    pytest.skip("agents run on Linux only", allow_module_level=True)


@pytest.fixture(scope="session")
def leases_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database to copy."""
    database = Database(tmp_path_factory.mktemp("template"))
    database.upgrade()
    return database.file


@pytest.fixture
def sqlite_database(home: Path, leases_template: Path) -> Database:
    home.mkdir()
    shutil.copy(leases_template, home / leases_template.name)
    return Database(home)


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    made = PostgresServer.make()
    try:
        made.start()
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="session")
def leases_server_template(server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a migrated database to copy."""
    url = server.new_database()
    Database(tmp_path_factory.mktemp("template"), url).upgrade()
    return server.name_of(url)


@pytest.fixture
def postgres_database(
    server: PostgresServer, leases_server_template: str, home: Path
) -> Iterator[Database]:
    url = server.new_database(leases_server_template)
    yield Database(home, url)
    server.drop_database(url)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest) -> Database:
    return request.getfixturevalue(f"{request.param}_database")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(database: Database, clock: FakeClock) -> Iterator[Store]:
    with closing(database.open(clock)) as opened:
        yield opened


@pytest.fixture
def timed_store(store: Store, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The same, on the test's clock also where a server has its own."""
    monkeypatch.setattr(PostgresBackend, "now", lambda _self, _connection: clock.now())
    return store


@pytest.fixture
def sqlite_store(sqlite_database: Database, clock: FakeClock) -> Iterator[Store]:
    with closing(sqlite_database.open(clock)) as opened:
        yield opened
