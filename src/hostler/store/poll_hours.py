"""Rows of looks at repositories, summed up by the hour, for a day."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta

from sqlalchemy import delete, select

from hostler.model import stamp
from hostler.store.record_tables import poll_hours as table
from hostler.store.transaction import Transaction
from hostler.store.upserts import insert_or_update

KEPT = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Polls:
    """Looks that are over. `late` saw all, too late; `failed` did not see all.

    Lags are from when a look was due to when it was over: in all, the worst, and of the last one,
    which was over at `last_at`. `late_since`: one that is not over was due then; empty: none is
    late.
    """

    polls: int = 0
    late: int = 0
    failed: int = 0
    lag_seconds: float = 0.0
    worst_seconds: float = 0.0
    last_at: str = ""
    last_seconds: float = 0.0
    late_since: str = ""

    def __add__(self, later: Polls) -> Polls:
        last = later if later.last_at else self
        return Polls(
            self.polls + later.polls,
            self.late + later.late,
            self.failed + later.failed,
            self.lag_seconds + later.lag_seconds,
            max(self.worst_seconds, later.worst_seconds),
            last.last_at,
            last.last_seconds,
            later.late_since,
        )


def add_polls(tx: Transaction, project: str, more: Polls) -> None:
    """Add looks of a project to those of this hour; what is old is forgotten."""
    hour = stamp(tx.now().replace(minute=0, second=0, microsecond=0))
    known = polls_since(tx, hour).get(project, Polls())
    insert_or_update(tx, table, {"project": project, "hour": hour, **asdict(known + more)})
    tx.execute(delete(table).where(table.c.hour < stamp(tx.now() - KEPT)))


def polls_since(tx: Transaction, since: str) -> dict[str, Polls]:
    """Looks in the hours since a moment, by project."""
    found: dict[str, Polls] = {}
    chosen = select(table).where(table.c.hour >= since).order_by(table.c.hour)
    for row in tx.execute(chosen).mappings():
        values = {name: value for name, value in row.items() if name not in ("project", "hour")}
        found[row["project"]] = found.get(row["project"], Polls()) + Polls(**values)
    return found
