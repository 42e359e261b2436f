"""What the sandbox's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from local_sandbox import Local
from pull_fixture import House, street

from hostler.sandbox.server import Running, running

SEED = {
    "users": [{"login": "alice"}, {"login": "bob"}, {"login": "carol"}],
    "repos": [{"name": "alice/demo", "issues": [{"title": "first"}]}],
}


@pytest.fixture
def local() -> Iterator[Local]:
    """A sandbox without sockets and without limits."""
    made = Local()
    yield made
    made.close()


@pytest.fixture
def strict() -> Iterator[Local]:
    """A sandbox without sockets, with GitHub's limits."""
    made = Local(limited=True)
    yield made
    made.close()


@pytest.fixture
def sandbox() -> Iterator[Running]:
    """A sandbox on a real port."""
    with running(SEED, creations_per_minute=0, points_per_minute=0) as made:
        yield made


@pytest.fixture(scope="module")
def git_sandbox() -> Iterator[Running]:
    """A sandbox with git, shared by the tests of a module."""
    with street() as made:
        yield made


@pytest.fixture
def house(git_sandbox: Running) -> Iterator[House]:
    """A repository of this test's own."""
    made = House(git_sandbox)
    yield made
    made.close()
