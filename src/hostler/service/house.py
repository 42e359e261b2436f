"""What everything in a service stands on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hostler.config.settings import Settings
    from hostler.forge import Hub
    from hostler.store import Store


@dataclass(frozen=True, slots=True)
class House:
    """What everything in a service stands on."""

    home: Path
    settings: Settings
    store: Store
    hub: Hub
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)

    @property
    def mirrors(self) -> Path:
        return self.home / "mirrors"

    @property
    def checkouts(self) -> Path:
        return self.home / "checkouts"
