"""What the shim's tests share."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from shim_fixture import ShimRuns

if sys.platform != "linux":
    pytest.skip("the shim runs on Linux only", allow_module_level=True)


@pytest.fixture
def shim_runs(tmp_path: Path) -> Iterator[ShimRuns]:
    """A place for runs; whatever a test does, no process may be left when it ends."""
    made = ShimRuns(tmp_path, secrets.token_hex(8))
    yield made
    left = made.close()
    assert not left, f"left behind: {[process.name for process in left]}"
