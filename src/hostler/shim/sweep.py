"""For the service: end what a killed shim left behind, and nothing else."""
# ruff: noqa: PTH123
# (Importing pathlib would cost more than all of the shim.)

from __future__ import annotations

import os
import select
import time

from . import files, identity, lock, tree
from .ending import Ending
from .spec import MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

GRACE_SECONDS = 10.0
# On a machine where processes come and go all the time, so many looks in vain are enough.
MOST_DOUBTS = 20
# How long each of these looks waits for those who are about to be gone: one may be of the run.
LEAVING_SECONDS = 0.5
_PREFIX = f"{MARK}=".encode()


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
    scan = Scan(mark)
    doubts = 0
    while doubts < MOST_DOUBTS:
        scan = Scan(mark, before=scan)
        for process in scan.carriers():
            # At once: who forks and goes is somebody else by the time the table is read.
            ending.strike([process], time.monotonic())
        # Nobody can see any more whose they are: those that we have struck are ours.
        if alive := scan.alive() + ending.among(scan.leaving):
            doubts = 0
            _wait_for(alive, ending.strike(alive, time.monotonic()))
        elif scan.is_certain():
            break
        else:
            doubts += 1
            _wait_for(scan.leaving, LEAVING_SECONDS)
    return Swept(ending.met, ending.killed)


def find(mark: str) -> list[tree.Process]:
    """Living processes of our user that carry the mark, and all below them."""
    scan = Scan(mark)
    list(scan.carriers())
    return scan.alive()


def marks() -> dict[str, int]:
    """The marks that living processes of our user carry, and how many carry each."""
    found: dict[str, int] = {}
    spared = _our_line()
    for pid in tree.pids():
        process = tree.look(pid)
        if process is None or process.zombie or process.leaving or pid in spared:
            continue
        for entry in _environment(pid):
            if entry.startswith(_PREFIX):
                mark = entry[len(_PREFIX) :].decode("utf-8", "replace")
                found[mark] = found.get(mark, 0) + 1
    return found


class Scan:
    """One pass over the process table, newest processes first."""

    def __init__(self, mark: str, before: Scan | None = None) -> None:
        self._wanted = _PREFIX + mark.encode()
        self._before = before
        self._spared = _our_line()
        self._found: list[tree.Process] = []
        self._table: dict[int, tree.Process] = {}
        self._zombies: set[tuple[int, int]] = set()
        self._missed = False
        self.leaving: list[tree.Process] = []

    def carriers(self) -> Iterator[tree.Process]:
        """Those that carry the mark, each as soon as it is seen."""
        for pid in sorted(tree.pids(), reverse=True):
            # Before the mark is read: the same row at the strike proves that the mark was its own.
            process = tree.look(pid)
            if process is None:
                self._missed = True
                continue
            self._table[pid] = process
            if process.zombie:
                self._zombies.add(process.key)
            elif process.leaving:
                self.leaving.append(process)
            elif pid not in self._spared and _carries(pid, self._wanted):
                self._found.append(process)
                yield process

    def alive(self) -> list[tree.Process]:
        """Those found, and all below them."""
        if os.getpid() not in self._table:
            raise OutOfReach("the process table cannot be read: out of descriptors, or no /proc")
        below = tree.below(self._table, [process.pid for process in self._found])
        return self._found + [p for p in below if not p.zombie and p.pid not in self._spared]

    def is_certain(self) -> bool:
        """Whether nobody ended during the pass, who might have left a child behind unseen."""
        known = self._before._zombies if self._before else set()
        return not (self._missed or self.leaving) and self._zombies <= known


def _our_line() -> set[int]:
    """We and those above us, who may carry the mark of a run that we are part of."""
    line = {os.getpid()}
    above = tree.look(os.getpid())
    while above and above.parent not in line:
        line.add(above.parent)
        above = tree.look(above.parent)
    return line


def _carries(pid: int, wanted: bytes) -> bool:
    return wanted in _environment(pid)


def _environment(pid: int) -> list[bytes]:
    """What a process of our user was started with; nothing of anybody else."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            ours = os.fstat(file.fileno()).st_uid == os.geteuid()
            return file.read().split(b"\0") if ours else []
    except OSError:
        return []


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
