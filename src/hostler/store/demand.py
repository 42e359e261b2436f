"""Rows of demand: which process has work for which project, and how many agents it would start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import RowMapping, select

from hostler.store.lease_tables import demand as table
from hostler.store.leases import Holder
from hostler.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Demand:
    """What one process wants in a pool. `wanted`: agents it would start now; None: unknown.

    `width` is the most that the project may run at once, over all pools; 0: no limit.
    """

    pool: str
    project: str
    holder: Holder
    updated_at: str
    wanted: int | None = None
    weight: int = 1
    width: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """A demand, with how many leases its project has: in this pool, and in all."""

    demand: Demand
    active: int
    everywhere: int


PUT = """
    INSERT INTO demand (pool, project, host, boot_id, pid_namespace, engine_pid, start_ticks,
        wanted, weight, width, updated_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (pool, project, host, boot_id, pid_namespace, engine_pid, start_ticks)
    DO UPDATE SET wanted = excluded.wanted, weight = excluded.weight, width = excluded.width,
        updated_at = excluded.updated_at
"""
_OF = """pool = ? AND project = ? AND host = ? AND boot_id = ? AND pid_namespace = ?
    AND engine_pid = ? AND start_ticks = ?"""
DROP = f"DELETE FROM demand WHERE {_OF}"  # noqa: S608
RENEW = f"UPDATE demand SET updated_at = ? WHERE {_OF}"  # noqa: S608
TAKE_ONE = f"UPDATE demand SET wanted = wanted - 1 WHERE {_OF} AND wanted > 0"  # noqa: S608
# Counted by project, so that what others hold costs nothing.
CLAIMS = """
    SELECT d.project, d.host, d.boot_id, d.pid_namespace, d.engine_pid, d.start_ticks,
        d.updated_at, d.wanted, d.weight, d.width,
        (SELECT count(*) FROM leases l
            WHERE l.project = d.project AND l.pool = d.pool AND l.lent = 0),
        (SELECT count(*) FROM leases l WHERE l.project = d.project AND l.lent = 0)
    FROM demand d WHERE d.pool = ? AND (d.wanted IS NULL OR d.wanted > 0)
"""


def put_demand(tx: Transaction, demand: Demand) -> None:
    """Store what a process wants, in place of what it wanted before."""
    how_much = (demand.wanted, demand.weight, demand.width, demand.updated_at)
    tx.constant(PUT, (*_key(demand), *how_much))


def drop_demand(tx: Transaction, demand: Demand) -> bool:
    """Forget what a process wanted for a project; whether it wanted anything."""
    return tx.constant(DROP, _key(demand)).rowcount == 1


def renew_demand(tx: Transaction, demand: Demand, at: str) -> None:
    """Note when it was last said."""
    tx.constant(RENEW, (at, *_key(demand)))


def take_one(tx: Transaction, demand: Demand) -> None:
    """One of the wanted agents is being started. A wish for none counts no more."""
    tx.constant(TAKE_ONE, _key(demand))


def claims(tx: Transaction, pool: str) -> list[Claim]:
    """All demand in a pool that wants anything, with what each project has."""
    return [_claim(pool, *row) for row in tx.constant(CLAIMS, (pool,))]


def all_demand(tx: Transaction) -> list[Demand]:
    """All demand in all pools, in the order of pools and projects."""
    found = [_demand(row) for row in tx.execute(select(table)).mappings()]
    return sorted(found, key=lambda demand: (demand.pool, demand.project, demand.holder.columns))


def _key(demand: Demand) -> tuple[str | int, ...]:
    return demand.pool, demand.project, *demand.holder.columns


def _claim(pool: str, project: str, *rest: Any) -> Claim:
    holder, (updated_at, wanted, weight, width) = Holder(*rest[:5]), rest[5:9]
    return Claim(Demand(pool, project, holder, updated_at, wanted, weight, width), *rest[9:])


def _demand(row: RowMapping) -> Demand:
    names = ("host", "boot_id", "pid_namespace", "engine_pid", "start_ticks")
    holder = Holder(*(row[name] for name in names))
    rest = {name: row[name] for name in ("updated_at", "wanted", "weight", "width")}
    return Demand(row["pool"], row["project"], holder, **rest)
