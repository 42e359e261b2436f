"""Append a message under the file lock, repair a torn line, and rotate a full file."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hostler.backoff import backoff
from hostler.bus.errors import BusError, BusFull, BusLocked, BusUnsynced, IdsExhausted
from hostler.bus.files import (
    end_of_last_line,
    error_from_os,
    is_same_file,
    list_rotated_files,
    open_for_append,
    open_for_overwrite,
    read_last_line,
    read_lines_backward,
    require_regular_file,
    rotated_path,
    sync_folder,
)
from hostler.bus.message import (
    BEGINNING,
    MAX_LINE_SIZE,
    REPAIRED_LINE,
    Message,
    MessageDraft,
    id_after,
    id_and_timestamp,
    next_id,
    parse_line,
    read_line_id,
)
from hostler.clock import Clock
from hostler.forks import reset_after_fork

if TYPE_CHECKING:
    from hostler.config.settings import Tasks


_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BusOptions:
    """The settings `bus_*` of `[tasks]`."""

    sync: bool = False
    lock_timeout_seconds: float = 10.0
    max_retries: int = 3
    retry_backoff_seconds: float = 0.1
    max_bytes: int = 8 * _MEGABYTE

    @classmethod
    def of(cls, tasks: Tasks) -> BusOptions:
        """Read them from the settings."""
        return cls(
            sync=tasks.bus_sync,
            lock_timeout_seconds=tasks.bus_lock_timeout_seconds,
            max_retries=tasks.bus_max_retries,
            retry_backoff_seconds=tasks.bus_retry_backoff_seconds,
            max_bytes=tasks.bus_max_mb * _MEGABYTE,
        )

    def pause_after(self, attempt: int) -> float:
        """Return the pause in seconds before the next attempt."""
        return backoff(attempt - 1, self.retry_backoff_seconds, math.inf)


RETRY_INTERVAL_SECONDS = 0.01
_UNKNOWN = "another process"
_STOPPED = {"T", "t"}


def acquire_lock(descriptor: int, deadline: float, clock: Clock) -> bool:
    """Take the lock, retrying until the deadline. Return False on timeout."""
    if _try_lock(descriptor):
        return True
    pause = clock.wakeup()
    while (left := deadline - clock.monotonic()) > 0:
        pause.wait(min(RETRY_INTERVAL_SECONDS, left))
        if _try_lock(descriptor):
            return True
    return False


def release_lock(descriptor: int) -> None:
    """Release the lock. Closing is not enough if a child has inherited the descriptor."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def find_holder(descriptor: int) -> str:
    """Return the pid that holds the lock, from /proc/locks (Linux only)."""
    try:
        inode = str(os.fstat(descriptor).st_ino)
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return _UNKNOWN
    pids = (_parse_holder(line.split(), inode) for line in lines)
    return next((_describe_process(pid) for pid in pids if pid), _UNKNOWN)


def _parse_holder(fields: list[str], inode: str) -> str:
    # 12: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF; waiting processes have "->" as second field.
    if len(fields) != 8 or fields[1] != "FLOCK" or fields[5].rpartition(":")[2] != inode:
        return ""
    return fields[4]


def _describe_process(pid: str) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return f"a process that has ended, or one that inherited from it (pid {pid})"
    # The program's name is in parentheses and may contain parentheses itself.
    name = stat.partition("(")[2].rpartition(")")[0]
    state = stat.rpartition(")")[2].split()[0]
    return f"{name} (pid {pid}, stopped)" if state in _STOPPED else f"{name} (pid {pid})"


def build_filler_line(torn: bytes) -> bytes:
    """Return the text that overwrites a torn line: an empty object, at least as long."""
    return REPAIRED_LINE.ljust(len(torn)) + b"\n"


def repair_end(path: Path, descriptor: int, size: int) -> None:
    """Make the file end with a newline. The caller holds the lock."""
    start = end_of_last_line(descriptor, size)
    if start == size:
        return
    torn = os.pread(descriptor, MAX_LINE_SIZE + 1, start)
    if len(torn) > MAX_LINE_SIZE or parse_line(torn) is not None:
        os.write(descriptor, b"\n")
    else:
        overwrite_torn_line(path, torn, start)


def overwrite_torn_line(path: Path, torn: bytes, start: int) -> None:
    """Overwrite torn bytes at the end with an empty object. The caller holds the lock."""
    # Overwritten, never truncated: a reader that has read part of these bytes would join them
    # with the bytes of the next message.
    with open_for_overwrite(path) as over:
        line = build_filler_line(torn)
        if os.pwrite(over, line, start) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@dataclass(frozen=True, slots=True)
class ContentionStats:
    """How often the lock was tried, and how often it was retried."""

    attempts: int = 0
    retries: int = 0


class _LockTimeout(Exception):
    """The lock was not acquired in time."""


class _FileEnd(NamedTuple):
    """Where a file ends, after a newline, and the last id on the bus."""

    inode: int
    size: int
    last: str


