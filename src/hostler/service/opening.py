"""Opening a house: its database, made if there is none, and GitHub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hostler.clock import Clock
from hostler.config.settings import Settings
from hostler.errors import StoreMissing
from hostler.forge import open_hub
from hostler.service.desks import House
from hostler.store import Store, open_store
from hostler.store.place import find_place
from hostler.store.writers import Patience


@contextmanager
def opened(home: Path, settings: Settings, clock: Clock) -> Iterator[House]:
    """A house for the length of a block."""
    store = open_or_make(home, settings.runtime.database_url or None, clock)
    try:
        hub = open_hub(settings.github, clock)
        try:
            yield House(home, settings, store, hub)
        finally:
            hub.close()
    finally:
        store.close()


def open_or_make(home: Path, database_url: str | None, clock: Clock) -> Store:
    """The database of a home. One of an older layout is not touched: that is asked for by name."""
    try:
        return open_store(home, database_url, clock=clock)
    except StoreMissing:
        # Here alone: it brings Alembic along, which takes longer than all the rest.
        from hostler.store.migrate import upgrade

        place = find_place(home, database_url)
        upgrade(home, place, clock=clock, patience=Patience(), progress=lambda _done, _all: None)
        return open_store(home, database_url, clock=clock)
