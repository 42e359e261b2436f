"""What the routes work with: home, settings, database and the caller's name."""

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
from hostler.web.errors import Unusable
from hostler.web.live.hub import LiveHub
from hostler.web.middleware import get_caller_name


class WebContext:
    """One per server. Everything here may be used from any thread."""

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
        """`settings`: those in force; `by`: whoever holds the token."""
        self.home = home
        self.store = store
        self.clock = clock
        self.by = by
        self.log = log
        self.live = live or LiveHub(store, clock)
        self._settings = settings
        self._lookout = SnapshotReader(home, settings(), store)

    def asked_by(self, name: str) -> WebContext:
        """The same desk for somebody else."""
        other = copy(self)
        other.by = name
        return other

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._settings()

    @property
    def lookout(self) -> SnapshotReader:
        """Where snapshots are taken from; a new one when the settings have changed."""
        now = self._settings()
        if self._lookout.settings is not now:
            self._lookout = SnapshotReader(self.home, now, self.store)
        return self._lookout

    @property
    def director(self) -> TaskController:
        """Who carries out what is asked for here."""
        grace = float(self.settings.runtime.stop_grace_seconds)
        return TaskController(self.home, self.store, self.clock, grace, self.by)


async def get_context(request: Request) -> WebContext:
    """The desk of the server that was asked, by whoever asks."""
    found, name = request.app.state.context, get_caller_name(request.scope)
    assert isinstance(found, WebContext)
    if name and not is_valid_person(name):
        raise Unusable("`X-Hostler-By` names nobody.", "Send a short name that can be printed.")
    return found.asked_by(name) if name else found


ContextDep = Annotated[WebContext, Depends(get_context)]
