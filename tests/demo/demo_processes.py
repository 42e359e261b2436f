"""The process table, looked at from outside; waiting for what must come, with an end."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

from hostler.shim import processes
from started_processes import read

PATIENCE = 60.0
_LOOK = 0.02


def waited_for(file: Path) -> str:
    """The text of a file, once there is one."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if file.exists() and (text := file.read_text()):
            return text
        time.sleep(_LOOK)
    raise AssertionError(f"{file} never came")


def said_in(file: Path, words: str) -> None:
    """Wait until a file that grows holds these words."""
    until = time.monotonic() + PATIENCE
    while words not in file.read_text():
        assert time.monotonic() < until, f"{words!r} never came in:\n{file.read_text()}"
        time.sleep(_LOOK)


def gone(pid: int) -> None:
    """Wait until a process has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = select.select([descriptor], [], [], PATIENCE)
        assert ready, f"process {pid} still lives: {Path(f'/proc/{pid}/cmdline').read_text()!r}"
    finally:
        os.close(descriptor)


def with_trace_of(place: Path) -> dict[int, str]:
    """Every living process of ours whose words, environment or folder name a place."""
    mark = os.fsencode(place)
    found: dict[int, str] = {}
    for process in processes.list_living_descendants(os.getpid()):
        words = read(process.pid, "cmdline")
        try:
            folder = os.fsencode(Path(f"/proc/{process.pid}/cwd").readlink())
        except OSError:
            continue  # It has just ended.
        if mark in words + read(process.pid, "environ") + folder:
            found[process.pid] = words.replace(b"\0", b" ").decode(errors="replace")
    return found


def nothing_is_left(place: Path) -> None:
    """Wait until no process has to do with a place any more."""
    until = time.monotonic() + PATIENCE
    while left := with_trace_of(place):
        assert time.monotonic() < until, f"still there: {left}"
        time.sleep(_LOOK)
