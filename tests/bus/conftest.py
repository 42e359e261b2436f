"""A bus of one's own."""

from __future__ import annotations

import pytest

from hostler.bus import Bus
from hostler.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bus.jsonl"


@pytest.fixture
def bus(path) -> Bus:
    return Bus(path)
