"""The edge of a snapshot: what stands outside of the database is looked at first."""

from __future__ import annotations

from pathlib import Path

from hostler.config.settings import Settings
from hostler.governor import look_around, read_policy
from hostler.service.presence import presence
from hostler.service.snapshot.at_work import last_written
from hostler.service.snapshot.history import Histories
from hostler.service.snapshot.whole import Snapshot, snapshot
from hostler.service.space import rooms_of
from hostler.service.why import Inquiry
from hostler.store import Store


class Lookout:
    """Takes one snapshot after another of a home. Asks GitHub nothing, and writes nothing."""

    def __init__(self, home: Path, settings: Settings, store: Store) -> None:
        self.home = home
        self.settings = settings
        self.store = store
        self._histories = Histories()

    def inquiry(self) -> Inquiry:
        """What is asked with, as it is now. Raises what keeps the operator's caps from us."""
        return Inquiry(
            self.store,
            self.settings,
            read_policy(self.home, self.settings),
            look_around(),
            presence(self.home),
            rooms_of(self.home),
        )

    def look(self) -> Snapshot:
        """The house as it is now."""
        inquiry = self.inquiry()
        with self.store.read() as tx:
            return snapshot(tx, inquiry, last_written(self.home), self._histories)
