"""For the service: find and end processes that a killed shim left running."""
# ruff: noqa: PTH123
# pathlib and typing are not imported: they would take longer to load than all of the shim.

from __future__ import annotations

import os
import select
import time

from . import processes, run_files
from .processes import Termination
from .spec import MARK_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


GRACE_SECONDS = 10.0
# On a machine where processes start and end all the time, this many uncertain scans are enough.
MAX_UNCERTAIN_SCANS = 20
# How long each scan waits for exiting processes: one may belong to the run.
EXITING_WAIT_SECONDS = 0.5
_MARK_PREFIX = f"{MARK_VARIABLE}=".encode()


class RunStillHeld(Exception):
    """The run's shim is alive: it ends its processes itself; request that with stop.json."""


class RunUnreachable(Exception):
    """The processes of the run cannot be seen from here; the message says why."""


class OrphanResult:
    """How many processes of a run were found, and how many did not exit when asked."""

    __slots__ = ("found", "killed")

    def __init__(self, found: int = 0, killed: int = 0) -> None:
        self.found = found
        self.killed = killed


def end_orphans_of_run(
    folder: str | os.PathLike[str], grace: float = GRACE_SECONDS
) -> OrphanResult:
    """End remaining processes of the run in `folder`, whose shim is gone."""
    if run_files.is_locked(folder):
        raise RunStillHeld(f"the shim of {os.fspath(folder)} is running")
    try:
        shim = run_files.read_json(f"{os.fspath(folder)}/{run_files.SHIM_FILE}")
    except run_files.UnreadableRunFile as error:
        raise RunUnreachable(str(error)) from None
    if shim is None:
        return OrphanResult()
    reach = processes.is_visible_here(shim)
    if reach is None:
        raise RunUnreachable(
            f"the shim ran elsewhere: on {shim.get('host')}, or in another container"
        )
    mark = shim.get("mark")
    if not isinstance(mark, str) or not mark:
        raise RunUnreachable(f"{run_files.SHIM_FILE} has no mark")
    return end_marked_processes(mark, grace) if reach else OrphanResult()


def end_marked_processes(mark: str, grace: float = GRACE_SECONDS) -> OrphanResult:
    """End all processes with this mark and their descendants. Return when they are gone."""
    ending = Termination(time.monotonic(), grace)
    scan = ProcessScan(mark)
    doubts = 0
    while doubts < MAX_UNCERTAIN_SCANS:
        scan = ProcessScan(mark, before=scan)
        for process in scan.carriers():
            # Signal while scanning: a process that forks and exits has a new pid in the next scan.
            ending.signal_next([process], time.monotonic())
        # Their marks can no longer be read: those already signalled belong to the run.
        if alive := scan.alive() + ending.only_known(scan.leaving):
            doubts = 0
            _wait_for_exit(alive, ending.signal_next(alive, time.monotonic()))
        elif scan.is_certain():
            break
        else:
            doubts += 1
            _wait_for_exit(scan.leaving, EXITING_WAIT_SECONDS)
    return OrphanResult(ending.found_count, ending.killed)


def find_marked_processes(mark: str) -> list[processes.Process]:
    """Return living processes of this user that carry the mark, and their descendants."""
    scan = ProcessScan(mark)
    list(scan.carriers())
    return scan.alive()


def count_marks() -> dict[str, int]:
    """Return the marks of living processes of this user, with the number of processes for each."""
    found: dict[str, int] = {}
    spared = _own_ancestors()
    for pid in processes.list_pids():
        process = processes.read_process(pid)
        if process is None or process.zombie or process.leaving or pid in spared:
            continue
        for entry in _read_environment(pid):
            if entry.startswith(_MARK_PREFIX):
                mark = entry[len(_MARK_PREFIX) :].decode("utf-8", "replace")
                found[mark] = found.get(mark, 0) + 1
    return found


class ProcessScan:
    """One pass over the process table, newest processes first."""

    def __init__(self, mark: str, before: ProcessScan | None = None) -> None:
        self._wanted = _MARK_PREFIX + mark.encode()
        self._before = before
        self._spared = _own_ancestors()
        self._found: list[processes.Process] = []
        self._table: dict[int, processes.Process] = {}
        self._zombies: set[tuple[int, int]] = set()
        self._missed = False
        self.leaving: list[processes.Process] = []

    def carriers(self) -> Iterator[processes.Process]:
        """Yield processes that carry the mark as soon as they are found."""
        for pid in sorted(processes.list_pids(), reverse=True):
            # Before the mark is read: the same identity at the signal proves whose mark it was.
            process = processes.read_process(pid)
            if process is None:
                self._missed = True
                continue
            self._table[pid] = process
            if process.zombie:
                self._zombies.add(process.key)
            elif process.leaving:
                self.leaving.append(process)
            elif pid not in self._spared and _has_mark(pid, self._wanted):
                self._found.append(process)
                yield process

    def alive(self) -> list[processes.Process]:
        """Return the processes found and their descendants."""
        if os.getpid() not in self._table:
            raise RunUnreachable(
                "the process table cannot be read: out of descriptors, or no /proc"
            )
        below = processes.find_descendants(self._table, [process.pid for process in self._found])
        return self._found + [p for p in below if not p.zombie and p.pid not in self._spared]

    def is_certain(self) -> bool:
        """Return whether no process ended during the pass: it could have left an unseen child."""
        known = self._before._zombies if self._before else set()
        return not (self._missed or self.leaving) and self._zombies <= known


def _own_ancestors() -> set[int]:
    """Return this process and its ancestors, which may carry the mark of an outer run."""
    line = {os.getpid()}
    above = processes.read_process(os.getpid())
    while above and above.parent not in line:
        line.add(above.parent)
        above = processes.read_process(above.parent)
    return line


def _has_mark(pid: int, wanted: bytes) -> bool:
    return wanted in _read_environment(pid)


def _read_environment(pid: int) -> list[bytes]:
    """Return the environment of a process of this user; empty for others."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            ours = os.fstat(file.fileno()).st_uid == os.geteuid()
            return file.read().split(b"\0") if ours else []
    except OSError:
        return []


def _wait_for_exit(alive: list[processes.Process], seconds: float) -> None:
    """Wait until all of them have ended, or until the timeout."""
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
