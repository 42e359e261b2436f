"""What a gc works on, and on what terms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from hostler.config.settings import Settings
from hostler.model import parse_stamp
from hostler.service.gc.folders import Aside
from hostler.service.gc.report import Going
from hostler.service.gc.rules import before
from hostler.service.observing import Observer, nobody
from hostler.store import Store, Transaction

# Whoever begins, resumes or hears anything names one of these.
SCOPES = ("admission", "outbox", "tasks")


@dataclass(frozen=True, slots=True)
class Premises:
    """A home with its settings and its database, and what is too old there."""

    home: Path
    settings: Settings
    store: Store
    days: int
    now: datetime
    going: Going = field(default_factory=Going)
    observe: Observer = nobody

    @property
    def limit(self) -> str:
        """What is older has a lower stamp."""
        return before(self.now, self.days)

    @property
    def moment(self) -> datetime:
        """The same as a moment."""
        return parse_stamp(self.limit)

    @contextmanager
    def removing(self) -> Iterator[tuple[Transaction, Aside]]:
        """A transaction to ask again in, and to remove; folders are deleted after it."""
        with Aside(self.home, self.observe) as aside:
            with self.store.write(*SCOPES) as tx:
                yield tx, aside
            self.observe("stored", "")


def premises(
    home: Path, settings: Settings, store: Store, days: int, observe: Observer = nobody
) -> Premises:
    """The same from the database's own clock."""
    with store.read() as tx:
        now = tx.now()
    return Premises(home, settings, store, days, now, observe=observe)
