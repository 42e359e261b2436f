"""Who watches for all live clients: a thread for commits, one for folders, none without clients."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from hostler.bus.watching import Watch, watch
from hostler.clock import Clock
from hostler.store import Store
from hostler.telemetry import names
from hostler.telemetry.metrics import metrics
from hostler.web.live.journal import TaskJournal
from hostler.web.refusals import TooMany

MOST_CLIENTS = 64
# After the last client left, so long somebody may come back and read on.
LINGER_SECONDS = 30.0
# How often it is looked whether anybody is still there.
LOOK_SECONDS = 1.0
# Between two looks at the rows, and two rings for files: commits and lines come in bursts.
PAUSE_SECONDS = 0.25
FILE_PAUSE_SECONDS = 0.05


class Listener:
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


class Live:
    """Every live client listens here."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        most: int = MOST_CLIENTS,
        linger: float = LINGER_SECONDS,
    ) -> None:
        self.journal = TaskJournal(store)
        self._most = most
        self._guard = threading.Lock()
        self._listeners: dict[Listener, Path | None] = {}
        self._commits = Commits(store, clock, self.journal, self._ring_all, linger)
        self._folders = Folders(clock, self._ring_followers)

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
    async def listening(self, folder: Path | None = None) -> AsyncIterator[Listener]:
        """Hear of commits, and of changes in a folder, for the length of a block."""
        listener, loop = Listener(), asyncio.get_running_loop()
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

    def _join(self, listener: Listener, folder: Path | None) -> None:
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

    def _leave(self, listener: Listener, folder: Path | None) -> None:
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


class Commits:
    """Waits for commits while anybody listens, and a little longer."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        journal: TaskJournal,
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
            thread.join(LOOK_SECONDS * 5)

    def _watch(self, mark: int) -> None:
        while not self._over():
            try:
                seen = self._store.wait_for_change(mark, LOOK_SECONDS)
                if seen == mark:
                    continue
                self._journal.look()
                mark = seen
                self._ring()
            except Exception:
                # The database is busy or gone, or a defect: looked at again, from the same mark.
                # Without this thread all who follow would be deaf, and nobody would know.
                self._closing.wait(LOOK_SECONDS)
            self._closing.wait(PAUSE_SECONDS)

    def _over(self) -> bool:
        """Whether nobody needs us. Whoever comes after this begins anew."""
        with self._starting, self._guard:
            quiet = self._clock.monotonic() - self._left >= self._linger
            over = self._closing.is_set() or (self._listeners == 0 and quiet)
            if over:
                self._thread = None
                self._journal.end()
            return over


class Folders:
    """Waits for changes in the folders that anybody follows."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._guard = threading.Lock()
        self._wanted: Counter[Path] = Counter()
        self._watch: Watch | None = None
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
            thread.join(LOOK_SECONDS * 5)

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
                    self._pause.wait(FILE_PAUSE_SECONDS)

    def _next(self) -> Watch | None:
        with self._guard:
            if not self._wanted:
                self._watch = self._thread = None
                return None
            self._watch = watch(self._clock, sorted(self._wanted))
            return self._watch
