"""A store on each database."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pg_server import PostgresServer
from planner_yard import PATIENT, Yard, migrate

from hostler.clock import FakeClock
from hostler.store import open_store


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database to copy."""
    home = tmp_path_factory.mktemp("template")
    migrate(home)
    return home / "hostler.db"


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    made = PostgresServer.make()
    try:
        made.start()
        yield made
    finally:
        made.remove()


@pytest.fixture
def sqlite(home: Path, template: Path) -> Iterator[None]:
    home.mkdir()
    shutil.copy(template, home / template.name)
    yield None


@pytest.fixture(scope="session")
def server_template(server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a migrated database to copy."""
    url = server.new_database()
    migrate(tmp_path_factory.mktemp("template"), url)
    return server.name_of(url)


@pytest.fixture
def postgres(server: PostgresServer, server_template: str, home: Path) -> Iterator[str]:
    home.mkdir()
    url = server.new_database(server_template)
    yield url
    server.drop_database(url)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def yard(request: pytest.FixtureRequest, home: Path) -> Iterator[Yard]:
    url = request.getfixturevalue(request.param)
    clock = FakeClock()
    with closing(open_store(home, url, clock=clock, patience=PATIENT)) as store:
        yield Yard(store, clock)
