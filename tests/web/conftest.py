"""Fixtures: a home with an API for each test."""

from __future__ import annotations

import pytest
from web_fixture import open_web_fixture, temporary_home

from hostler.clock import FakeClock


@pytest.fixture
def api_home():
    """A home with an API and a fake clock."""
    with temporary_home() as home, open_web_fixture(home, FakeClock()) as found:
        yield found


@pytest.fixture
def client(api_home):
    return api_home.client()
