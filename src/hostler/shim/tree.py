"""The process table: who is below whom, and signals that reach nobody else."""
# ruff: noqa: PTH123, PTH208
# (Importing pathlib would cost more than all of the shim.)

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


# The kernel's own name for a process that is past its last instruction.
PF_EXITING = 0x4


class Process:
    """One row of the process table."""

    __slots__ = (
        "group",
        "leaving",
        "name",
        "parent",
        "pid",
        "reaped",
        "session",
        "ticks",
        "zombie",
    )

    def __init__(self, pid: int, stat: bytes) -> None:
        # The name stands in brackets and may itself contain brackets and spaces.
        head, _, tail = stat.rpartition(b")")
        fields = tail.split()
        self.pid = pid
        self.name = head.partition(b"(")[2].decode("utf-8", "replace")
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        # Page faults of children that were waited for: grows whenever one has ended.
        self.reaped = int(fields[8]) + int(fields[10])
        # A process whose first thread has ended looks like a zombie while others still run.
        self.zombie = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
        # It has no memory any more, so no environment; its files and locks it may still have.
        self.leaving = bool(int(fields[6]) & PF_EXITING) and fields[0] not in (b"Z", b"X")
        self.ticks = int(fields[19])

    @property
    def key(self) -> tuple[int, int]:
        """Pid and start, in ticks since boot: together they never come again on this boot."""
        return self.pid, self.ticks


def look(pid: int) -> Process | None:
    """The process that has this pid now."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return Process(pid, file.read())
    except (OSError, IndexError, ValueError):
        return None


def table() -> dict[int, Process]:
    """All processes, zombies included."""
    return {process.pid: process for process in map(look, pids()) if process}


def pids() -> list[int]:
    """All pids; none when the system is short of descriptors."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def below(processes: Mapping[int, Process], roots: Iterable[int]) -> list[Process]:
    """Everything below the roots, without them; parents come before their children."""
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    wanted = list(roots)
    seen = set(wanted)
    found: list[Process] = []
    for pid in wanted:  # grows while we go
        for child in children.get(pid, ()):
            if child.pid not in seen:
                seen.add(child.pid)
                found.append(child)
                wanted.append(child.pid)
    return found


def first_child(pid: int) -> Process | None:
    """The child that was started first, of those that are there."""
    children = [process for process in table().values() if process.parent == pid]
    return min(children, key=lambda process: (process.ticks, process.pid), default=None)


def living(root: int) -> list[Process]:
    """Everything below `root` that is alive now."""
    return [process for process in below(table(), [root]) if not process.zombie]


def send(process: Process, number: int) -> bool:
    """Signal a process, unless its pid has passed to somebody else."""
    return _held(process, lambda pidfd, _: signal.pidfd_send_signal(pidfd, number))


def send_group(process: Process, number: int) -> bool:
    """Signal all members of a process's group at once: none can fork its way out.

    The tree has sessions of its own, so its groups hold nobody else. Our own group is spared.
    """

    def strike(_: int, now: Process) -> None:
        if now.group not in (0, 1, os.getpgrp()):
            os.killpg(now.group, number)

    return _held(process, strike)


def _held(process: Process, act: Callable[[int, Process], None]) -> bool:
    """Do something to a process while a descriptor keeps its pid from passing on."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        now = look(process.pid)
        if now is None or now.key != process.key:
            return False
        act(pidfd, now)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True
