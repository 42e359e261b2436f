"""Watch commits and folders for all live clients, and keep the latest task events."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostler.bus.watch import BusWatch, open_watch
from hostler.clock import Clock
from hostler.service.tasks.details import brief_json
from hostler.store import Store
from hostler.store.tasks import OVER, Marks, marks_of, newest_order, tasks_by_id
from hostler.telemetry import names
from hostler.telemetry.metrics import metrics
from hostler.web.errors import TooMany

# So many are kept; who is farther behind reads the list again.
MAX_EVENTS = 2048


@dataclass(frozen=True, slots=True)
class EventPosition:
    """Behind which event somebody is."""

    epoch: str
    number: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> EventPosition | None:
        """From the id of an event; None for what is none."""
        epoch, dash, number = text.rpartition("-")
        if not dash or not (number.isascii() and number.isdigit() and len(number) < 16):
            return None
        return cls(epoch, int(number))


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """A task as it was when it was looked at; `told` is what clients get."""

    number: int
    told: Mapping[str, Any]


def find_changed_tasks(before: Marks, after: Marks) -> list[str]:
    """Return the ids of tasks that are new, have changed, or are gone.

    A finished task that is no longer among them has only not changed for a while.
    """
    other = [name for name, mark in after.tasks.items() if before.tasks.get(name) != mark]
    gone = [
        name
        for name, mark in before.tasks.items()
        if name not in after.tasks and mark[0] not in OVER
    ]
    return sorted({*other, *gone})


class TaskEventLog:
    """Compares tasks with what was known of them, and keeps what changed. Thread-safe."""

    def __init__(self, store: Store, kept: int = MAX_EVENTS) -> None:
        self._store = store
        # Held while the database is read; readers of events never wait for it.
        self._looking = threading.Lock()
        self._known: Marks | None = None
        self._guard = threading.Lock()
        self._events: deque[TaskEvent] = deque(maxlen=kept)
        self._epoch = ""
        self._number = 0

    def begin(self) -> None:
        """A new epoch, from what is there now."""
        with self._looking:
            with self._store.read() as tx:
                self._known = marks_of(tx, newest_order(tx), tx.now())
            self._renew(secrets.token_hex(4))

    def end(self) -> None:
        """Nobody looks any more: what is known now is worth nothing later."""
        with self._looking:
            self._known = None
            self._renew("")

    def look(self) -> None:
        """Note what has changed since the last look."""
        with self._looking:
            before = self._known
            if before is None:
                return
            with self._store.read() as tx:
                after = marks_of(tx, before.order, before.read_at)
                names = find_changed_tasks(before, after)
                found = tasks_by_id(tx, names)
            self._known = after
            self._add(
                brief_json(found[name]) if name in found else {"id": name, "deleted": True}
                for name in names
            )

    def _renew(self, epoch: str) -> None:
        with self._guard:
            self._epoch, self._number = epoch, 0
            self._events.clear()

    def _add(self, told: Iterable[Mapping[str, Any]]) -> None:
        with self._guard:
            for one in told:
                self._number += 1
                self._events.append(TaskEvent(self._number, one))

    def end_place(self) -> EventPosition:
        """Behind everything that was noted so far."""
        with self._guard:
            return EventPosition(self._epoch, self._number)

    def after(self, place: EventPosition, most: int) -> list[TaskEvent] | None:
        """The next events behind a place; None: some of them cannot be told any more."""
        with self._guard:
            if place.epoch != self._epoch or place.number > self._number:
                return None
            first = self._number - len(self._events) + 1
            if place.number + 1 < first:
                return None
            begin = place.number + 1 - first
            return [self._events[at] for at in range(begin, min(begin + most, len(self._events)))]


MAX_CLIENTS = 64
# After the last client left, so long somebody may come back and read on.
LINGER_SECONDS = 30.0
# How often it is looked whether anybody is still there.
CHECK_SECONDS = 1.0
# Between two looks at the rows, and two rings for files: commits and lines come in bursts.
COMMIT_DELAY_SECONDS = 0.25
FILE_DELAY_SECONDS = 0.05


class StreamListener:
    """A coroutine that is woken by threads."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake it, from any thread."""
        with suppress(RuntimeError):  # its loop has ended
            self._loop.call_soon_threadsafe(self._event.set)

    def hush(self) -> None:
        """Forget what rang so far. Before one looks, never after."""
        self._event.clear()

    async def heard(self, seconds: float) -> bool:
        """Wait until it rings; False when the time is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


class LiveHub:
    """Every live client listens here."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        most: int = MAX_CLIENTS,
        linger: float = LINGER_SECONDS,
    ) -> None:
        self.journal = TaskEventLog(store)
        self._most = most
        self._guard = threading.Lock()
        self._listeners: dict[StreamListener, Path | None] = {}
        self._commits = CommitWatcher(store, clock, self.journal, self._ring_all, linger)
        self._folders = FolderWatcher(clock, self._ring_followers)

    @property
    def clients(self) -> int:
        """How many listen."""
        with self._guard:
            return len(self._listeners)

    @property
    def full(self) -> bool:
        """Whether nobody more may listen."""
        return self.clients >= self._most

    @property
    def watching(self) -> bool:
        """Whether any thread of ours is at work."""
        return self._commits.watching or self._folders.watching

    @asynccontextmanager
    async def listening(self, folder: Path | None = None) -> AsyncIterator[StreamListener]:
        """Hear of commits, and of changes in a folder, for the length of a block."""
        listener, loop = StreamListener(), asyncio.get_running_loop()
        joining = loop.run_in_executor(None, self._join, listener, folder)
        try:
            await asyncio.shield(joining)
        except asyncio.CancelledError:
            joining.add_done_callback(lambda _: self._leave(listener, folder))
            raise
        try:
            yield listener
        finally:
            self._leave(listener, folder)

    def _join(self, listener: StreamListener, folder: Path | None) -> None:
        with self._guard:
            if len(self._listeners) >= self._most:
                raise TooMany(f"{self._most} clients follow already.", "Close some, and try again.")
            self._listeners[listener] = folder
            metrics.set(names.LIVE_CLIENTS, len(self._listeners))
        try:
            self._commits.join()
        except BaseException:
            self._leave(listener, folder)
            raise
        if folder is not None:
            self._folders.join(folder)

    def _leave(self, listener: StreamListener, folder: Path | None) -> None:
        """Takes no lock that anybody holds while he reads: an event loop may call it."""
        with self._guard:
            if self._listeners.pop(listener, self) is self:
                return  # it never was one
            metrics.set(names.LIVE_CLIENTS, len(self._listeners))
        self._commits.leave()
        if folder is not None:
            self._folders.leave(folder)

    def close(self) -> None:
        """End all threads."""
        self._commits.close()
        self._folders.close()

    def _ring_all(self) -> None:
        with self._guard:
            for one in self._listeners:
                one.ring()

    def _ring_followers(self) -> None:
        """A file that changed is no news for those who follow rows alone."""
        with self._guard:
            for one, folder in self._listeners.items():
                if folder is not None:
                    one.ring()