class BusWriter:
    """Appends to one bus. Thread-safe: each message is written through its own descriptor."""

    def __init__(self, path: Path, clock: Clock, options: BusOptions) -> None:
        self._path = path
        # A string is opened and looked up faster than a Path.
        self._name = str(path)
        self._clock = clock
        self._options = options
        self._attempts = self._retries = 0
        self._end: _FileEnd | None = None
        self._named = 0
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Start with a free lock, even if it was held in the parent."""
        self._counting = threading.Lock()

    @property
    def contention_stats(self) -> ContentionStats:
        """Return the attempts and retries of this writer."""
        with self._counting:
            return ContentionStats(self._attempts, self._retries)

    def append(self, draft: MessageDraft) -> Message:
        """Write the message. Only a lock timeout is retried."""
        began, holder = self._clock.monotonic(), ""
        for attempt in range(1, self._options.max_retries + 1):
            if attempt > 1:
                self._clock.wakeup().wait(self._options.pause_after(attempt - 1))
            self._count(attempt)
            try:
                return self._attempt(draft, attempt)
            except _LockTimeout as timeout:
                holder = str(timeout)
            except OSError as error:
                raise error_from_os(self._path, error) from error
        waited = self._clock.monotonic() - began
        raise BusLocked(self._path, holder, self._options.max_retries, waited)

    def _count(self, attempt: int) -> None:
        with self._counting:
            self._attempts += 1
            self._retries += attempt > 1

    def _attempt(self, draft: MessageDraft, attempt: int) -> Message:
        deadline = self._clock.monotonic() + self._options.lock_timeout_seconds
        while True:
            file = open_for_append(self._name)
            try:
                message = self._locked_write(file, draft, attempt, deadline)
                if message is not None:
                    self._sync(file, message)
                    return message
            finally:
                os.close(file)

    def _locked_write(
        self, file: int, draft: MessageDraft, attempt: int, deadline: float
    ) -> Message | None:
        if not acquire_lock(file, deadline, self._clock):
            raise _LockTimeout(find_holder(file))
        try:
            return self._write(file, draft, attempt)
        finally:
            release_lock(file)

    def _write(self, file: int, draft: MessageDraft, attempt: int) -> Message | None:
        """Write and return the message; None if the file was rotated and must be opened again."""
        end = self._read_end(file)
        if end is None:
            return None
        new, at = id_and_timestamp(self._clock.now())
        try:
            message_id = id_after(end.last, new)
        except OverflowError as error:
            raise IdsExhausted(self._path, end.last) from error
        line = draft.line(message_id, at, attempt)
        if end.size and end.size + len(line) > self._options.max_bytes:
            self._set_aside(message_id)
            return None
        self._put(file, line, end.size)
        self._end = _FileEnd(end.inode, end.size + len(line), message_id)
        return draft.message(message_id, at, attempt)

    def _read_end(self, file: int) -> _FileEnd | None:
        """Return the repaired end of the file; None if the name now belongs to another file."""
        found = os.fstat(file)
        require_regular_file(self._path, found)
        if not is_same_file(self._name, found):
            return None
        known = self._end
        if known and known.size == found.st_size and known.inode == found.st_ino:
            return known
        last = read_line_id(read_last_line(file, found.st_size))
        if last:
            return _FileEnd(found.st_ino, found.st_size, last)
        return self._scan_end(file, found)

    def _scan_end(self, file: int, found: os.stat_result) -> _FileEnd:
        """Repair the end, and find the last message in any of the files."""
        if found.st_size > self._options.max_bytes + MAX_LINE_SIZE:
            # Hostler never writes so much, and reading it could take hours: rotate it unread.
            return _FileEnd(found.st_ino, found.st_size, self._last_id_aside())
        repair_end(self._path, file, found.st_size)
        size = os.fstat(file).st_size
        for line in read_lines_backward(file, size):
            message = parse_line(line) if line else None
            if message is not None:
                return _FileEnd(found.st_ino, size, message.id)
        return _FileEnd(found.st_ino, size, self._last_id_aside())

    def _last_id_aside(self) -> str:
        files = list_rotated_files(self._path)
        return files[-1].id if files else BEGINNING

    def _put(self, file: int, line: bytes, size: int) -> None:
        written = os.write(file, line)
        if written < len(line):
            # The next writer would repair it, but might see only that the newline is missing.
            with suppress(OSError, BusError):
                overwrite_torn_line(self._path, line[:written], size)
            raise BusFull(self._path)

    def _set_aside(self, message_id: str) -> None:
        """Rename the file to an id that was never used and never will be."""
        target = rotated_path(self._path, message_id)
        while os.path.lexists(target):
            message_id = next_id(message_id, self._clock.now())
            target = rotated_path(self._path, message_id)
        self._path.rename(target)

    def _sync(self, file: int, message: Message) -> None:
        if not self._options.sync:
            return
        try:
            os.fdatasync(file)
            self._sync_name(file)
        except OSError as error:
            why = error.strerror or str(error)
            raise BusUnsynced(self._path, message.id, why) from error

    def _sync_name(self, file: int) -> None:
        """Sync the folder: a new file's name survives a power failure only with it."""
        inode = os.fstat(file).st_ino
        if inode != self._named:
            sync_folder(self._path.parent)
            self._named = inode
