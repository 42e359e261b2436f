"""One message into the file: under the lock, behind the last one, whole or not at all."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hostler.bus.errors import BusError, BusFull, BusLocked, BusUnsynced, IdsExhausted
from hostler.bus.files import (
    aside,
    is_still,
    open_to_append,
    refusal,
    require_plain,
    set_aside,
    sync_folder,
)
from hostler.bus.ids import BEGINNING, id_and_stamp, later_id, next_id
from hostler.bus.lines import backward, last_line
from hostler.bus.lock import holder_of, lock_exclusive, unlock
from hostler.bus.mending import cover_up, mend
from hostler.bus.message import Message
from hostler.bus.terms import Terms
from hostler.bus.wire import LONGEST_LINE, Draft, id_in, parse
from hostler.clock import Clock
from hostler.forks import renew_after_fork


@dataclass(frozen=True, slots=True)
class ContentionStats:
    """How often the lock was tried for, and how often again."""

    attempts: int = 0
    retries: int = 0


class _Timeout(Exception):
    """The lock could not be had in time."""


class _End(NamedTuple):
    """Where a file ends, behind a newline, and the last id on the bus."""

    inode: int
    size: int
    last: str


class Writer:
    """Appends to one bus. Threads may share it: each message is written through its own opening."""

    def __init__(self, path: Path, clock: Clock, terms: Terms) -> None:
        self._path = path
        # A text is opened and looked up faster than a path.
        self._name = str(path)
        self._clock = clock
        self._terms = terms
        self._attempts = self._retries = 0
        self._end: _End | None = None
        self._named = 0
        self.after_fork()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Begin with a free lock, whoever held it in the parent."""
        self._counting = threading.Lock()

    @property
    def contention_stats(self) -> ContentionStats:
        """The attempts and retries of this writer."""
        with self._counting:
            return ContentionStats(self._attempts, self._retries)

    def append(self, draft: Draft) -> Message:
        """Write the message; only a lock that could not be had is tried for again."""
        began, holder = self._clock.monotonic(), ""
        for attempt in range(1, self._terms.max_retries + 1):
            if attempt > 1:
                self._clock.wakeup().wait(self._terms.pause_after(attempt - 1))
            self._count(attempt)
            try:
                return self._attempt(draft, attempt)
            except _Timeout as timeout:
                holder = str(timeout)
            except OSError as error:
                raise refusal(self._path, error) from error
        waited = self._clock.monotonic() - began
        raise BusLocked(self._path, holder, self._terms.max_retries, waited)

    def _count(self, attempt: int) -> None:
        with self._counting:
            self._attempts += 1
            self._retries += attempt > 1

    def _attempt(self, draft: Draft, attempt: int) -> Message:
        deadline = self._clock.monotonic() + self._terms.lock_timeout_seconds
        while True:
            file = open_to_append(self._name)
            try:
                message = self._locked_write(file, draft, attempt, deadline)
                if message is not None:
                    self._sync(file, message)
                    return message
            finally:
                os.close(file)

    def _locked_write(
        self, file: int, draft: Draft, attempt: int, deadline: float
    ) -> Message | None:
        if not lock_exclusive(file, deadline, self._clock):
            raise _Timeout(holder_of(file))
        try:
            return self._write(file, draft, attempt)
        finally:
            unlock(file)

    def _write(self, file: int, draft: Draft, attempt: int) -> Message | None:
        """The message as written; None where another file must be opened first."""
        end = self._look(file)
        if end is None:
            return None
        new, at = id_and_stamp(self._clock.now())
        try:
            message_id = later_id(end.last, new)
        except OverflowError as error:
            raise IdsExhausted(self._path, end.last) from error
        line = draft.line(message_id, at, attempt)
        if end.size and end.size + len(line) > self._terms.max_bytes:
            self._set_aside(message_id)
            return None
        self._put(file, line, end.size)
        self._end = _End(end.inode, end.size + len(line), message_id)
        return draft.message(message_id, at, attempt)

    def _look(self, file: int) -> _End | None:
        """The mended end of the file; None where the name belongs to another by now."""
        found = os.fstat(file)
        require_plain(self._path, found)
        if not is_still(self._name, found):
            return None
        known = self._end
        if known and known.size == found.st_size and known.inode == found.st_ino:
            return known
        last = id_in(last_line(file, found.st_size))
        if last:
            return _End(found.st_ino, found.st_size, last)
        return self._look_closely(file, found)

    def _look_closely(self, file: int, found: os.stat_result) -> _End:
        """Mend the end, and look for the last message wherever it is."""
        if found.st_size > self._terms.max_bytes + LONGEST_LINE:
            # None of us made it so large, and reading it could take hours: it is set aside unread.
            return _End(found.st_ino, found.st_size, self._last_id_aside())
        mend(self._path, file, found.st_size)
        size = os.fstat(file).st_size
        for line in backward(file, size):
            message = parse(line) if line else None
            if message is not None:
                return _End(found.st_ino, size, message.id)
        return _End(found.st_ino, size, self._last_id_aside())

    def _last_id_aside(self) -> str:
        files = set_aside(self._path)
        return files[-1].id if files else BEGINNING

    def _put(self, file: int, line: bytes, size: int) -> None:
        written = os.write(file, line)
        if written < len(line):
            # Whoever comes next would mend it, but might find that only the newline is missing.
            with suppress(OSError, BusError):
                cover_up(self._path, line[:written], size)
            raise BusFull(self._path)

    def _set_aside(self, message_id: str) -> None:
        """Give the file the name of an id that nobody has, and never will."""
        target = aside(self._path, message_id)
        while os.path.lexists(target):
            message_id = next_id(message_id, self._clock.now())
            target = aside(self._path, message_id)
        self._path.rename(target)

    def _sync(self, file: int, message: Message) -> None:
        if not self._terms.sync:
            return
        try:
            os.fdatasync(file)
            self._sync_name(file)
        except OSError as error:
            why = error.strerror or str(error)
            raise BusUnsynced(self._path, message.id, why) from error

    def _sync_name(self, file: int) -> None:
        """A new file's name survives with its folder alone."""
        inode = os.fstat(file).st_ino
        if inode != self._named:
            sync_folder(self._path.parent)
            self._named = inode
