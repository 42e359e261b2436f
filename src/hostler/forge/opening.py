"""Opening GitHub: one connection and one set of credentials, a `Forge` per repository."""

from __future__ import annotations

import threading

from hostler.clock import Clock, SystemClock
from hostler.config.settings import GitHub as Settings
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
        self._clock = clock
        self._pauses = pauses
        self._lock = threading.Lock()
        self._repos: dict[RepoName, GitHub] = {}

    def repo(self, name: RepoName) -> GitHub:
        """One repository; the same object for the same name."""
        with self._lock:
            if name not in self._repos:
                client = Client(self.wire, self.credentials, name, self._clock, self._pauses)
                self._repos[name] = GitHub(client)
            return self._repos[name]

    def close(self) -> None:
        """Let go of all connections."""
        self.wire.close()


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
    )
    try:
        return Hub(wire, open_credentials(settings, wire), clock, pauses)
    except BaseException:
        wire.close()
        raise
