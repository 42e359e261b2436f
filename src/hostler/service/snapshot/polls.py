"""How late looks at repositories were, of the last day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hostler.model import parse_stamp, stamp
from hostler.store import Transaction
from hostler.store.repositories import KEPT, Polls, polls_since
from hostler.store.transaction import age


@dataclass(frozen=True, slots=True)
class PollLag:
    """Looks at one repository in the last day; `now`: when that was asked."""

    polls: Polls
    now: datetime

    @property
    def on_time(self) -> int:
        """How many saw everything, in time."""
        return self.polls.polls - self.polls.late - self.polls.failed

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        seen = self.polls
        late = age(parse_stamp(seen.late_since), self.now) if seen.late_since else None
        return {
            "looked_at": seen.last_at or None,
            "lag_seconds": round(seen.last_seconds, 3) if seen.last_at else None,
            "mean_seconds": round(seen.lag_seconds / seen.polls, 3) if seen.polls else None,
            "worst_seconds": round(seen.worst_seconds, 3) if seen.polls else None,
            "polls": seen.polls,
            "late": seen.late,
            "failed": seen.failed,
            "overdue_seconds": late.total_seconds() if late is not None else None,
        }


def poll_lags(tx: Transaction) -> dict[str, PollLag]:
    """By project, those that were looked at in the last day."""
    now = tx.now()
    found = polls_since(tx, stamp(now - KEPT))
    return {project: PollLag(one, now) for project, one in found.items()}
