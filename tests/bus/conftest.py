"""A bus of one's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_calls import Done, caller

from hostler.bus.bus import Bus
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


@pytest.fixture
def hostler(tmp_path: Path, environment: dict[str, str]) -> Callable[..., Done]:
    """Run a command in this process, in an empty folder."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    return caller(folder, environment)
