"""A yard per test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from intake_yard import Yard, database

from hostler.clock import FakeClock


@pytest.fixture
def yard() -> Iterator[Yard]:
    clock = FakeClock()
    with database(clock) as store:
        yield Yard(store, clock)
