"""What the tests of runs share."""

from __future__ import annotations

import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pg_server import PostgresServer, migrated_template, shared_server
from runs_house import PATIENT, House

from hostler.clock import FakeClock, SystemClock
from hostler.store import Store, open_store
from hostler.store.admin.migrate import upgrade
from hostler.store.engine.backend import find_place

if sys.platform != "linux":
    pytest.skip("agents run on Linux only", allow_module_level=True)


def migrate(home: Path, url: str | None = None) -> None:
    upgrade(
        home,
        find_place(home, url),
        clock=SystemClock(),
        patience=PATIENT,
        progress=lambda done, total: None,
    )


@pytest.fixture(scope="session")
def runs_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database to copy."""
    home = tmp_path_factory.mktemp("template")
    migrate(home)
    return home / "hostler.db"


@pytest.fixture
def stable(home: Path, runs_template: Path) -> Path:
    """A home with a database."""
    home.mkdir()
    shutil.copy(runs_template, home / runs_template.name)
    return home


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session")
def server() -> PostgresServer:
    return shared_server()


@pytest.fixture
def postgres(server: PostgresServer) -> Iterator[str]:
    """A migrated database on a server."""
    url = server.new_database(migrated_template())
    yield url
    server.drop_database(url)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest, home: Path, clock: FakeClock) -> Iterator[Store]:
    """A store on each database."""
    on_server = request.param == "postgres"
    found = request.getfixturevalue("postgres" if on_server else "stable")
    url = found if on_server else None
    with closing(open_store(home, url, clock=clock, patience=PATIENT)) as opened:
        yield opened


@pytest.fixture
def house(stable: Path, tmp_path: Path) -> Iterator[House]:
    """Whatever a test does, no process may be left when it ends."""
    place = tmp_path / "place"
    place.mkdir()
    made = House(stable, place, secrets.token_hex(8))
    yield made
    left = made.end()
    assert not left, f"left behind: {[process.name for process in left]}"
