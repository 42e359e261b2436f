"""The supervisor process of an agent: it outlives the service.

Run as `python -I -S <this folder> <run folder>`. In reading order: `supervisor` is the main
function, `agent` starts the agent and applies its limits, `processes` reads and terminates
process trees, `spec` and `run_files` are the files, `orphans` is for the service.
The modules import only the standard library and each other; the service uses `orphans`,
`processes` and `run_files`.
"""

from __future__ import annotations

import sys

__all__ = ["command"]


def command(folder: str) -> list[str]:
    """Return the argv of a shim for the run in `folder`."""
    return [sys.executable, "-I", "-S", __path__[0], folder]
