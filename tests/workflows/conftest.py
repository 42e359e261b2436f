"""A farm per test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout_fixture import Agent, plant
from intake_yard import Yard, database
from workflow_farm import Farm

from hostler.checkouts.mirror import Remote, fetch_mirror, open_mirror
from hostler.clock import FakeClock
from hostler.model import RepoName


@pytest.fixture(scope="session")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An origin and its mirror, to be copied for each test."""
    root = tmp_path_factory.mktemp("seed")
    (root / "agent-home").mkdir()
    origin = plant(root, Agent(root / "agent-home"))
    fetch_mirror(
        open_mirror(root / "mirrors", RepoName("octo", "stable")), Remote(f"file://{origin}")
    )
    return root


@pytest.fixture
def farm(tmp_path: Path, seed: Path) -> Iterator[Farm]:
    for name in ("origin.git", "mirrors", "agent-home"):
        shutil.copytree(seed / name, tmp_path / name)
    clock = FakeClock()
    with database(clock) as store:
        yield Farm(store, clock, tmp_path)


@pytest.fixture
def yard() -> Iterator[Yard]:
    clock = FakeClock()
    with database(clock) as store:
        yield Yard(store, clock)
