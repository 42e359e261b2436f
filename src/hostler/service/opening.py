"""Opening a house: its database, made if there is none, and GitHub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from hostler.clock import Clock
from hostler.config.settings import Settings
from hostler.errors import HostlerError, StoreError, StoreMissing, StoreOutdated
from hostler.service.house import House
from hostler.service.presence import SERVICE
from hostler.store import Store, open_store
from hostler.store.engine.backend import Place, find_place
from hostler.store.engine.locks import HomeLock, held
from hostler.store.engine.sqlite import Patience
from hostler.store.operator import Step, leave_step, peek_step

# Steps of a restart after which the program that starts may be one that the operator asked for.
MAY_CHANGE_LAYOUT = (Step.UPDATE, Step.UPDATED)


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


# What to do if the layout that an update needs cannot be had; the error is raised after it.
Unfit = Callable[[HomeLock, HostlerError], None]


def no_way_back(_lock: HomeLock, _error: HostlerError) -> None:
    """Only the error is raised."""


@contextmanager
def entered(
    home: Path,
    settings: Settings,
    clock: Clock,
    inherited: int | None = None,
    *,
    purpose: str = SERVICE,
    unfit: Unfit = no_way_back,
) -> Iterator[tuple[House, HomeLock]]:
    """A house and its lock, which the program before us may have handed over."""
    if inherited is None:
        lock = HomeLock.take(home, clock, purpose)
    else:
        lock = HomeLock.inherit(home, inherited, clock, purpose)
    with held(lock):
        prepare(home, settings.runtime.database_url or None, clock, partial(unfit, lock))
        with opened(home, settings, clock) as house:
            yield house, lock


def prepare(
    home: Path, database_url: str | None, clock: Clock, unfit: Callable[[HostlerError], None]
) -> None:
    """With the lock held: a database of our layout, if it is missing or an update asks for it."""
    place = find_place(home, database_url)
    try:
        open_store(home, database_url, clock=clock).close()
    except StoreMissing:
        _upgrade(home, place, clock)
    except StoreOutdated:
        if peek_step(place, clock, Patience()) not in MAY_CHANGE_LAYOUT:
            raise
        try:
            _upgrade(home, place, clock)
        except HostlerError as error:
            # Once: each attempt makes a copy of the database first.
            with suppress(StoreError):
                leave_step(place, clock, Patience(), Step.UNFIT)
            unfit(error)
            raise


def _upgrade(home: Path, place: Place, clock: Clock) -> None:
    # Here alone: it brings Alembic along, which takes longer than all the rest.
    from hostler.store.admin.migrate import upgrade_under_lock

    upgrade_under_lock(home, place, clock=clock, patience=Patience(), progress=unheard)


def unheard(_done: int, _all: int) -> None:
    """Tells nobody how far it is."""


def open_or_make(home: Path, database_url: str | None, clock: Clock) -> Store:
    """The database of a home. One of an older layout is not touched: that is asked for by name."""
    try:
        return open_store(home, database_url, clock=clock)
    except StoreMissing:
        # Here alone: it brings Alembic along, which takes longer than all the rest.
        from hostler.store.admin.migrate import upgrade

        place = find_place(home, database_url)
        upgrade(home, place, clock=clock, patience=Patience(), progress=unheard)
        return open_store(home, database_url, clock=clock)
