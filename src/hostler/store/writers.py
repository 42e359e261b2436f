"""The queue of writers on one SQLite file: threads first, then processes, then the database.

Only `BEGIN IMMEDIATE` protects the data. What is here makes waiting fair, bounded and
explainable, so a turn that cannot be had in time is skipped rather than refused.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hostler.clock import Clock
from hostler.errors import StoreBusy
from hostler.store import holders
from hostler.store.forks import renew_after_fork


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a writer waits: in the queue, and then for the database itself.

    These are real seconds: the kernel and SQLite count them, not our clock.
    """

    queue_seconds: float = 10.0
    begin_seconds: float = 5.0

    @property
    def seconds(self) -> float:
        """Both together."""
        return self.queue_seconds + self.begin_seconds


class Turn:
    """One writer's turn: since when it waited, and whether the queue let it in."""

    def __init__(self) -> None:
        self.asked_at = time.monotonic()
        self.in_order = False

    @property
    def waited(self) -> float:
        """Seconds since the writer asked."""
        return time.monotonic() - self.asked_at


class OneWritePerThread:
    """Refuses a write inside a write of the same thread, which would wait for itself."""

    def __init__(self) -> None:
        self._threads: set[int] = set()

    @contextmanager
    def block(self) -> Iterator[None]:
        """One write of this thread."""
        me = threading.get_ident()
        if me in self._threads:
            raise RuntimeError(
                "store.write() inside store.write(): pass the open transaction on instead"
            )
        self._threads.add(me)
        try:
            yield
        finally:
            self._threads.discard(me)


class _Ticket(threading.Thread):
    """A place in the kernel's own queue, which is fair; asking again and again is not.

    `flock` knows no timeout, so a thread of its own waits. Whoever gives up leaves the
    ticket in the queue and may come back to it.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(name="hostler-writer-queue", daemon=True)
        self._file = file
        self._guard = threading.Lock()
        self._wanted = True
        self._called = threading.Event()

    def run(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        with self._guard:
            self._called.set()
            if not self._wanted:
                _unlock(self._file)

    def wait(self, seconds: float) -> BinaryIO | None:
        """The locked file, or None when the time is over."""
        try:
            self._called.wait(seconds)
        except BaseException:
            self._give_up()
            raise
        with self._guard:
            self._wanted = self._called.is_set()
        return self._file if self._wanted else None

    def resume(self) -> bool:
        """Come back to the place in the queue; False if our turn came while nobody wanted it."""
        with self._guard:
            self._wanted = not self._called.is_set()
            return self._wanted

    def forget(self) -> None:
        """In a forked child: the parent's thread waits, not we."""
        self._file.close()

    def _give_up(self) -> None:
        with self._guard:
            self._wanted = False
            if self._called.is_set():
                _unlock(self._file)


class WriterQueue:
    """One per database file and process, so that every user of the file in it queues here."""

    def __init__(self, side_file: Path) -> None:
        self._side_file = side_file
        self._begin()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Start anew: the lock and ticket of the parent's threads mean nothing here."""
        # Closing leaves the parent's locks in place; keeping them open would make us a holder.
        if self._file is not None:
            self._file.close()
        if self._ticket is not None:
            self._ticket.forget()
        self._begin()

    def _begin(self) -> None:
        self._file: BinaryIO | None = None
        self._mutex = threading.Lock()
        self._once = OneWritePerThread()
        self._ticket: _Ticket | None = None

    @contextmanager
    def turn(self, patience: Patience, clock: Clock) -> Iterator[Turn]:
        """Wait for our turn and hold it."""
        turn = Turn()
        with self._once.block(), self._entered(patience, turn):
            self._file = file = self._lock(patience.queue_seconds)
            turn.in_order = file is not None
            if file is not None:
                holders.write_holder(file.fileno(), holders.myself(clock.now()))
            yield turn

    def holder(self) -> str:
        """Who has the turn now, as far as can be known."""
        return str(holders.read_holder(self._side_file) or holders.UNKNOWN)

    @contextmanager
    def _entered(self, patience: Patience, turn: Turn) -> Iterator[None]:
        if not self._mutex.acquire(timeout=patience.seconds):
            raise StoreBusy(self.holder(), turn.waited)
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        file, self._file = self._file, None
        if file is not None and not file.closed:
            holders.clear_holder(file.fileno())
            _unlock(file)
        # Unlocked already where a fork inside the turn gave us a new lock.
        with suppress(RuntimeError):
            self._mutex.release()

    def _lock(self, seconds: float) -> BinaryIO | None:
        ticket, self._ticket = self._ticket, None
        if ticket is None or not ticket.resume():
            file = self._open()
            if file is None or holders.try_lock(file):
                return file
            ticket = _Ticket(file)
            ticket.start()
        self._ticket = ticket
        locked = ticket.wait(seconds)
        if locked is not None:
            self._ticket = None
        return locked

    def _open(self) -> BinaryIO | None:
        # In a folder that cannot be written the database will say so better than we could.
        try:
            descriptor = os.open(self._side_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None
        return os.fdopen(descriptor, "r+b", buffering=0)


def _unlock(file: BinaryIO) -> None:
    # Closing would not be enough where a child has inherited the descriptor.
    fcntl.flock(file, fcntl.LOCK_UN)
    file.close()


_queues: weakref.WeakValueDictionary[Path, WriterQueue] = weakref.WeakValueDictionary()
_queues_guard = threading.Lock()


def _renew_guard() -> None:
    # A thread of the parent may have held it, and nobody here would ever let go.
    global _queues_guard
    _queues_guard = threading.Lock()


os.register_at_fork(after_in_child=_renew_guard)


def queue_of(side_file: Path) -> WriterQueue:
    """The one queue that this process has for a side file."""
    key = side_file.absolute()
    with _queues_guard:
        queue = _queues.get(key)
        if queue is None:
            _queues[key] = queue = WriterQueue(key)
        return queue
