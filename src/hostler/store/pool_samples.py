"""Rows of pools over time: what the service saw of each, for a day."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import delete, select

from hostler.model import stamp
from hostler.store.record_tables import pool_samples as table
from hostler.store.transaction import Transaction
from hostler.store.upserts import insert_or_update

KEPT = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class PoolSample:
    """A pool at a moment. `ceiling`: what its cap never exceeds; `breaker`: its state."""

    pool: str
    at: str
    ceiling: int
    cap: int
    active: int
    breaker: str
    parked: bool

    def as_json(self) -> dict[str, Any]:
        """For programs; the pool stands above it."""
        told = asdict(self)
        del told["pool"]
        return told


def add_samples(tx: Transaction, samples: Iterable[PoolSample]) -> None:
    """Keep samples; what is old is forgotten."""
    for one in samples:
        insert_or_update(tx, table, asdict(one) | {"parked": int(one.parked)})
    tx.execute(delete(table).where(table.c.at < stamp(tx.now() - KEPT)))


def samples_since(tx: Transaction, since: str) -> list[PoolSample]:
    """Samples of all pools since a moment, oldest first."""
    chosen = select(table).where(table.c.at >= since).order_by(table.c.at, table.c.pool)
    rows = tx.execute(chosen).mappings()
    return [PoolSample(**{**row, "parked": bool(row["parked"])}) for row in rows]
