"""Locks on a home and its database, who holds them, and atomic file writes."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from hostler import __version__
from hostler.clock import Clock
from hostler.errors import HomeLocked, StoreFull, StoreReadOnly
from hostler.forks import reset_after_fork
from hostler.model import format_timestamp
from hostler.store.engine.backend import set_aside

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
    return Holder(
        os.getpid(), program, socket.gethostname(), format_timestamp(now), purpose, __version__
    )


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


_PREFIX, _SUFFIX = ".hostler-", ".part"
# What SQLite may leave beside a file that it writes.
_BESIDE = ("", "-journal", "-wal", "-shm")


@contextmanager
def part_of(target: Path) -> Iterator[Path]:
    """An empty file to write, which becomes the target when the block ends."""
    with written(target):
        sweep(target.parent)
        part, descriptor = _claim(target.parent)
    try:
        yield part
        with written(target):
            sync(part)
            part.replace(target)
            sync(target.parent)
    except BaseException:
        _remove(part)
        raise
    finally:
        os.close(descriptor)


@contextmanager
def written(target: Path) -> Iterator[None]:
    """Say of a failure that this file could not be written, and why."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise StoreFull(
                f"No space is left for {target}.",
                safe="The database was not touched.",
                remedy="Free some space, or name another file.",
            ) from error
        raise StoreReadOnly(
            f"{target} cannot be written: {error.strerror}.",
            safe="The database was not touched.",
            remedy="Look at owner, permissions and mount of its folder, or name another file.",
        ) from error


def private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for ourselves alone."""
    for part in [*reversed(folder.parents), folder]:
        with suppress(FileExistsError, IsADirectoryError):
            if not part.is_dir():
                part.mkdir(mode=0o700)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def sweep(folder: Path) -> None:
    """Remove the parts that nobody writes any more."""
    for part in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError):
            descriptor = os.open(part, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(part)
            finally:
                os.close(descriptor)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _claim(folder: Path) -> tuple[Path, int]:
    while True:
        part = folder / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # Somebody may sweep between our making it and our locking it.
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if part.exists():
                return part, descriptor
        os.close(descriptor)


def _remove(part: Path) -> None:
    for ending in _BESIDE:
        with suppress(OSError):
            os.unlink(f"{part}{ending}")  # noqa: PTH108


FILE_NAME = "service.lock"


class HomeLock:
    """A held lock. It may be handed to the program that replaces this one by `exec`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        reset_after_fork(self)

    @classmethod
    def take(cls, home: Path, clock: Clock, purpose: str = "") -> HomeLock:
        """Take the lock now, or raise `HomeLocked` with the holder's name."""
        path = home / FILE_NAME
        while True:
            file = _open(path)
            if not try_lock(file):
                looked_at = _try_to_look(file)
                file.close()
                if looked_at:
                    continue  # somebody only asked who works here, and is through in no time
                raise HomeLocked(home, read_holder(path))
            if _is_still(path, file):
                write_holder(file.fileno(), myself(clock.now(), purpose))
                return cls(file)
            file.close()

    @classmethod
    def inherit(cls, home: Path, descriptor: int, clock: Clock, purpose: str = "") -> HomeLock:
        """Go on holding the lock that the program before us handed over."""
        path = home / FILE_NAME
        try:
            file = os.fdopen(descriptor, "r+b", buffering=0)
        except OSError as error:
            raise HomeLocked(home, read_holder(path)) from error
        if not _is_still(path, file) or not try_lock(file):
            file.close()
            raise HomeLocked(home, read_holder(path))
        os.set_inheritable(descriptor, False)
        write_holder(descriptor, myself(clock.now(), purpose))
        return cls(file)

    def hand_over(self) -> int:
        """The descriptor, made to stay open across `exec`; pass its number to the new program."""
        descriptor = self._file.fileno()
        os.set_inheritable(descriptor, True)
        # Nobody may drop it between here and there.
        set_aside(self._file)
        return descriptor

    def release(self) -> None:
        """Let the next one in. Releasing twice is harmless."""
        if self._file.closed:
            return
        clear_holder(self._file.fileno())
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._file.close()

    def after_fork(self) -> None:
        """A forked child does not work on the home; its copy must not outlive the parent's."""
        self._file.close()


@contextmanager
def home_lock(home: Path, clock: Clock, purpose: str = "") -> Iterator[HomeLock]:
    """Hold the lock for the length of a block; `purpose` tells others what for."""
    with held(HomeLock.take(home, clock, purpose)) as lock:
        yield lock


@contextmanager
def held(lock: HomeLock) -> Iterator[HomeLock]:
    """Release a lock at the end of a block."""
    try:
        yield lock
    finally:
        lock.release()


def who_works(home: Path) -> Holder | None:
    """Who holds the lock of a home at this moment; None: nobody does."""
    path = home / FILE_NAME
    try:
        file = path.open("rb", buffering=0)
    except OSError:
        return None
    with file:
        if _try_to_look(file):
            return None
    # It may have been taken this very moment, and nobody is named yet.
    return read_holder(path) or Holder(0, UNKNOWN, "", "")


def _try_to_look(file: BinaryIO) -> bool:
    """Share the lock for a moment with others who look; refused while somebody works."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(file, fcntl.LOCK_UN)
    return True


def _open(path: Path) -> BinaryIO:
    try:
        private_folder(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreReadOnly(
            f"The home {path.parent} cannot be used: {error.strerror}.",
            safe="Nothing was touched.",
            remedy="Look at its owner and permissions, or use another one with --home.",
        ) from error
    return os.fdopen(descriptor, "r+b", buffering=0)


def _is_still(path: Path, file: BinaryIO) -> bool:
    # Somebody may have removed the file between our opening and our locking it.
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except OSError:
        return False
