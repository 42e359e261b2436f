"""Rows of limit signals: what providers told the agents of a pool, living and dying."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import StrEnum

from sqlalchemy import delete, func, insert, select

from hostler.model import stamp
from hostler.store.signal_tables import limit_signals
from hostler.store.transaction import Transaction

# Nothing that follows from a signal looks back farther.
KEPT = timedelta(days=2)


class Source(StrEnum):
    """Where a signal comes from: an agent that lives and tries again, or one that it ended."""

    LIVE = "live"
    DEATH = "death"


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal, with whose it is."""

    run: str
    pool: str
    task_id: str
    project: str
    source: Source
    reason: str
    status: int = 0
    retry_after_seconds: float = 0.0
    resets_at: str = ""
    times: int = 1
    at: str = ""


def add_signals(tx: Transaction, signals: Iterable[Signal]) -> None:
    """Keep signals of one run, in their order; what is old is forgotten."""
    found = list(signals)
    if not found:
        return
    newest = func.coalesce(func.max(limit_signals.c.number), 0)
    known = tx.execute(select(newest).where(limit_signals.c.run == found[0].run)).scalar_one()
    for number, one in enumerate(found, start=int(known) + 1):
        further = {"number": number, "at": one.at or tx.stamp(), "source": one.source.value}
        tx.execute(insert(limit_signals).values(**(asdict(one) | further)))
    tx.execute(delete(limit_signals).where(limit_signals.c.at < stamp(tx.now() - KEPT)))


def signals_of_pool(tx: Transaction, pool: str, since: str = "") -> list[Signal]:
    """What was heard in a pool since a moment, oldest first."""
    table = limit_signals.c
    chosen = select(limit_signals).where(table.pool == pool, table.at >= since)
    rows = tx.execute(chosen.order_by(table.at, table.run, table.number)).mappings()
    return [_signal(dict(row)) for row in rows]


def met_since(tx: Transaction, since: str, most: int) -> list[Signal]:
    """The newest that were heard in any pool since a moment, oldest first."""
    table = limit_signals.c
    chosen = select(limit_signals).where(table.at >= since)
    rows = tx.execute(chosen.order_by(table.at.desc(), table.run, table.number).limit(most))
    return [_signal(dict(row)) for row in reversed(rows.mappings().all())]


def _signal(row: dict[str, object]) -> Signal:
    row.pop("number")
    return Signal(**{**row, "source": Source(str(row["source"]))})  # type: ignore[arg-type]
