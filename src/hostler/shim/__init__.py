"""The agent's own supervisor process: it outlives the service.

Run as `python -I -S <this folder> <run folder>`. The modules import the standard library and
each other, nothing else of Hostler; the service uses `orphans`, `processes` and `run_files`.
"""

from __future__ import annotations

import sys

__all__ = ["command"]


def command(folder: str) -> list[str]:
    """The argv of a shim for the run in `folder`."""
    return [sys.executable, "-I", "-S", __path__[0], folder]
