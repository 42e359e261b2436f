"""The API beside a service: whether it is wanted, where, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hostler.config import Settings
    from hostler.service import ServiceRunner
    from hostler.telemetry.logs import Log
    from hostler.web.beside import Served


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whether the API is served (None: as the settings say), and where."""

    web: bool | None = None
    listen: str = ""

    def options(self) -> list[str]:
        """The same for the next program."""
        if self.listen:
            return ["--web-listen", self.listen]
        return [] if self.web is None else ["--web" if self.web else "--no-web"]


@contextmanager
def api(runner: ServiceRunner, log: Log, wanted: Wanted) -> Iterator[Served | None]:
    """The API for the length of a block; None where nobody wants it."""
    house = runner.house
    if not (house.settings.web.enabled if wanted.web is None else wanted.web):
        yield None
        return
    from hostler.cli.web import api_beside

    def settings() -> Settings:
        return runner.house.settings

    with api_beside(house.home, house.store, settings, log, wanted.listen) as served:
        yield served
