"""A quick run leaves out the slow files, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from quick_run import slow_files

ROOT = Path(__file__).parent.parent


def test_every_slow_file_exists():
    assert [path for path in sorted(slow_files()) if not path.is_file()] == []


def test_a_quick_run_leaves_out_slow_files_alone():
    slow, quick = "tests/base/test_logs.py", "tests/base/test_clock.py"
    assert ROOT / slow in slow_files()
    asked = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/base"]
    everything = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True)
    assert slow in everything.stdout and quick in everything.stdout
    few = subprocess.run([*asked, "--quick"], cwd=ROOT, capture_output=True, text=True)
    assert slow not in few.stdout and quick in few.stdout
