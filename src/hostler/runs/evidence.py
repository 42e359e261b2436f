"""The edge: what can be seen of a run in its folder and in the process table."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostler.runs.recovery import Evidence
from hostler.shim import files, identity, lock
from hostler.shim.agent import STDERR, STDOUT
from hostler.shim.life import STARTED
from hostler.store.runs import Run


def look(folder: Path, run: Run) -> Evidence:
    """All that the recovery table asks for."""
    known = shim_of(run)
    return Evidence(
        # The lock first: a shim that leaves in between has left its last word by then.
        shim_alive=is_alive(folder, known),
        last_word=last_word(folder) is not None,
        agent_traced=_traced(folder, known),
        within_reach=known is None or identity.within_reach(known) is not None,
    )


def is_alive(folder: Path, known: Mapping[str, Any] | None) -> bool:
    """Whether the run's shim lives: by its lock, or as the very process that we know."""
    return is_locked(folder) or (known is not None and identity.is_alive(known) is True)


def is_locked(folder: Path) -> bool:
    """Whether the run's lock is held; something else in its place cannot be."""
    try:
        return stat.S_ISREG((folder / lock.NAME).lstat().st_mode) and lock.held(folder)
    except OSError:
        return False


def last_word(folder: Path) -> dict[str, object] | None:
    """What exit.json says; one that cannot be read says nothing."""
    return _read(folder / files.EXIT)


def shim_of(run: Run) -> dict[str, Any] | None:
    """The identity of the run's shim, as stored before its agent was let go."""
    return json.loads(run.shim) if run.shim else None


def shim_in(folder: Path) -> dict[str, object] | None:
    """The identity that the shim itself wrote down."""
    return _read(folder / files.SHIM)


def _traced(folder: Path, known: Mapping[str, Any] | None) -> bool:
    """Whether there was, or may have been, an agent."""
    if known is None:
        return False  # its row knows no shim, so no go byte was sent
    if not (folder / lock.NAME).exists():
        return True  # a shim had this folder, and somebody took its files away
    if any((folder / name).exists() for name in (STDOUT, STDERR)):
        return True
    try:
        shim = files.read(str(folder / files.SHIM))
    except files.Unreadable:
        return True
    return shim is not None and shim.get("state") == STARTED


def _read(path: Path) -> dict[str, object] | None:
    try:
        return files.read(str(path))
    except files.Unreadable:
        return None
