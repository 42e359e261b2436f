"""Where the snapshots come from: a home that is only read, or the house of our own service."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hostler.config.settings import Settings
from hostler.service.snapshot import Lookout
from hostler.store import Store, open_store
from hostler.store.engine.backend import Place, SqlitePlace


class HomeOutlook:
    """A home, opened when it can be; settings are read anew with each opening."""

    def __init__(self, home: Path, settings: Callable[[], Settings]) -> None:
        self._home = home
        self._settings = settings
        self._guard = threading.Lock()
        self._lookout: Lookout | None = None
        self._file: tuple[int, int] | None = None

    def mark(self) -> int:
        return self._open().store.change_mark()

    def look(self) -> Mapping[str, Any]:
        return self._open().look().as_json()

    def wait(self, mark: int, seconds: float) -> bool:
        return self._open().store.wait_for_change(mark, seconds) != mark

    def forget(self) -> None:
        with self._guard:
            self._close()

    def _open(self) -> Lookout:
        with self._guard:
            if self._lookout is not None and file_at(self._lookout.store.place) != self._file:
                # Another database lies there now, or none: the old one is nobody's any more.
                self._close()
            if self._lookout is None:
                settings = self._settings()
                store = open_store(self._home, settings.runtime.database_url or None)
                self._file = file_at(store.place)
                self._lookout = Lookout(self._home, settings, store)
            return self._lookout

    def _close(self) -> None:
        if self._lookout is not None:
            self._lookout.store.close()
        self._lookout = None


def file_at(place: Place) -> tuple[int, int] | None:
    """Which file is the database; None for a server, or if there is none."""
    if not isinstance(place, SqlitePlace):
        return None
    try:
        found = place.path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class HouseOutlook:
    """The house of the service in this process, with the settings that are in force."""

    def __init__(self, home: Path, store: Store, settings: Callable[[], Settings]) -> None:
        self._home = home
        self._store = store
        self._settings = settings
        self._lookout = Lookout(home, settings(), store)

    def mark(self) -> int:
        return self._store.change_mark()

    def look(self) -> Mapping[str, Any]:
        settings = self._settings()
        if settings is not self._lookout.settings:
            self._lookout = Lookout(self._home, settings, self._store)
        return self._lookout.look().as_json()

    def wait(self, mark: int, seconds: float) -> bool:
        return self._store.wait_for_change(mark, seconds) != mark

    def forget(self) -> None:
        """It is the service's: nothing is closed."""
