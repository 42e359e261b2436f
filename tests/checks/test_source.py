"""Style, types and layers of the source. As tests, they run beside the others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
CHECKS = {
    "types": [BIN / "mypy"],
    "lint": [BIN / "ruff", "check", "."],
    "format": [BIN / "ruff", "format", "--check", "."],
    "layers": [BIN / "lint-imports"],
}


@pytest.mark.timeout(900)  # mypy without its cache, on a busy machine
@pytest.mark.parametrize("check", CHECKS)
def test_source_passes(check):
    done = subprocess.run(
        CHECKS[check],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
