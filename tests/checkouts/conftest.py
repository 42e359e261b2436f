"""A remote, a mirror and a checkout per test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from checkout_fixture import Agent, RepoFixture, plant

from hostler.checkouts.checkout import Checkout
from hostler.checkouts.mirror import Remote, fetch_mirror, open_mirror
from hostler.checkouts.preparation import PreparedCheckout
from hostler.model import RepoName


@pytest.fixture(scope="session")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An origin and its mirror, to be copied for each test."""
    root = tmp_path_factory.mktemp("seed")
    home = root / "agent-home"
    home.mkdir()
    origin = plant(root, Agent(home))
    mirror = open_mirror(root / "mirrors", RepoName("octo", "stable"))
    fetch_mirror(mirror, Remote(f"file://{origin}"))
    return root


@pytest.fixture
def repo_fixture(tmp_path: Path, seed: Path) -> RepoFixture:
    for name in ("origin.git", "mirrors", "agent-home"):
        shutil.copytree(seed / name, tmp_path / name)
    mirror = open_mirror(tmp_path / "mirrors", RepoName("octo", "stable"))
    origin = tmp_path / "origin.git"
    remote = Remote(f"file://{origin}")
    return RepoFixture(tmp_path, origin, Agent(tmp_path / "agent-home"), mirror, remote)


@pytest.fixture
def prepared(repo_fixture: RepoFixture) -> PreparedCheckout:
    return repo_fixture.prepare()


@pytest.fixture
def checkout(prepared: PreparedCheckout) -> Checkout:
    return prepared.checkout
