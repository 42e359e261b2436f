"""What the routes stand on: a home, its settings as they are now, its database, and who asks."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from hostler.bus.message import is_person
from hostler.clock import Clock
from hostler.config.settings import Settings
from hostler.service.directing import Director
from hostler.service.snapshot import Lookout
from hostler.store import Store
from hostler.telemetry.logs import Log
from hostler.web.guard import asker_of
from hostler.web.live.following import Live
from hostler.web.refusals import Unusable


class Desk:
    """One per server. Everything here may be used from any thread."""

    def __init__(
        self,
        home: Path,
        store: Store,
        clock: Clock,
        settings: Callable[[], Settings],
        by: str,
        log: Log | None = None,
        live: Live | None = None,
    ) -> None:
        """`settings`: those in force; `by`: whoever holds the token."""
        self.home = home
        self.store = store
        self.clock = clock
        self.by = by
        self.log = log
        self.live = live or Live(store, clock)
        self._settings = settings
        self._lookout = Lookout(home, settings(), store)

    def asked_by(self, name: str) -> Desk:
        """The same desk for somebody else."""
        other = copy(self)
        other.by = name
        return other

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._settings()

    @property
    def lookout(self) -> Lookout:
        """Where snapshots are taken from; a new one when the settings have changed."""
        now = self._settings()
        if self._lookout.settings is not now:
            self._lookout = Lookout(self.home, now, self.store)
        return self._lookout

    @property
    def director(self) -> Director:
        """Who carries out what is asked for here."""
        grace = float(self.settings.runtime.stop_grace_seconds)
        return Director(self.home, self.store, self.clock, grace, self.by)


async def desk_of(request: Request) -> Desk:
    """The desk of the server that was asked, by whoever asks."""
    found, name = request.app.state.desk, asker_of(request.scope)
    assert isinstance(found, Desk)
    if name and not is_person(name):
        raise Unusable("`X-Hostler-By` names nobody.", "Send a short name that can be printed.")
    return found.asked_by(name) if name else found


At = Annotated[Desk, Depends(desk_of)]
