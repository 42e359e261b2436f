"""Who works on a home now: a service that takes every task, somebody else, or nobody."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hostler.store.engine.locks import Holder, who_works

# What the lock of a home is held for. Only the first takes whatever is queued.
SERVICE, ONE_LOOK, ONE_TASK = "service", "service --once", "run"
NOBODY = "No service works on this home: nothing starts until one does (`hostler service`)."


@dataclass(frozen=True, slots=True)
class Presence:
    """Who holds the lock of a home, if anybody does."""

    holder: Holder | None = None

    @property
    def takes_tasks(self) -> bool:
        """Whether somebody takes every task that is queued."""
        return self.holder is not None and self.holder.purpose == SERVICE

    def sentence(self) -> str:
        """The same for people."""
        if self.holder is None:
            return NOBODY
        if self.takes_tasks:
            return f"A service works on this home: {self.holder}."
        return (
            f"{self.holder} works on this home, and takes no other tasks: they wait until it "
            "has ended and a service works (`hostler service`)."
        )

    def as_json(self) -> dict[str, Any] | None:
        """The same for programs."""
        if self.holder is None:
            return None
        return {**asdict(self.holder), "takes_tasks": self.takes_tasks}


def presence(home: Path) -> Presence:
    """Who works on a home at this moment."""
    return Presence(who_works(home))
