"""run.json: a run as a person would ask for it, beside its output. Nothing reads it back."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hostler.agents.errors import RunFilesFailed
from hostler.shim import files
from hostler.store.runs import Run

NAME = "run.json"
_PARTS = ("shim", "tally", "result", "limit_signal")


def make_folder(folder: Path) -> None:
    """Before a run is launched; whoever removes it later has removed it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise RunFilesFailed(folder, error) from error


def show(folder: Path, run: Run) -> None:
    """Write it whole, as far as that can be done: a run goes on without it."""
    try:
        files.write(str(folder / NAME), fields(run))
    except OSError:
        return


def fields(run: Run) -> dict[str, Any]:
    """What is shown. The shim's mark stays out: whoever carries it is swept."""
    values = asdict(run)
    values |= {name: json.loads(values[name]) for name in _PARTS if values[name]}
    if values["shim"]:
        values["shim"].pop("mark", None)
    return values
