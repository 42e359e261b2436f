"""What the forge's tests share: a start_sandbox with houses, a database, a sender."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from github_fixture import SandboxRepo, start_sandbox
from outbox_fixture import Post

from hostler.clock import FakeClock, SystemClock
from hostler.forge.github.polling.poller import scan_repository as scan_repo
from hostler.model import Surface
from hostler.sandbox.server import Running
from hostler.store import Patience, Store, open_store
from hostler.store.admin.migrate import upgrade
from hostler.store.engine.backend import find_place
from hostler.store.inbox import pending_inbox_rows

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
    with start_sandbox(git=False) as made:
        yield made


@pytest.fixture(scope="session")
def git_sandbox() -> Iterator[Running]:
    with start_sandbox(git=True) as made:
        yield made


@pytest.fixture
def sandbox_repo(request: pytest.FixtureRequest) -> Iterator[SandboxRepo]:
    """A repository; with git where the test asks for a `sandbox_git_repo` too."""
    wants_git = {"sandbox_git_repo", "git_place"} & set(request.fixturenames)
    kind = "git_sandbox" if wants_git else "sandbox"
    with closing(SandboxRepo(request.getfixturevalue(kind))) as made:
        yield made


@pytest.fixture
def sandbox_git_repo(sandbox_repo: SandboxRepo) -> SandboxRepo:
    """The sandbox repository, with branches and pull requests."""
    return sandbox_repo


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> FakeClock:
    """The house's clock where there is a house."""
    if "sandbox_repo" in request.fixturenames:
        return request.getfixturevalue("sandbox_repo").clock
    return FakeClock()


@pytest.fixture
def store(database: Path, clock: FakeClock) -> Iterator[Store]:
    with closing(open_store(database, clock=clock, patience=PATIENT)) as opened:
        yield opened


@pytest.fixture
def post(sandbox_repo: SandboxRepo, store: Store) -> Post:
    return Post(sandbox_repo, store)


@pytest.fixture
def scan(sandbox_repo, store):
    def run(**more):
        return scan_repo(store, sandbox_repo.forge, sandbox_repo.name, **more)

    return run


@pytest.fixture
def events(sandbox_repo, store):
    """What waits in the inbox: (kind, object id, body)."""

    def read(kind=None, number=None):
        with store.read() as tx:
            rows = pending_inbox_rows(tx, sandbox_repo.name, number)
        found = [(row.kind, row.object_id, json.loads(row.payload)["body"]) for row in rows]
        return [event for event in found if kind is None or event[0] == kind]

    return read


@pytest.fixture
def cursor(sandbox_repo, store):
    def read(surface=Surface.REPO_ISSUE_COMMENTS):
        with store.read() as tx:
            return store.repo(sandbox_repo.name).get_poll_cursor(tx, surface, 0)

    return read
