"""Where the snapshots come from: a home that is only read, or the house of our own service."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hostler.config.settings import Settings
from hostler.service.snapshot import Lookout
from hostler.store import Store, open_store
from hostler.store.place import SqlitePlace, find_place


class HomeOutlook:
    """A home, opened when it can be; settings are read anew with each opening."""

    def __init__(self, home: Path, settings: Callable[[], Settings]) -> None:
        self._home = home
        self._settings = settings
        self._lookout: Lookout | None = None
        self._file: tuple[int, int] | None = None

    def mark(self) -> int:
        return self._open().store.change_mark()

    def look(self) -> Mapping[str, Any]:
        return self._open().look().as_json()

    def wait(self, mark: int, seconds: float) -> bool:
        return self._open().store.wait_for_change(mark, seconds) != mark

    def forget(self) -> None:
        if self._lookout is not None:
            self._lookout.store.close()
        self._lookout = None

    def _open(self) -> Lookout:
        file = self._present()
        if self._lookout is not None and file != self._file:
            # Another database lies there now, or none: the old one is nobody's any more.
            self.forget()
        if self._lookout is None:
            settings = self._settings()
            store = open_store(self._home, settings.runtime.database_url or None)
            self._lookout, self._file = Lookout(self._home, settings, store), self._present()
        return self._lookout

    def _present(self) -> tuple[int, int] | None:
        """Which file is the database; None for a server, or if there is none."""
        lookout = self._lookout
        place = lookout.store.place if lookout else find_place(self._home, None)
        if not isinstance(place, SqlitePlace):
            return None
        try:
            found = os.stat(place.path)  # noqa: PTH116
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
