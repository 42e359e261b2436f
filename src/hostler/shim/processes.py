"""The process table, the identity of a process, and terminating a set of processes."""
# ruff: noqa: PTH115, PTH123, PTH208
# pathlib and typing are not imported: they would take longer to load than all of the shim.

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Set

    Key = tuple[int, int]


# PF_EXITING of the kernel: the process is ending.
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
        # The name is in parentheses and may contain parentheses and spaces.
        head, _, tail = stat.rpartition(b")")
        fields = tail.split()
        self.pid = pid
        self.name = head.partition(b"(")[2].decode("utf-8", "replace")
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        # Page faults of reaped children: grows whenever one has ended.
        self.reaped = int(fields[8]) + int(fields[10])
        # A process whose first thread has ended looks like a zombie while others still run.
        self.zombie = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
        # It has no memory and no environment any more, but may still hold files and locks.
        self.leaving = bool(int(fields[6]) & PF_EXITING) and fields[0] not in (b"Z", b"X")
        self.ticks = int(fields[19])

    @property
    def key(self) -> tuple[int, int]:
        """Return pid and start time in ticks since boot: unique within one boot."""
        return self.pid, self.ticks


def read_process(pid: int) -> Process | None:
    """Return the process with this pid."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return Process(pid, file.read())
    except (OSError, IndexError, ValueError):
        return None


def read_process_table() -> dict[int, Process]:
    """Return all processes, including zombies."""
    return {process.pid: process for process in map(read_process, list_pids()) if process}


def list_pids() -> list[int]:
    """Return all pids; empty when no descriptor is available."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def find_descendants(processes: Mapping[int, Process], roots: Iterable[int]) -> list[Process]:
    """Return all descendants of the roots, without the roots; parents before children."""
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    wanted = list(roots)
    seen = set(wanted)
    found: list[Process] = []
    for pid in wanted:  # grows during the loop
        for child in children.get(pid, ()):
            if child.pid not in seen:
                seen.add(child.pid)
                found.append(child)
                wanted.append(child.pid)
    return found


def find_first_child(pid: int) -> Process | None:
    """Return the child that was started first."""
    children = [process for process in read_process_table().values() if process.parent == pid]
    return min(children, key=lambda process: (process.ticks, process.pid), default=None)


def list_living_descendants(root: int) -> list[Process]:
    """Return all living descendants of `root`."""
    return [
        process for process in find_descendants(read_process_table(), [root]) if not process.zombie
    ]


def send_signal(process: Process, number: int) -> bool:
    """Signal a process unless its pid was reused."""
    return _with_pidfd(process, lambda pidfd, _: signal.pidfd_send_signal(pidfd, number))


def send_group_signal(process: Process, number: int) -> bool:
    """Signal all members of a process's group at once, so that none can fork away.

    The tree has its own sessions, so its groups contain no other process. Spare our own group.
    """

    def strike(_: int, now: Process) -> None:
        if now.group not in (0, 1, os.getpgrp()):
            os.killpg(now.group, number)

    return _with_pidfd(process, strike)


def _with_pidfd(process: Process, act: Callable[[int, Process], None]) -> bool:
    """Run an action while a pidfd keeps the pid from being reused."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        now = read_process(process.pid)
        if now is None or now.key != process.key:
            return False
        act(pidfd, now)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


def current_identity() -> dict[str, object]:
    """Return this process's identity."""
    me = read_process(os.getpid())
    if me is None:
        raise OSError("/proc does not know this process")
    return {**_host_identity(), "pid": me.pid, "start_ticks": me.ticks}


def is_alive(identity: Mapping[str, object]) -> bool | None:
    """Return whether exactly that process is alive; None if it cannot be known from here."""
    reach = is_visible_here(identity)
    if not reach:
        return reach
    pid = identity.get("pid")
    process = read_process(pid) if isinstance(pid, int) else None
    return process is not None and not process.zombie and is_same_process(identity, process)


def is_same_process(identity: Mapping[str, object], process: Process) -> bool:
    """Return whether an entry of the process table is that process."""
    return (identity.get("pid"), identity.get("start_ticks")) == process.key


def is_visible_here(identity: Mapping[str, object]) -> bool | None:
    """Return whether our process table can show it; False if its machine was rebooted."""
    here = _host_identity()
    if identity.get("boot_id") != here["boot_id"]:
        return False if identity.get("host") == here["host"] else None
    return True if identity.get("pid_namespace") == here["pid_namespace"] else None


def _host_identity() -> dict[str, object]:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return {
        "host": os.uname().nodename,
        "boot_id": boot,
        "pid_namespace": os.readlink("/proc/self/ns/pid"),
    }


# A process that starts during the grace period gets SIGTERM this late at most.
MAX_GRACE_WAIT_SECONDS = 0.5
MIN_PAUSE_SECONDS = 0.01
MAX_PAUSE_SECONDS = 1.0


class TerminationStep:
    """Whom to ask to exit, whom to kill, and how long to wait then."""

    __slots__ = ("ask", "kill", "pause")

    def __init__(self, ask: Set[Key], kill: Set[Key], pause: float) -> None:
        self.ask = ask
        self.kill = kill
        self.pause = pause


def plan_termination(
    alive: Set[Key], asked: Set[Key], killed: Set[Key], left: float, pause: float
) -> TerminationStep:
    """Return the next step. `left` is the remaining grace, `pause` the last wait."""
    if left > 0:
        return TerminationStep(alive - asked, frozenset(), min(left, MAX_GRACE_WAIT_SECONDS))
    if alive - killed:
        # A process forks while it is being killed: without a pause we catch up.
        return TerminationStep(frozenset(), alive, 0.0)
    return TerminationStep(
        frozenset(), alive, min(max(pause * 2, MIN_PAUSE_SECONDS), MAX_PAUSE_SECONDS)
    )


class Termination:
    """Terminates one process tree, in as many scans as needed."""

    def __init__(self, now: float, grace: float, spared: int = 0) -> None:
        """`spared`: a pid whose exit would end the others' grace; it is only killed."""
        self._spared = spared
        self._began = now
        self._deadline = now + grace
        self._asked: set[Key] = set()
        self._killed: set[Key] = set()
        self._pause = 0.0

    @property
    def found_count(self) -> int:
        """Return how many processes were found alive."""
        return len(self._asked | self._killed)

    @property
    def killed(self) -> int:
        """Return how many processes did not exit when asked."""
        return len(self._killed)

    def only_known(self, processes: Iterable[Process]) -> list[Process]:
        """Return those that were found before."""
        met = self._asked | self._killed
        return [process for process in processes if process.key in met]

    def shorten_grace(self, grace: float) -> None:
        """Shorten the grace period, counted from the start; it is never extended."""
        self._deadline = min(self._deadline, self._began + grace)

    def signal_next(self, alive: Iterable[Process], now: float) -> float:
        """Signal the processes of the next step. Return the seconds until the next scan."""
        by_key = {process.key: process for process in alive}
        what = plan_termination(
            by_key.keys(), self._asked, self._killed, self._deadline - now, self._pause
        )
        for key in what.ask:
            if key[0] != self._spared:
                send_signal(by_key[key], signal.SIGTERM)
            # A stopped process receives SIGTERM only when it continues.
            send_signal(by_key[key], signal.SIGCONT)
        for key in what.kill:
            send_group_signal(by_key[key], signal.SIGKILL)
            send_signal(by_key[key], signal.SIGKILL)
        self._asked |= what.ask
        self._killed |= what.kill
        self._pause = what.pause
        return what.pause
