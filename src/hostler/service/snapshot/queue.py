"""The queue as admission looks at it, and what holds each task of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hostler.model import parse_stamp, stamp
from hostler.service.candidates import Held
from hostler.service.pages import about
from hostler.service.why import Gatekeeper, Inquiry, since_when
from hostler.store import Transaction
from hostler.store.instants import age, not_after
from hostler.store.tasks import Task


@dataclass(frozen=True, slots=True)
class Queued:
    """A task that waits. `held` is None for the one that starts next."""

    position: int
    task: Task
    held: Held | None
    since: datetime
    seconds: float

    def as_json(self, web_url: str) -> dict[str, Any]:
        """For programs; `until` is when its gate opens by itself, where that is known."""
        held = self.held
        return {
            "position": self.position,
            **about(self.task, web_url),
            "attempt": self.task.attempt,
            "seconds": self.seconds,
            "would_start": held is None,
            "gate": str(held.gate) if held else None,
            "why": held.why if held else None,
            "remedy": held.remedy if held else None,
            "since": stamp(self.since),
            "until": stamp(held.until) if held and held.until else None,
        }


def queued_tasks(tx: Transaction, inquiry: Inquiry) -> tuple[Queued, ...]:
    """All that wait for a place, in the order in which they are looked at."""
    found, now = Gatekeeper(tx, inquiry).queue(), tx.now()
    return tuple(
        Queued(
            position,
            task,
            held,
            not_after(since_when(task, held), now),
            age(parse_stamp(task.state_since), now).total_seconds(),
        )
        for position, (task, held) in enumerate(found, start=1)
    )
