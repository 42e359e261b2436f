"""A home as a check sees it: its settings and its database, opened for a moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from hostler.config import load
from hostler.config.settings import Settings
from hostler.errors import ConfigError, StoreError
from hostler.health import Context
from hostler.store import Store, open_store
from hostler.store.engine.backend import URL_VARIABLE


@dataclass(frozen=True, slots=True)
class Visit:
    """What there is to look at."""

    settings: Settings
    store: Store


@contextmanager
def visiting(context: Context) -> Iterator[Visit | None]:
    """Look at a home; None where settings or database cannot be read: other checks say why."""
    try:
        settings = load(context.home, context.config_path).settings
        url = os.environ.get(URL_VARIABLE) or settings.runtime.database_url or None
        store = open_store(context.home, url, clock=context.clock)
    except (ConfigError, StoreError):
        yield None
        return
    with closing(store):
        yield Visit(settings, store)
