"""What the forge's tests share: a street with houses, a database, a sender."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from forge_house import House, street
from forge_post import Post

from hostler.clock import FakeClock, SystemClock
from hostler.forge.github.polling.ingest import list_pending_events
from hostler.forge.github.polling.poller import scan_repository as scan_repo
from hostler.model import Surface
from hostler.sandbox.server import Running
from hostler.store import Patience, Store, open_store
from hostler.store.admin.migrate import upgrade
from hostler.store.engine.backend import find_place

PATIENT = Patience(queue_seconds=60.0, begin_seconds=60.0)


@pytest.fixture(scope="session")
def database_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database to copy."""
    home = tmp_path_factory.mktemp("template")
    upgrade(
        home,
        find_place(home, None),
        clock=SystemClock(),
        patience=PATIENT,
        progress=lambda done, total: None,
    )
    return home / "hostler.db"


@pytest.fixture
def database(home: Path, database_template: Path) -> Path:
    home.mkdir()
    shutil.copy(database_template, home / database_template.name)
    return home


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Running]:
    """Without git, which most tests do not need: a repository costs nothing."""
    with street(git=False) as made:
        yield made


@pytest.fixture(scope="session")
def git_sandbox() -> Iterator[Running]:
    with street(git=True) as made:
        yield made


@pytest.fixture
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    """A repository; with git where the test asks for a `git_house` too."""
    wants_git = {"git_house", "git_place"} & set(request.fixturenames)
    kind = "git_sandbox" if wants_git else "sandbox"
    with closing(House(request.getfixturevalue(kind))) as made:
        yield made


@pytest.fixture
def git_house(house: House) -> House:
    """The house, with branches and pull requests."""
    return house


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> FakeClock:
    """The house's clock where there is a house."""
    if "house" in request.fixturenames:
        return request.getfixturevalue("house").clock
    return FakeClock()


@pytest.fixture
def store(database: Path, clock: FakeClock) -> Iterator[Store]:
    with closing(open_store(database, clock=clock, patience=PATIENT)) as opened:
        yield opened


@pytest.fixture
def post(house: House, store: Store) -> Post:
    return Post(house, store)


@pytest.fixture
def scan(house, store):
    def run(**more):
        return scan_repo(store, house.forge, house.name, **more)

    return run


@pytest.fixture
def events(house, store):
    """What waits in the inbox: (kind, object id, body)."""

    def read(kind=None, number=None):
        with store.read() as tx:
            rows = list_pending_events(tx, house.name, number)
        found = [(row.kind, row.object_id, json.loads(row.payload)["body"]) for row in rows]
        return [event for event in found if kind is None or event[0] == kind]

    return read


@pytest.fixture
def cursor(house, store):
    def read(surface=Surface.REPO_ISSUE_COMMENTS):
        with store.read() as tx:
            return store.repo(house.name).get_poll_cursor(tx, surface, 0)

    return read
