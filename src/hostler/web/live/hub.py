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
from hostler.web.errors import TooManyClients

# Number of events kept; clients that are further behind read the list again.
MAX_EVENTS = 2048


@dataclass(frozen=True, slots=True)
class EventPosition:
    """The last event that a client received."""

    epoch: str
    number: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> EventPosition | None:
        """Parse an event id; return None if it is not valid."""
        epoch, dash, number = text.rpartition("-")
        if not dash or not (number.isascii() and number.isdigit() and len(number) < 16):
            return None
        return cls(epoch, int(number))


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """A changed task; `data` is sent to clients."""

    number: int
    data: Mapping[str, Any]


def find_changed_tasks(before: Marks, after: Marks) -> list[str]:
    """Return the ids of tasks that are new, changed or deleted.

    A finished task missing in `after` is not deleted: it only has not changed for a while.
    """
    changed = [name for name, mark in after.tasks.items() if before.tasks.get(name) != mark]
    deleted = [
        name
        for name, mark in before.tasks.items()
        if name not in after.tasks and mark[0] not in OVER
    ]
    return sorted({*changed, *deleted})


class TaskEventLog:
    """Compares tasks with their last known state, and keeps the changes. Thread-safe."""

    def __init__(self, store: Store, kept: int = MAX_EVENTS) -> None:
        self._store = store
        # Held during database reads; readers of events do not wait for it.
        self._read_lock = threading.Lock()
        self._known: Marks | None = None
        self._events_lock = threading.Lock()
        self._events: deque[TaskEvent] = deque(maxlen=kept)
        self._epoch = ""
        self._number = 0

    def start(self) -> None:
        """Start a new epoch from the current state."""
        with self._read_lock:
            with self._store.read() as tx:
                self._known = marks_of(tx, newest_order(tx), tx.now())
            self._start_epoch(secrets.token_hex(4))

    def stop(self) -> None:
        """Forget the known state, which becomes stale while there are no listeners."""
        with self._read_lock:
            self._known = None
            self._start_epoch("")

    def update(self) -> None:
        """Record what has changed since the last update."""
        with self._read_lock:
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

    def _start_epoch(self, epoch: str) -> None:
        with self._events_lock:
            self._epoch, self._number = epoch, 0
            self._events.clear()

    def _add(self, changes: Iterable[Mapping[str, Any]]) -> None:
        with self._events_lock:
            for one in changes:
                self._number += 1
                self._events.append(TaskEvent(self._number, one))

    def last_position(self) -> EventPosition:
        """Return the position of the newest event."""
        with self._events_lock:
            return EventPosition(self._epoch, self._number)

    def read_after(self, position: EventPosition, limit: int) -> list[TaskEvent] | None:
        """Return the next events, or None if some of them are no longer kept."""
        with self._events_lock:
            if position.epoch != self._epoch or position.number > self._number:
                return None
            first = self._number - len(self._events) + 1
            if position.number + 1 < first:
                return None
            start = position.number + 1 - first
            return [self._events[at] for at in range(start, min(start + limit, len(self._events)))]


_MAX_CLIENTS = 64
# How long changes are still recorded after the last client has left, so that it can reconnect.
_LINGER_SECONDS = 30.0
# How often the watcher checks whether there are still clients.
CHECK_SECONDS = 1.0
# Minimum time between two reads, because commits and lines come in bursts.
_COMMIT_DELAY_SECONDS = 0.25
_FILE_DELAY_SECONDS = 0.05


class StreamListener:
    """Lets threads wake a coroutine."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wake the coroutine. Thread-safe."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._event.set)

    def clear(self) -> None:
        """Forget earlier notifications. Call before reading, never after."""
        self._event.clear()

    async def wait(self, seconds: float) -> bool:
        """Wait for a notification. Return False on timeout."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


