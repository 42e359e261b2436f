"""Quick runs (`pytest --quick`) leave out the test files in `slow_files.txt`."""

from __future__ import annotations

from pathlib import Path

_ROOT = Path(__file__).parent.parent
SLOW_FILES = Path(__file__).with_name("slow_files.txt")


def slow_files() -> set[Path]:
    """Return the test files that a quick run leaves out."""
    lines = SLOW_FILES.read_text().splitlines()
    return {_ROOT / line for line in lines if not line.startswith("#")}
