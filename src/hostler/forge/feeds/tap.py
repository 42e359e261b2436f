"""What all readings of one repository stand on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hostler.errors import ForgeError, GitHubPollingError
from hostler.forge.feeds.cursors import Window
from hostler.forge.feeds.metering import Meter
from hostler.forge.outbox.sender import SCOPE
from hostler.forge.outbox.settling import Settled, ignore
from hostler.forge.port import Forge
from hostler.model import RepoName
from hostler.store.store import Store
from hostler.telemetry.names import Event

if TYPE_CHECKING:
    from hostler.telemetry.logs import Log

# Told of each step: which, and of what.
Observe = Callable[[str, str], None]


def nobody(_step: str, _what: str) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class Tap:
    """One repository's way from GitHub into the inbox. `scopes`: what `settled` writes too."""

    store: Store
    forge: Forge
    repo: RepoName
    window: Window = field(default_factory=Window)
    settled: Settled = ignore
    scopes: tuple[str, ...] = (SCOPE,)
    log: Log | None = None
    meter: Meter = field(default_factory=Meter)
    observe: Observe = nobody

    def say(self, event: Event, **fields: object) -> None:
        """Log something about this repository."""
        if self.log is not None:
            self.log.bind(repo=str(self.repo), **fields).event(event)

    @contextmanager
    def polling(self, surface: str) -> Iterator[None]:
        """Whatever GitHub refuses inside could not be polled."""
        try:
            yield
        except ForgeError as error:
            raise GitHubPollingError(str(self.repo), str(surface), error) from error