class LiveHub:
    """Notifies all live clients of changes."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        max_clients: int = _MAX_CLIENTS,
        linger_seconds: float = _LINGER_SECONDS,
    ) -> None:
        self.event_log = TaskEventLog(store)
        self._max_clients = max_clients
        self._lock = threading.Lock()
        self._listeners: dict[StreamListener, Path | None] = {}
        self._commits = _CommitWatcher(
            store, clock, self.event_log, self._notify_all, linger_seconds
        )
        self._folders = _FolderWatcher(clock, self._notify_folder_listeners)

    @property
    def clients(self) -> int:
        """The number of live clients."""
        with self._lock:
            return len(self._listeners)

    @property
    def is_full(self) -> bool:
        """Whether the limit of clients is reached."""
        return self.clients >= self._max_clients

    @property
    def watching(self) -> bool:
        """Whether any watcher thread is running."""
        return self._commits.watching or self._folders.watching

    @asynccontextmanager
    async def listen(self, folder: Path | None = None) -> AsyncIterator[StreamListener]:
        """Listen for commits, and for changes in a folder, during the block."""
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
        with self._lock:
            if len(self._listeners) >= self._max_clients:
                raise TooManyClients(
                    f"The limit of {self._max_clients} live clients is reached.",
                    "Close some and try again.",
                )
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
        """Remove a listener. Waits for no database read, because event loops call it."""
        with self._lock:
            if self._listeners.pop(listener, self) is self:
                return  # it never joined
            metrics.set(names.LIVE_CLIENTS, len(self._listeners))
        self._commits.leave()
        if folder is not None:
            self._folders.leave(folder)

    def close(self) -> None:
        """Stop all threads."""
        self._commits.close()
        self._folders.close()

    def _notify_all(self) -> None:
        with self._lock:
            for one in self._listeners:
                one.notify()

    def _notify_folder_listeners(self) -> None:
        """Notify the listeners that follow a folder; the others follow only the database."""
        with self._lock:
            for one, folder in self._listeners.items():
                if folder is not None:
                    one.notify()


class _CommitWatcher:
    """Watches commits while there are listeners, and for `linger_seconds` afterwards."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        event_log: TaskEventLog,
        notify: Callable[[], None],
        linger_seconds: float,
    ) -> None:
        self._store = store
        self._clock = clock
        self._event_log = event_log
        self._notify = notify
        self._linger_seconds = linger_seconds
        self._start_lock = threading.Lock()
        self._lock = threading.Lock()
        self._listeners = 0
        self._left_at = 0.0
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    @property
    def watching(self) -> bool:
        """Whether its thread is running."""
        with self._lock:
            return self._thread is not None

    def join(self) -> None:
        """Add a listener. The first one starts the thread, from the current state."""
        with self._lock:
            self._listeners += 1
        with self._start_lock:
            if self.watching:
                return
            # Counter first: commits during the read then lead to another update.
            counter = self._store.change_mark()
            self._event_log.start()
            thread = threading.Thread(
                target=self._watch, args=[counter], name="live-commits", daemon=True
            )
            with self._lock:
                self._thread = thread
            thread.start()

    def leave(self) -> None:
        """Remove a listener."""
        with self._lock:
            self._listeners -= 1
            self._left_at = self._clock.monotonic()

    def close(self) -> None:
        """Stop the thread now."""
        self._closing.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(CHECK_SECONDS * 5)

    def _watch(self, counter: int) -> None:
        while not self._stop_if_unused():
            try:
                latest = self._store.wait_for_change(counter, CHECK_SECONDS)
                if latest == counter:
                    continue
                self._event_log.update()
                counter = latest
                self._notify()
            except Exception:
                # Retry from the same counter if the database is busy or missing. Without this
                # thread, no client would get any more events.
                self._closing.wait(CHECK_SECONDS)
            self._closing.wait(_COMMIT_DELAY_SECONDS)

    def _stop_if_unused(self) -> bool:
        """Return True if the thread must end; the next listener then starts a new one."""
        with self._start_lock, self._lock:
            lingered = self._clock.monotonic() - self._left_at >= self._linger_seconds
            unused = self._closing.is_set() or (self._listeners == 0 and lingered)
            if unused:
                self._thread = None
                self._event_log.stop()
            return unused


class _FolderWatcher:
    """Watches the folders that listeners follow."""

    def __init__(self, clock: Clock, notify: Callable[[], None]) -> None:
        self._clock = clock
        self._notify = notify
        self._lock = threading.Lock()
        self._listeners: Counter[Path] = Counter()
        self._watch: BusWatch | None = None
        self._thread: threading.Thread | None = None
        self._pause = threading.Event()

    @property
    def watching(self) -> bool:
        """Whether its thread is running."""
        with self._lock:
            return self._thread is not None

    def join(self, folder: Path) -> None:
        """Add a listener of a folder."""
        with self._lock:
            self._listeners[folder] += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="live-files", daemon=True)
                self._thread.start()
            elif self._listeners[folder] == 1:
                self._restart_watch()

    def leave(self, folder: Path) -> None:
        """Remove a listener of a folder."""
        with self._lock:
            self._listeners[folder] -= 1
            if self._listeners[folder] <= 0:
                del self._listeners[folder]
                self._restart_watch()

    def close(self) -> None:
        """Stop watching."""
        self._pause.set()
        with self._lock:
            self._listeners.clear()
            self._restart_watch()
            thread = self._thread
        if thread is not None:
            thread.join(CHECK_SECONDS * 5)

    def _restart_watch(self) -> None:
        """Let the thread continue with the current folders."""
        if self._watch is not None:
            self._watch.stop()

    def _run(self) -> None:
        while (watch := self._open_next_watch()) is not None:
            with watch:
                # Something may have changed before the watch started.
                self._notify()
                while not watch.stopped:
                    watch.wait()
                    self._notify()
                    self._pause.wait(_FILE_DELAY_SECONDS)

    def _open_next_watch(self) -> BusWatch | None:
        with self._lock:
            if not self._listeners:
                self._watch = self._thread = None
                return None
            self._watch = open_watch(self._clock, sorted(self._listeners))
            return self._watch
