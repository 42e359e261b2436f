"""A home with an API per test."""

from __future__ import annotations

import pytest
from web_house import web_house

from hostler.clock import FakeClock


@pytest.fixture
def house(tmp_path):
    """With a clock that stands still."""
    with web_house(tmp_path / "home", FakeClock()) as found:
        yield found


@pytest.fixture
def client(house):
    return house.client()
