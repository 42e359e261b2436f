"""The application context (home, settings, database, GitHub), and who holds the home's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hostler.clock import Clock
from hostler.config.loader import load_settings
from hostler.config.settings import Settings
from hostler.errors import ConfigError, HostlerError, StoreError, StoreMissing, StoreOutdated
from hostler.health import CheckContext
from hostler.store import Store, open_store
from hostler.store.engine.backend import URL_VARIABLE, Place, find_place
from hostler.store.engine.locks import Holder, HomeLock, held, who_works
from hostler.store.engine.sqlite import Patience
from hostler.store.operator import Step, leave_step, peek_step

if TYPE_CHECKING:
    from hostler.config.settings import Settings
    from hostler.forge.github.hub import GitHubHub
    from hostler.store import Store


@dataclass(frozen=True, slots=True)
class AppContext:
    """What everything in a service stands on."""

    home: Path
    settings: Settings
    store: Store
    hub: GitHubHub
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)

    @property
    def mirrors(self) -> Path:
        return self.home / "mirrors"

    @property
    def checkouts(self) -> Path:
        return self.home / "checkouts"


# The step that was just done, and what it was about.
StepObserver = Callable[[str, str], None]


def ignore_step(_step: str, _about: str) -> None:
    """Observes nothing."""


# What the lock of a home is held for. Only the first takes whatever is queued.
SERVICE_PURPOSE, ONE_POLL_PURPOSE, ONE_TASK_PURPOSE = "service", "service --once", "run"
_NO_SERVICE_TEXT = (
    "No service works on this home: nothing starts until one does (`hostler service`)."
)


@dataclass(frozen=True, slots=True)
class Presence:
    """Who holds the lock of a home, if anybody does."""

    holder: Holder | None = None

    @property
    def takes_tasks(self) -> bool:
        """Whether somebody takes every task that is queued."""
        return self.holder is not None and self.holder.purpose == SERVICE_PURPOSE

    def sentence(self) -> str:
        """The same for people."""
        if self.holder is None:
            return _NO_SERVICE_TEXT
        if self.takes_tasks:
            return f"A service works on this home: {self.holder}."
        return (
            f"{self.holder} works on this home, and takes no other tasks: they wait until it "
            "has ended and a service works (`hostler service`)."
        )

    def as_json(self) -> dict[str, Any] | None:
        """The same for programs."""
        if self.holder is None:
            return None
        return {**asdict(self.holder), "takes_tasks": self.takes_tasks}


def read_presence(home: Path) -> Presence:
    """Who works on a home at this moment."""
    return Presence(who_works(home))


# Steps of a restart after which the program that starts may be one that the operator asked for.
_UPDATE_STEPS = (Step.UPDATE, Step.UPDATED)


@contextmanager
def open_context(home: Path, settings: Settings, clock: Clock) -> Iterator[AppContext]:
    """A house for the length of a block."""
    # Here alone: whoever only wants the database need not wait for what speaks with GitHub.
    from hostler.forge.github.hub import open_github

    store = open_or_create_store(home, settings.runtime.database_url or None, clock)
    try:
        hub = open_github(settings.github, clock)
        try:
            yield AppContext(home, settings, store, hub)
        finally:
            hub.close()
    finally:
        store.close()


# What to do if the layout that an update needs cannot be had; the error is raised after it.
OnUpgradeFailed = Callable[[HomeLock, HostlerError], None]


def _ignore_upgrade_error(_lock: HomeLock, _error: HostlerError) -> None:
    """Only the error is raised."""


@contextmanager
def lock_and_open(
    home: Path,
    settings: Settings,
    clock: Clock,
    inherited: int | None = None,
    *,
    purpose: str = SERVICE_PURPOSE,
    unfit: OnUpgradeFailed = _ignore_upgrade_error,
) -> Iterator[tuple[AppContext, HomeLock]]:
    """A house and its lock, which the program before us may have handed over."""
    if inherited is None:
        lock = HomeLock.take(home, clock, purpose)
    else:
        lock = HomeLock.inherit(home, inherited, clock, purpose)
    with held(lock):
        _prepare_database(home, settings.runtime.database_url or None, clock, partial(unfit, lock))
        with open_context(home, settings, clock) as house:
            yield house, lock


def _prepare_database(
    home: Path, database_url: str | None, clock: Clock, unfit: Callable[[HostlerError], None]
) -> None:
    """With the lock held: a database of our layout, if it is missing or an update asks for it."""
    place = find_place(home, database_url)
    try:
        open_store(home, database_url, clock=clock).close()
    except StoreMissing:
        _upgrade_database(home, place, clock)
    except StoreOutdated:
        if peek_step(place, clock, Patience()) not in _UPDATE_STEPS:
            raise
        try:
            _upgrade_database(home, place, clock)
        except HostlerError as error:
            # Once: each attempt makes a copy of the database first.
            with suppress(StoreError):
                leave_step(place, clock, Patience(), Step.UNFIT)
            unfit(error)
            raise


def _upgrade_database(home: Path, place: Place, clock: Clock) -> None:
    # Here alone: it brings Alembic along, which takes longer than all the rest.
    from hostler.store.admin.migrate import upgrade_under_lock

    upgrade_under_lock(home, place, clock=clock, patience=Patience(), progress=_ignore_progress)


def _ignore_progress(_done: int, _all: int) -> None:
    """Tells nobody how far it is."""


def open_or_create_store(home: Path, database_url: str | None, clock: Clock) -> Store:
    """The database of a home. One of an older layout is not touched: that is asked for by name."""
    try:
        return open_store(home, database_url, clock=clock)
    except StoreMissing:
        # Here alone: it brings Alembic along, which takes longer than all the rest.
        from hostler.store.admin.migrate import upgrade

        place = find_place(home, database_url)
        upgrade(home, place, clock=clock, patience=Patience(), progress=_ignore_progress)
        return open_store(home, database_url, clock=clock)


@dataclass(frozen=True, slots=True)
class OpenHome:
    """What there is to look at."""

    settings: Settings
    store: Store


@contextmanager
def open_home(context: CheckContext) -> Iterator[OpenHome | None]:
    """Look at a home; None where settings or database cannot be read: other checks say why."""
    try:
        settings = load_settings(context.home, context.config_path).settings
        url = os.environ.get(URL_VARIABLE) or settings.runtime.database_url or None
        store = open_store(context.home, url, clock=context.clock)
    except (ConfigError, StoreError):
        yield None
        return
    with closing(store):
        yield OpenHome(settings, store)
