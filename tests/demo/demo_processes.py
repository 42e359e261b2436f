"""The process table, looked at from outside; waiting for what must come, with an end."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

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
    """Every living process whose words, environment or folder name a place."""
    mark = os.fsencode(place)
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
            told = words + (entry / "environ").read_bytes() + bytes((entry / "cwd").readlink())
        except OSError:
            continue  # It has just ended, or is a zombie.
        if mark in told:
            found[int(entry.name)] = words.replace(b"\0", b" ").decode(errors="replace")
    return found


def nothing_is_left(place: Path) -> None:
    """Wait until no process has to do with a place any more."""
    until = time.monotonic() + PATIENCE
    while left := with_trace_of(place):
        assert time.monotonic() < until, f"still there: {left}"
        time.sleep(_LOOK)