class CommitWatcher:
    """Waits for commits while anybody listens, and a little longer."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        journal: TaskEventLog,
        ring: Callable[[], None],
        linger: float,
    ) -> None:
        self._store = store
        self._clock = clock
        self._journal = journal
        self._ring = ring
        self._linger = linger
        self._starting = threading.Lock()
        self._guard = threading.Lock()
        self._listeners = 0
        self._left = 0.0
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    @property
    def watching(self) -> bool:
        """Whether its thread is at work."""
        with self._guard:
            return self._thread is not None

    def join(self) -> None:
        """One more listens; the first has the thread begin, from what is there now."""
        with self._guard:
            self._listeners += 1
        with self._starting:
            if self.watching:
                return
            # In this order: what is committed meanwhile leads to another look.
            mark = self._store.change_mark()
            self._journal.begin()
            thread = threading.Thread(
                target=self._watch, args=[mark], name="live-commits", daemon=True
            )
            with self._guard:
                self._thread = thread
            thread.start()

    def leave(self) -> None:
        """One less."""
        with self._guard:
            self._listeners -= 1
            self._left = self._clock.monotonic()

    def close(self) -> None:
        """End now."""
        self._closing.set()
        with self._guard:
            thread = self._thread
        if thread is not None:
            thread.join(CHECK_SECONDS * 5)

    def _watch(self, mark: int) -> None:
        while not self._over():
            try:
                seen = self._store.wait_for_change(mark, CHECK_SECONDS)
                if seen == mark:
                    continue
                self._journal.look()
                mark = seen
                self._ring()
            except Exception:
                # The database is busy or gone, or a defect: looked at again, from the same mark.
                # Without this thread all who follow would be deaf, and nobody would know.
                self._closing.wait(CHECK_SECONDS)
            self._closing.wait(COMMIT_DELAY_SECONDS)

    def _over(self) -> bool:
        """Whether nobody needs us. Whoever comes after this begins anew."""
        with self._starting, self._guard:
            quiet = self._clock.monotonic() - self._left >= self._linger
            over = self._closing.is_set() or (self._listeners == 0 and quiet)
            if over:
                self._thread = None
                self._journal.end()
            return over


class FolderWatcher:
    """Waits for changes in the folders that anybody follows."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._guard = threading.Lock()
        self._wanted: Counter[Path] = Counter()
        self._watch: BusWatch | None = None
        self._thread: threading.Thread | None = None
        self._pause = threading.Event()

    @property
    def watching(self) -> bool:
        """Whether its thread is at work."""
        with self._guard:
            return self._thread is not None

    def join(self, folder: Path) -> None:
        """Watch this one too."""
        with self._guard:
            self._wanted[folder] += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="live-files", daemon=True)
                self._thread.start()
            elif self._wanted[folder] == 1:
                self._again()

    def leave(self, folder: Path) -> None:
        """Somebody less wants it."""
        with self._guard:
            self._wanted[folder] -= 1
            if self._wanted[folder] <= 0:
                del self._wanted[folder]
                self._again()

    def close(self) -> None:
        """Watch nothing any more."""
        self._pause.set()
        with self._guard:
            self._wanted.clear()
            self._again()
            thread = self._thread
        if thread is not None:
            thread.join(CHECK_SECONDS * 5)

    def _again(self) -> None:
        """Have the thread look at what is wanted now."""
        if self._watch is not None:
            self._watch.stop()

    def _run(self) -> None:
        while (watching := self._next()) is not None:
            with watching:
                # Something may have come before we watched.
                self._ring()
                while not watching.stopped:
                    watching.wait()
                    self._ring()
                    self._pause.wait(FILE_DELAY_SECONDS)

    def _next(self) -> BusWatch | None:
        with self._guard:
            if not self._wanted:
                self._watch = self._thread = None
                return None
            self._watch = open_watch(self._clock, sorted(self._wanted))
            return self._watch
