"""The context of a request: home, settings, database and the caller's name."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from hostler.bus.message import is_valid_person
from hostler.clock import Clock
from hostler.config.settings import Settings
from hostler.service.snapshot.snapshot import SnapshotReader
from hostler.service.tasks.control import TaskController
from hostler.store import Store
from hostler.telemetry.logs import EventLog
from hostler.web.errors import InvalidValue
from hostler.web.live.hub import LiveHub
from hostler.web.middleware import get_caller_name


class WebContext:
    """What routes work with: one per server, copied per caller. Thread-safe."""

    def __init__(
        self,
        home: Path,
        store: Store,
        clock: Clock,
        settings: Callable[[], Settings],
        by: str,
        log: EventLog | None = None,
        live: LiveHub | None = None,
    ) -> None:
        """`settings` returns the current settings; `by` is the user who owns the token."""
        self.home = home
        self.store = store
        self.clock = clock
        self.by = by
        self.log = log
        self.live = live or LiveHub(store, clock)
        self._settings = settings
        self._snapshots = SnapshotReader(home, settings(), store)

    def for_caller(self, name: str) -> WebContext:
        """Return a copy of this context for another caller."""
        other = copy(self)
        other.by = name
        return other

    @property
    def settings(self) -> Settings:
        """The current settings."""
        return self._settings()

    @property
    def snapshots(self) -> SnapshotReader:
        """The snapshot reader, replaced when the settings have changed."""
        now = self._settings()
        if self._snapshots.settings is not now:
            self._snapshots = SnapshotReader(self.home, now, self.store)
        return self._snapshots

    @property
    def controller(self) -> TaskController:
        """The task controller, which acts in the name of the caller."""
        grace = float(self.settings.runtime.stop_grace_seconds)
        return TaskController(self.home, self.store, self.clock, grace, self.by)


async def get_context(request: Request) -> WebContext:
    """Return the server's context for the caller of this request."""
    found, name = request.app.state.context, get_caller_name(request.scope)
    assert isinstance(found, WebContext)
    if name and not is_valid_person(name):
        raise InvalidValue(
            "The name in `X-Hostler-By` is not valid.", "Send a short name of printable characters."
        )
    return found.for_caller(name) if name else found


ContextDep = Annotated[WebContext, Depends(get_context)]
