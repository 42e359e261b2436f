"""For the service: end what a killed shim left behind, and nothing else."""
# ruff: noqa: PTH116, PTH123
# (Importing pathlib would cost more than all of the shim.)

from __future__ import annotations

import os
import select
import time

from . import files, identity, lock, tree
from .ending import Ending
from .spec import MARK

GRACE_SECONDS = 10.0


class StillHeld(Exception):
    """The run's shim lives: it ends its tree itself, ask it with stop.json."""


class OutOfReach(Exception):
    """Nobody can tell from here what is left of the run; the message says why."""


class Swept:
    """What was found of a run, and how many did not leave when asked."""

    __slots__ = ("found", "killed")

    def __init__(self, found: int = 0, killed: int = 0) -> None:
        self.found = found
        self.killed = killed


def end_run(folder: str | os.PathLike[str], grace: float = GRACE_SECONDS) -> Swept:
    """End what is left of the run in `folder`, whose shim is gone."""
    if lock.held(folder):
        raise StillHeld(f"the shim of {os.fspath(folder)} lives")
    try:
        shim = files.read(f"{os.fspath(folder)}/{files.SHIM}")
    except files.Unreadable as error:
        raise OutOfReach(str(error)) from None
    if shim is None:
        return Swept()
    reach = identity.within_reach(shim)
    if reach is None:
        raise OutOfReach(f"the shim ran elsewhere: on {shim.get('host')}, or in another container")
    mark = shim.get("mark")
    if not isinstance(mark, str) or not mark:
        raise OutOfReach(f"{files.SHIM} has no mark")
    return end(mark, grace) if reach else Swept()


def end(mark: str, grace: float = GRACE_SECONDS) -> Swept:
    """End all processes with this mark and everything below them; returns when they are gone."""
    ending = Ending(time.monotonic(), grace)
    # Twice nothing: one look can miss somebody who forks while we read the table.
    empty = 0
    while empty < 2:
        alive = find(mark)
        empty = 0 if alive else empty + 1
        if alive:
            _wait_for(alive, ending.strike(alive, time.monotonic()))
    return Swept(ending.met, ending.killed)


def find(mark: str) -> list[tree.Process]:
    """Living processes of our user that carry the mark, and all below them."""
    processes = tree.table()
    spared = _our_line(processes)
    wanted = f"{MARK}={mark}".encode()
    roots = [pid for pid in processes if pid not in spared and _carries(pid, wanted)]
    found = [processes[pid] for pid in roots] + tree.below(processes, roots)
    return [process for process in found if not process.zombie and process.pid not in spared]


def _our_line(processes: dict[int, tree.Process]) -> set[int]:
    """We and those above us, who may carry the mark of a run that we are part of."""
    line: set[int] = set()
    pid = os.getpid()
    while pid in processes and pid not in line:
        line.add(pid)
        pid = processes[pid].parent
    return line


def _carries(pid: int, wanted: bytes) -> bool:
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return False
        with open(f"/proc/{pid}/environ", "rb") as file:
            return wanted in file.read().split(b"\0")
    except OSError:
        return False


def _wait_for(alive: list[tree.Process], seconds: float) -> None:
    """Until all of them have ended, or the time is over."""
    until = time.monotonic() + seconds
    poll = select.poll()
    waited = set()
    try:
        for process in alive:
            try:
                pidfd = os.pidfd_open(process.pid)
            except OSError:
                continue
            waited.add(pidfd)
            poll.register(pidfd, select.POLLIN)
        left = set(waited)
        while left and (remaining := until - time.monotonic()) > 0:
            for pidfd, _ in poll.poll(remaining * 1000):
                poll.unregister(pidfd)
                left.discard(pidfd)
    finally:
        for pidfd in waited:
            os.close(pidfd)
