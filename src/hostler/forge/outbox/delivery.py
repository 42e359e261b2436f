"""Seeing a few writes through: by whoever works on the home, or by ourselves if nobody does.

The home's lock is held only while something is sent, never while we wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from hostler.clock import Clock
from hostler.errors import HomeLocked
from hostler.forge.outbox.rules import Pace
from hostler.forge.outbox.sender import Sender
from hostler.forge.port import Forge
from hostler.model import RepoName
from hostler.store.engine.locks import home_lock
from hostler.store.outbox import OutboxRow, find_write
from hostler.store.store import Store

# A holder of the lock may leave without a commit, so we look again now and then.
LOOK_AGAIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Told:
    """Whom to tell what happens meanwhile."""

    settled: Callable[[OutboxRow], None]
    # Once, with the process that holds the lock, if another one does.
    left_to: Callable[[object | None], None]


class Delivery:
    """Some writes of one repository, on their way."""

    def __init__(
        self,
        home: Path,
        store: Store,
        forge: Forge,
        repo: RepoName,
        tokens: Collection[str],
        clock: Clock,
        pace: Pace,
        told: Told,
    ) -> None:
        self._home = home
        self._store = store
        self._repo = repo
        self._tokens = list(tokens)
        self._clock = clock
        self._told = told
        # Only these: what else waits there has consequences that are the service's to draw.
        self._sender = Sender(
            store,
            lambda name: forge if name == repo else None,
            clock,
            pace,
            only=frozenset(tokens).__contains__,
        )
        self._reported: set[str] = set()
        self._left = False

    def see_through(self, seconds: float) -> list[OutboxRow]:
        """The writes when all are settled, or when the time is over."""
        end = self._clock.monotonic() + seconds
        while True:
            nap = self._send()
            mark = self._store.change_mark()
            rows = self._look()
            left = end - self._clock.monotonic()
            if left <= 0 or all(row.settled for row in rows):
                return rows
            self._store.wait_for_change(mark, min(left, nap))

    def _send(self) -> float:
        """Send what is due, if nobody else does; how long to wait then."""
        try:
            with home_lock(self._home, self._clock):
                again = self._sender.send_due()
        except HomeLocked as locked:
            if not self._left:
                self._left = True
                self._told.left_to(locked.holder)
            return LOOK_AGAIN_SECONDS
        if again is None:
            return LOOK_AGAIN_SECONDS
        return max((again - self._clock.now()).total_seconds(), 0.0)

    def _look(self) -> list[OutboxRow]:
        with self._store.read() as tx:
            found = [find_write(tx, self._repo, token) for token in self._tokens]
        rows = [row for row in found if row is not None]
        for row in rows:
            if row.settled and row.token not in self._reported:
                self._reported.add(row.token)
                self._told.settled(row)
        return rows
