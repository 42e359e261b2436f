"""The lock of a bus: an exclusive flock, tried for a while; and who else has it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from hostler.clock import Clock

TRY_EVERY_SECONDS = 0.01
_UNKNOWN = "another process"
_STOPPED = {"T", "t"}


def lock_exclusive(descriptor: int, deadline: float, clock: Clock) -> bool:
    """Take the lock, trying until the deadline; False when that has passed."""
    if _try(descriptor):
        return True
    pause = clock.wakeup()
    while (left := deadline - clock.monotonic()) > 0:
        pause.wait(min(TRY_EVERY_SECONDS, left))
        if _try(descriptor):
            return True
    return False


def unlock(descriptor: int) -> None:
    """Let go. Closing would not be enough where a child has inherited the descriptor."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder_of(descriptor: int) -> str:
    """Who has the lock on this file, from the kernel's list (Linux only)."""
    try:
        inode = str(os.fstat(descriptor).st_ino)
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return _UNKNOWN
    pids = (_holder_in(line.split(), inode) for line in lines)
    return next((_described(pid) for pid in pids if pid), _UNKNOWN)


def _holder_in(fields: list[str], inode: str) -> str:
    # 12: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF; waiters have an arrow as second field.
    if len(fields) != 8 or fields[1] != "FLOCK" or fields[5].rpartition(":")[2] != inode:
        return ""
    return fields[4]


def _described(pid: str) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return f"a process that has ended, or one that inherited from it (pid {pid})"
    # The program's name stands in parentheses and may hold some itself.
    name = stat.partition("(")[2].rpartition(")")[0]
    state = stat.rpartition(")")[2].split()[0]
    return f"{name} (pid {pid}, stopped)" if state in _STOPPED else f"{name} (pid {pid})"
