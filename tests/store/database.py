"""A database under test: where it is, and the few things that tests do to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hostler.clock import Clock, SystemClock
from hostler.store import Patience, Store, open_store
from hostler.store.admin.inspect import Inspection, inspect_database
from hostler.store.admin.migrate import Plan, Upgrade, upgrade
from hostler.store.engine.backend import Place, find_place

# Long enough for a loaded machine; only tests of waiting in vain use less.
PATIENT = Patience(queue_seconds=60.0, begin_seconds=60.0)
HASTY = Patience(queue_seconds=0.3, begin_seconds=0.2)


def no_progress(done: int, total: int) -> None:
    """Copies in tests are short."""


@dataclass(frozen=True)
class Database:
    """A home, and the URL of a server's database where it is not in the home."""

    home: Path
    url: str | None = None

    @property
    def place(self) -> Place:
        return find_place(self.home, self.url)

    @property
    def file(self) -> Path:
        return self.home / "hostler.db"

    def open(self, clock: Clock | None = None, patience: Patience = PATIENT) -> Store:
        return open_store(self.home, self.url, clock=clock, patience=patience)

    def upgrade(self, plan: Plan | None = None) -> Upgrade:
        return upgrade(
            self.home,
            self.place,
            clock=SystemClock(),
            patience=PATIENT,
            progress=no_progress,
            plan=plan,
        )

    def inspect(self) -> Inspection:
        return inspect_database(self.place, SystemClock(), PATIENT)
