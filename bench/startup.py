"""How long the command line takes to start, against an empty Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.harness import Figures, interleaved

HOSTLER = str(Path(sys.executable).with_name("hostler"))
ROUNDS = 21


def _call(*argv: str) -> None:
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def run() -> Figures:
    """Ratios to `python -c pass`, measured in turns."""
    taken = interleaved(
        ROUNDS,
        baseline=lambda: _call(sys.executable, "-c", "pass"),
        version=lambda: _call(HOSTLER, "--version"),
        help=lambda: _call(HOSTLER, "--help"),
        config_help=lambda: _call(HOSTLER, "config", "--help"),
    )
    base = taken["baseline"]
    ratios = {f"{name}_ratio": taken[name] / base for name in ("version", "help", "config_help")}
    return {"baseline_ms": base * 1000, **ratios}
