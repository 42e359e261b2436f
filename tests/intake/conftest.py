"""A yard per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from intake_yard import Yard, database, make_template

from hostler.clock import FakeClock


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template"))


@pytest.fixture
def yard(template: Path) -> Iterator[Yard]:
    clock = FakeClock()
    with database(template, clock) as store:
        yield Yard(store, clock)
