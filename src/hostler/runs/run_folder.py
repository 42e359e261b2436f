"""The folder of a run: its lock and files, run.json, and processes left behind in it."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hostler.agents.errors import RunFilesFailed
from hostler.runs.states import Evidence, OutOfReach
from hostler.shim import orphans, processes, run_files
from hostler.shim.agent import STDERR_FILE, STDOUT_FILE
from hostler.shim.supervisor import STATE_STARTED
from hostler.store.runs import Run


def read_evidence(folder: Path, run: Run) -> Evidence:
    """All that the recovery table asks for."""
    known = shim_of(run)
    return Evidence(
        # The lock first: a shim that leaves in between has left its last word by then.
        shim_alive=is_alive(folder, known),
        last_word=read_exit_file(folder) is not None,
        agent_traced=_traced(folder, known),
        within_reach=known is None or processes.is_visible_here(known) is not None,
    )


def is_alive(folder: Path, known: Mapping[str, Any] | None) -> bool:
    """Whether the run's shim lives: by its lock, or as the very process that we know."""
    return is_locked(folder) or (known is not None and processes.is_alive(known) is True)


def is_locked(folder: Path) -> bool:
    """Whether the run's lock is held; something else in its place cannot be."""
    try:
        return stat.S_ISREG((folder / run_files.LOCK_FILE).lstat().st_mode) and run_files.is_locked(
            folder
        )
    except OSError:
        return False


def read_exit_file(folder: Path) -> dict[str, object] | None:
    """What exit.json says; one that cannot be read says nothing."""
    return _read(folder / run_files.EXIT_FILE)


def shim_of(run: Run) -> dict[str, Any] | None:
    """The identity of the run's shim, as stored before its agent was let go."""
    return json.loads(run.shim) if run.shim else None


def shim_in(folder: Path) -> dict[str, object] | None:
    """The identity that the shim itself wrote down."""
    return _read(folder / run_files.SHIM_FILE)


def _traced(folder: Path, known: Mapping[str, Any] | None) -> bool:
    """Whether there was, or may have been, an agent."""
    if known is None:
        return False  # its row knows no shim, so no go byte was sent
    if not (folder / run_files.LOCK_FILE).exists():
        return True  # a shim had this folder, and somebody took its files away
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
        run_files.write_json(str(folder / NAME), fields(run))
    except OSError:
        return


def fields(run: Run) -> dict[str, Any]:
    """What is shown. The shim's mark stays out: whoever carries it is swept."""
    values = asdict(run)
    values |= {name: json.loads(values[name]) for name in _PARTS if values[name]}
    if values["shim"]:
        values["shim"].pop("mark", None)
    return values


def kill_orphans(run: Run, grace: float) -> int:
    """End all processes that carry the run's mark; how many there were.

    The mark is that of the row: the agent can write to its folder, but not here.
    """
    known = shim_of(run)
    if known is None:
        return 0  # no go byte was ever sent
    reach = processes.is_visible_here(known)
    if reach is None:
        raise OutOfReach(run.run, f"it ran on {known.get('host')}, or in another container.")
    if not reach:
        return 0  # that machine has been started anew
    try:
        return orphans.end_marked_processes(str(known["mark"]), grace).found
    except orphans.RunUnreachable as error:
        raise OutOfReach(run.run, f"{error}.") from error
