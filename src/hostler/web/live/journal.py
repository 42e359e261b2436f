"""The last events of tasks, numbered: whoever comes back reads on behind the one it has."""

from __future__ import annotations

import secrets
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hostler.service.portrait import brief
from hostler.store import Store
from hostler.store.tasks import Marks, marks_of, newest_order, tasks_by_id

# So many are kept; who is farther behind reads the list again.
KEPT = 2048


@dataclass(frozen=True, slots=True)
class Place:
    """Behind which event somebody is."""

    epoch: str
    number: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> Place | None:
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


def changed_between(before: Marks, after: Marks) -> list[str]:
    """The ids of tasks that changed: other marks, new ones, and those that left. Pure."""
    other = [name for name, mark in after.tasks.items() if before.tasks.get(name) != mark]
    return sorted({*other, *(before.tasks.keys() - after.tasks.keys())})


class TaskJournal:
    """Compares tasks with what was known of them, and keeps what changed. Thread-safe."""

    def __init__(self, store: Store, kept: int = KEPT) -> None:
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
                self._known = marks_of(tx, newest_order(tx))
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
                after = marks_of(tx, before.order)
                names = changed_between(before, after)
                found = tasks_by_id(tx, names)
            # What is over was told; it is not looked at again.
            over = {name for name, task in found.items() if task.over}
            marks = {name: mark for name, mark in after.tasks.items() if name not in over}
            self._known = Marks(marks, after.order)
            self._add(
                brief(found[name]) if name in found else {"id": name, "deleted": True}
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

    def end_place(self) -> Place:
        """Behind everything that was noted so far."""
        with self._guard:
            return Place(self._epoch, self._number)

    def after(self, place: Place, most: int) -> list[TaskEvent] | None:
        """The next events behind a place; None: some of them cannot be told any more."""
        with self._guard:
            if place.epoch != self._epoch or place.number > self._number:
                return None
            first = self._number - len(self._events) + 1
            if place.number + 1 < first:
                return None
            begin = place.number + 1 - first
            return [self._events[at] for at in range(begin, min(begin + most, len(self._events)))]
