"""The operator's caps as they are now: `governor.json` is read again when it has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hostler.config.pools import FILE_NAME
from hostler.config.settings import Settings
from hostler.errors import ConfigError, HostlerError
from hostler.governor import Policy, read_policy
from hostler.governor.caps import move_state
from hostler.store import Store

Mark = tuple[int, int, int]


class Policies:
    """The newest policy that could be read. A damaged file changes nothing, and is told once."""

    def __init__(
        self,
        home: Path,
        settings: Settings,
        troubled: Callable[[BaseException], None],
        store: Store | None = None,
    ) -> None:
        """`store`: where state goes that an older program kept in the file."""
        self._home = home
        self._settings = settings
        self._troubled = troubled
        self._store = store
        self.tidy()
        # A service does not start on a damaged file: it would not know its caps.
        self._mark = self._look()
        self._policy = read_policy(home, settings)

    def current(self) -> Policy:
        """The policy in force."""
        mark = self._look()
        if mark != self._mark:
            self._mark = mark
            try:
                self._policy = read_policy(self._home, self._settings)
            except ConfigError as error:
                self._troubled(error)
        return self._policy

    def tidy(self) -> None:
        """Move state out of the file. To be called outside of transactions.

        What cannot be moved stays where it is, and nobody heeds it there.
        """
        if self._store is None:
            return
        try:
            move_state(self._home, self._store)
        except ConfigError:
            return  # whoever reads the caps says so
        except HostlerError as error:
            self._troubled(error)

    def _look(self) -> Mark | None:
        try:
            found = (self._home / FILE_NAME).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
