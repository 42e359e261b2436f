"""Opening GitHub: one connection and one set of credentials, a `Forge` per repository."""

from __future__ import annotations

import threading

from hostler.clock import Clock, SystemClock
from hostler.config.settings import GitHub as Settings
from hostler.forge.budget import PATIENCE, Accounts, Caps
from hostler.forge.client import PAUSES, Client
from hostler.forge.credentials import Credentials, open_credentials
from hostler.forge.github import GitHub
from hostler.forge.wire import Wire
from hostler.model import RepoName


class Hub:
    """GitHub, as the settings say. Close it to let go of its connections."""

    def __init__(
        self,
        wire: Wire,
        credentials: Credentials,
        clock: Clock,
        pauses: tuple[float, ...] = PAUSES,
    ) -> None:
        self.wire = wire
        self.credentials = credentials
        self.budget = wire.budget
        self._clock = clock
        self._pauses = pauses
        self._lock = threading.Lock()
        self._repos: dict[tuple[RepoName, bool], GitHub] = {}

    def repo(self, name: RepoName) -> GitHub:
        """One repository; the same object for the same name."""
        return self._repo(name, urgent=False)

    def urgent(self, name: RepoName) -> GitHub:
        """The same for whoever writes: its reads may use what is kept for writes."""
        return self._repo(name, urgent=True)

    def close(self) -> None:
        """Let go of all connections; nobody waits for its turn any more."""
        self.wire.close()

    def _repo(self, name: RepoName, *, urgent: bool) -> GitHub:
        with self._lock:
            if (name, urgent) not in self._repos:
                client = Client(
                    self.wire, self.credentials, name, self._clock, self._pauses, urgent=urgent
                )
                self._repos[name, urgent] = GitHub(client)
            return self._repos[name, urgent]


def open_hub(
    settings: Settings, clock: Clock | None = None, *, pauses: tuple[float, ...] = PAUSES
) -> Hub:
    """GitHub, as the settings say. Nothing is sent before the first call."""
    clock = clock or SystemClock()
    wire = Wire(
        settings.api_url,
        clock,
        api_version=settings.api_version,
        timeout=float(settings.request_timeout_seconds),
        budget=Accounts(clock, Caps(percent=settings.budget_percent), PATIENCE),
    )
    try:
        return Hub(wire, open_credentials(settings, wire), clock, pauses)
    except BaseException:
        wire.close()
        raise
