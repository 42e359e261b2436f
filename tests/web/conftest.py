"""A home with an API per test."""

from __future__ import annotations

import pytest
from web_house import memory_home, web_house

from hostler.clock import FakeClock


@pytest.fixture
def house():
    """With a clock that stands still."""
    with memory_home() as home, web_house(home, FakeClock()) as found:
        yield found


@pytest.fixture
def client(house):
    return house.client()
