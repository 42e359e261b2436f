"""One bus, as others use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from hostler.bus.errors import BadMessage
from hostler.bus.files import make_folder, set_aside
from hostler.bus.ids import BEGINNING, id_before, id_of, is_id
from hostler.bus.message import Message, MessageType, Sender
from hostler.bus.place import project_bus_path, task_bus_path
from hostler.bus.reading import Follower, Look, Page, Wanted, everything
from hostler.bus.stats import Stats, stats_of
from hostler.bus.terms import Terms
from hostler.bus.watching import Watch, watch
from hostler.bus.wire import Draft
from hostler.bus.writing import ContentionStats, Writer
from hostler.clock import Clock, SystemClock


class Bus:
    """A file of messages. Threads and processes may share it without further ado."""

    def __init__(self, path: Path, clock: Clock | None = None, terms: Terms | None = None) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self._terms = terms or Terms()
        self._writer = Writer(path, self._clock, self._terms)

    def create(self) -> Bus:
        """Make the folder, if it is missing. `post` never does: it would revive removed tasks."""
        make_folder(self.path, sync=self._terms.sync)
        return self

    def post(
        self, type_: MessageType, body: str, sender: Sender, *, thread: str = BEGINNING
    ) -> Message:
        """Append a message; it is in the file when this returns."""
        root = self._root(thread) if thread else BEGINNING
        return self._writer.append(Draft(type_, body, sender, root))

    def tail(self, count: int, wanted: Wanted = everything) -> Page:
        """The last messages that are wanted."""
        with Look(self.path) as look:
            return Page(tuple(look.last(count, wanted)), look.skipped)

    def since(self, after: str = BEGINNING, wanted: Wanted = everything) -> Page:
        """All messages after an id that are wanted."""
        with Look(self.path) as look:
            found = tuple(message for message in look.read(after) if wanted(message))
            return Page(found, look.skipped)

    def get(self, message_id: str) -> Message | None:
        """One message, if it is on the bus."""
        if not is_id(message_id):
            return None
        with Look(self.path) as look:
            found = next(look.read(id_before(message_id)), None)
        return found if found is not None and found.id == message_id else None

    def last_id(self) -> str:
        """The id of the last message; `BEGINNING` where there is none."""
        return next((message.id for message in self.tail(1)), BEGINNING)

    def follower(self, after: str | None = None) -> Follower:
        """A reader of whatever comes after an id; None: from now on."""
        return Follower(self.path, self.last_id() if after is None else after)

    def watch(self) -> Watch:
        """Something to wait with until a message may have come."""
        return watch(self._clock, [self.path.parent])

    def follow(self, after: str | None = None, using: Watch | None = None) -> Iterator[Message]:
        """Messages after an id (None: from now on) as they come, until the watch is stopped."""
        # Settled here and not at the first step: "now" is when we were called.
        return self._follow(self.last_id() if after is None else after, using)

    def _follow(self, after: str, using: Watch | None) -> Iterator[Message]:
        waiting = using or self.watch()
        follower = self.follower(after)
        try:
            while not waiting.stopped:
                yield from follower.new()
                waiting.wait()
        finally:
            follower.close()
            if using is None:
                waiting.close()

    @property
    def contention_stats(self) -> ContentionStats:
        """How often this object tried for the lock."""
        return self._writer.contention_stats

    def stats(self) -> Stats:
        """Numbers over everything on the bus; reads all of it."""
        return stats_of(self.path)

    def forget(self, before: datetime) -> int:
        """Remove old files that were set aside before a moment; how many."""
        # The newest one stays: where the present file is empty, it alone says which id is next.
        old = [file for file in set_aside(self.path)[:-1] if file.id < id_of(before)]
        for file in old:
            with suppress(FileNotFoundError):
                file.path.unlink()
        return len(old)

    def _root(self, thread: str) -> str:
        found = self.get(thread)
        if found is None:
            raise BadMessage(
                f"There is no message {thread[:60]!r} on this bus.",
                "A thread is named by the id of one of its messages.",
            )
        return found.thread_id


def task_bus(
    home: Path, project: str, task: str, clock: Clock | None = None, terms: Terms | None = None
) -> Bus:
    """The bus of a task."""
    return Bus(task_bus_path(home, project, task), clock, terms)


def project_bus(
    home: Path, project: str, clock: Clock | None = None, terms: Terms | None = None
) -> Bus:
    """The bus of a project."""
    return Bus(project_bus_path(home, project), clock, terms)
