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
    """Home directory, settings, database and GitHub connection of a service."""

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


# Called after each step of a poll, run, write or collection, with the step and the id that it is
# about. `BusNotifier` reports runs from it; tests interrupt the service between steps.
StepHook = Callable[[str, str], None]


def ignore_step(_step: str, _about: str) -> None:
    """Ignore a step."""


# What the lock of a home is held for. Only a service starts any queued task.
SERVICE_PURPOSE, ONE_POLL_PURPOSE, ONE_TASK_PURPOSE = "service", "service --once", "run"
_NO_SERVICE_TEXT = "The service is not running, so no task will start. Start it: hostler service"


@dataclass(frozen=True, slots=True)
class Presence:
    """The process that holds the lock of a home, if any."""

    holder: Holder | None = None

    @property
    def takes_tasks(self) -> bool:
        """Whether a service is running that starts queued tasks."""
        return self.holder is not None and self.holder.purpose == SERVICE_PURPOSE

    def sentence(self) -> str:
        """Describe it in a sentence."""
        if self.holder is None:
            return _NO_SERVICE_TEXT
        if self.takes_tasks:
            return f"The service is running: {self.holder}."
        return (
            f"{self.holder} uses this home and starts no other tasks. They wait until it has "
            "ended and the service runs (`hostler service`)."
        )

    def as_json(self) -> dict[str, Any] | None:
        """Return it as JSON."""
        if self.holder is None:
            return None
        return {**asdict(self.holder), "takes_tasks": self.takes_tasks}


def read_presence(home: Path) -> Presence:
    """Return the process that holds the lock of a home now."""
    return Presence(who_works(home))


# Steps of a restart after which the starting program may be an update.
_UPDATE_STEPS = (Step.UPDATE, Step.UPDATED)


@contextmanager
def open_context(home: Path, settings: Settings, clock: Clock) -> Iterator[AppContext]:
    """Open the application context for the length of a block."""
    # Imported here: commands that only need the database start faster without it.
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


# Called if the database cannot be upgraded for an update; the error is raised afterwards.
OnUpgradeFailed = Callable[[HomeLock, HostlerError], None]


def _ignore_upgrade_error(_lock: HomeLock, _error: HostlerError) -> None:
    """Do nothing before the error is raised."""


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
    """Lock the home and open the context. A restarted program inherits the lock."""
    if inherited is None:
        lock = HomeLock.take(home, clock, purpose)
    else:
        lock = HomeLock.inherit(home, inherited, clock, purpose)
    with held(lock):
        _prepare_database(home, settings.runtime.database_url or None, clock, partial(unfit, lock))
        with open_context(home, settings, clock) as app:
            yield app, lock


def _prepare_database(
    home: Path, database_url: str | None, clock: Clock, unfit: Callable[[HostlerError], None]
) -> None:
    """Create the database if it is missing; upgrade it after an update. The lock is held."""
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
            # Store this, so that the upgrade is tried once: each attempt copies the database first.
            with suppress(StoreError):
                leave_step(place, clock, Patience(), Step.UNFIT)
            unfit(error)
            raise


def _upgrade_database(home: Path, place: Place, clock: Clock) -> None:
    # Imported here: Alembic takes longer to import than everything else.
    from hostler.store.admin.migrate import upgrade_under_lock

    upgrade_under_lock(home, place, clock=clock, patience=Patience(), progress=_ignore_progress)


def _ignore_progress(_done: int, _all: int) -> None:
    """Ignore progress."""


def open_or_create_store(home: Path, database_url: str | None, clock: Clock) -> Store:
    """Open the database, or create it. Raise for an older schema: users upgrade it."""
    try:
        return open_store(home, database_url, clock=clock)
    except StoreMissing:
        # Imported here: Alembic takes longer to import than everything else.
        from hostler.store.admin.migrate import upgrade

        place = find_place(home, database_url)
        upgrade(home, place, clock=clock, patience=Patience(), progress=_ignore_progress)
        return open_store(home, database_url, clock=clock)


@dataclass(frozen=True, slots=True)
class OpenHome:
    """The settings and database of a home."""

    settings: Settings
    store: Store


@contextmanager
def open_home(context: CheckContext) -> Iterator[OpenHome | None]:
    """Open a home; None if settings or database cannot be read, which other checks report."""
    try:
        settings = load_settings(context.home, context.config_path).settings
        url = os.environ.get(URL_VARIABLE) or settings.runtime.database_url or None
        store = open_store(context.home, url, clock=context.clock)
    except (ConfigError, StoreError):
        yield None
        return
    with closing(store):
        yield OpenHome(settings, store)
