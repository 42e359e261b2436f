"""Who holds a lock: written into the lock file by the holder, read by those who wait in vain."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from hostler import __version__
from hostler.model import stamp

UNKNOWN = "another process"
# One size always, so that noting a holder changes no file's length while others sync.
_RECORD = 512
# SQLite's own lock for writers in WAL mode: one byte of the -shm file.
_WAL_WRITE_BYTE = 120


@dataclass(frozen=True, slots=True)
class Holder:
    """A process, as shown to a person. `purpose`: what it holds something for, if it says so.

    `version`: of the program, as it was when the process began.
    """

    pid: int
    program: str
    host: str
    since: str
    purpose: str = ""
    version: str = ""

    def __str__(self) -> str:
        what = " ".join(word for word in (self.program, self.purpose) if word)
        return f"{what} (pid {self.pid} on {self.host}, since {self.since})"


def myself(now: datetime, purpose: str = "") -> Holder:
    """This process, holding something from now on."""
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    return Holder(os.getpid(), program, socket.gethostname(), stamp(now), purpose, __version__)


def write_holder(descriptor: int, holder: Holder) -> None:
    """Say in the lock file who holds it."""
    _write(descriptor, json.dumps(asdict(holder)))


def clear_holder(descriptor: int) -> None:
    """Say that nobody holds it any more."""
    _write(descriptor, "")


def _write(descriptor: int, text: str) -> None:
    # A full disk must not stop anybody from locking.
    with suppress(OSError):
        os.pwrite(descriptor, text.encode()[: _RECORD - 1].ljust(_RECORD - 1) + b"\n", 0)


def read_holder(lock_file: Path) -> Holder | None:
    """Who the lock file names; None where it names nobody (yet)."""
    try:
        with lock_file.open("rb") as file:
            found = json.loads(file.read(_RECORD))
        return Holder(
            int(found["pid"]),
            str(found["program"]),
            str(found["host"]),
            str(found["since"]),
            str(found.get("purpose", "")),
            str(found.get("version", "")),
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None


def sqlite_writer(shm: Path) -> str | None:
    """The process that has SQLite's own write lock, from the kernel's list (Linux only)."""
    # Asking through the file itself would need a descriptor of it, and closing that one
    # would drop this process's own locks.
    try:
        inode = shm.stat().st_ino
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        pid = _locks_the_write_byte(line.split(), inode)
        if pid is not None:
            return f"{_program(pid)} (pid {pid})"
    return None


def _locks_the_write_byte(fields: list[str], inode: int) -> int | None:
    # 12: POSIX  ADVISORY  WRITE 4711 fe:00:131 120 120
    if len(fields) != 8 or fields[1] != "POSIX" or fields[3] != "WRITE":
        return None
    if fields[5].rpartition(":")[2] != str(inode) or int(fields[6]) > _WAL_WRITE_BYTE:
        return None
    if fields[7] != "EOF" and int(fields[7]) < _WAL_WRITE_BYTE:
        return None
    return int(fields[4])


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return UNKNOWN


def try_lock(file: BinaryIO) -> bool:
    """Become the holder of a lock file, if nobody is."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
