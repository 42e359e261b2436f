"""What the tests of runs share."""

from __future__ import annotations

import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from runs_house import PATIENT, House

from hostler.clock import FakeClock, SystemClock
from hostler.store import Store, open_store
from hostler.store.migrate import upgrade
from hostler.store.place import find_place

if sys.platform != "linux":
    pytest.skip("agents run on Linux only", allow_module_level=True)


@pytest.fixture(scope="session")
def runs_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def stable(home: Path, runs_template: Path) -> Path:
    """A home with a database."""
    home.mkdir()
    shutil.copy(runs_template, home / runs_template.name)
    return home


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(stable: Path, clock: FakeClock) -> Iterator[Store]:
    with closing(open_store(stable, clock=clock, patience=PATIENT)) as opened:
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
