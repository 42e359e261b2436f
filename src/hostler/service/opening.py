"""Opening a house: its database, made if there is none, and GitHub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hostler.clock import Clock
from hostler.config.settings import Settings
from hostler.errors import StoreMissing, StoreOutdated
from hostler.service.house import House
from hostler.service.presence import SERVICE
from hostler.store import Store, open_store
from hostler.store.homelock import HomeLock, held, home_lock
from hostler.store.place import find_place
from hostler.store.writers import Patience

if TYPE_CHECKING:
    from hostler.service.restarting import Inherited


@contextmanager
def opened(home: Path, settings: Settings, clock: Clock) -> Iterator[House]:
    """A house for the length of a block."""
    # Here alone: whoever only wants the database need not wait for what speaks with GitHub.
    from hostler.forge import open_hub

    store = open_or_make(home, settings.runtime.database_url or None, clock)
    try:
        hub = open_hub(settings.github, clock)
        try:
            yield House(home, settings, store, hub)
        finally:
            hub.close()
    finally:
        store.close()


@contextmanager
def entered(
    home: Path, settings: Settings, clock: Clock, came: Inherited | None
) -> Iterator[tuple[House, HomeLock]]:
    """A house and its lock, which the program before us may have handed over."""
    with ExitStack() as stack:
        lock = None
        if came is not None:
            lock = HomeLock.inherit(home, came.lock, clock, SERVICE)
            stack.enter_context(held(lock))
            if came.updated:
                bring_up_to_date(home, settings.runtime.database_url or None, clock)
        house = stack.enter_context(opened(home, settings, clock))
        yield house, lock or stack.enter_context(home_lock(home, clock, SERVICE))


def bring_up_to_date(home: Path, database_url: str | None, clock: Clock) -> None:
    """After an update, and with the lock held: the database gets this program's layout."""
    try:
        open_store(home, database_url, clock=clock).close()
    except StoreOutdated:
        from hostler.store.migrate import upgrade_under_lock

        place = find_place(home, database_url)
        upgrade_under_lock(home, place, clock=clock, patience=Patience(), progress=unheard)


def unheard(_done: int, _all: int) -> None:
    """Tells nobody how far it is."""


def open_or_make(home: Path, database_url: str | None, clock: Clock) -> Store:
    """The database of a home. One of an older layout is not touched: that is asked for by name."""
    try:
        return open_store(home, database_url, clock=clock)
    except StoreMissing:
        # Here alone: it brings Alembic along, which takes longer than all the rest.
        from hostler.store.migrate import upgrade

        place = find_place(home, database_url)
        upgrade(home, place, clock=clock, patience=Patience(), progress=unheard)
        return open_store(home, database_url, clock=clock)
