"""The folder of a run: its lock, its files, run.json, and killing orphaned processes."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hostler.agents.errors import RunFilesFailed
from hostler.runs.states import RunEvidence, RunNotVisible
from hostler.shim import orphans, processes, run_files
from hostler.shim.agent import STDERR_FILE, STDOUT_FILE
from hostler.shim.supervisor import STATE_STARTED
from hostler.store.runs import Run


def read_evidence(folder: Path, run: Run) -> RunEvidence:
    """Return everything that the recovery rules ask for."""
    shim = stored_shim(run)
    return RunEvidence(
        # Check the lock first: a shim that exits in between has written exit.json by then.
        shim_alive=is_alive(folder, shim),
        has_exit_file=read_exit_file(folder) is not None,
        may_have_agent=_may_have_agent(folder, shim),
        is_reachable=shim is None or processes.is_visible_here(shim) is not None,
    )


def is_alive(folder: Path, shim: Mapping[str, Any] | None) -> bool:
    """Return whether the run's shim exists: by its lock, or as the very process that is stored."""
    return is_locked(folder) or (shim is not None and processes.is_alive(shim) is True)


def is_locked(folder: Path) -> bool:
    """Return whether the run's lock is held. Anything but a regular file counts as not locked."""
    try:
        return stat.S_ISREG((folder / run_files.LOCK_FILE).lstat().st_mode) and run_files.is_locked(
            folder
        )
    except OSError:
        return False


def read_exit_file(folder: Path) -> dict[str, object] | None:
    """Return the content of exit.json; None if it is missing or unreadable."""
    return _read(folder / run_files.EXIT_FILE)


def stored_shim(run: Run) -> dict[str, Any] | None:
    """Return the identity of the run's shim, as stored before its agent was started."""
    return json.loads(run.shim) if run.shim else None


def read_shim_file(folder: Path) -> dict[str, object] | None:
    """Return the identity that the shim itself wrote."""
    return _read(folder / run_files.SHIM_FILE)


def _may_have_agent(folder: Path, shim: Mapping[str, Any] | None) -> bool:
    """Return whether there was, or may have been, an agent."""
    if shim is None:
        return False  # No shim is stored, so no agent was started.
    if not (folder / run_files.LOCK_FILE).exists():
        return True  # A shim had this folder, and its files were removed.
    if any((folder / name).exists() for name in (STDOUT_FILE, STDERR_FILE)):
        return True
    try:
        shim = run_files.read_json(str(folder / run_files.SHIM_FILE))
    except run_files.UnreadableRunFile:
        return True
    return shim is not None and shim.get("state") == STATE_STARTED


def _read(path: Path) -> dict[str, object] | None:
    try:
        return run_files.read_json(str(path))
    except run_files.UnreadableRunFile:
        return None


RUN_FILE = "run.json"
_JSON_FIELDS = ("shim", "tally", "result", "limit_signal")


def make_folder(folder: Path) -> None:
    """Create the folder before a run is launched."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise RunFilesFailed(folder, error) from error


def write_run_file(folder: Path, run: Run) -> None:
    """Write run.json atomically. Errors are ignored: a run does not depend on it."""
    try:
        run_files.write_json(str(folder / RUN_FILE), _run_file_fields(run))
    except OSError:
        return


def _run_file_fields(run: Run) -> dict[str, Any]:
    """Return the content of run.json, without the mark by which orphans are found and killed."""
    values = asdict(run)
    values |= {name: json.loads(values[name]) for name in _JSON_FIELDS if values[name]}
    if values["shim"]:
        values["shim"].pop("mark", None)
    return values


def kill_orphans(run: Run, grace: float) -> int:
    """Kill all processes that carry the run's mark; return their number.

    The mark is read from the row: the agent can write to its folder, but not to the database.
    """
    shim = stored_shim(run)
    if shim is None:
        return 0  # No agent was started.
    visible = processes.is_visible_here(shim)
    if visible is None:
        raise RunNotVisible(run.run, f"it ran on {shim.get('host')}, or in another container.")
    if not visible:
        return 0  # That machine was rebooted.
    try:
        return orphans.end_marked_processes(str(shim["mark"]), grace).found
    except orphans.RunUnreachable as error:
        raise RunNotVisible(run.run, f"{error}.") from error
