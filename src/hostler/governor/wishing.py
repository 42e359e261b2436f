"""Demand in an open transaction: what a process would start for a project, if it could."""

from __future__ import annotations

from hostler.governor.holders import Here
from hostler.governor.pools import pool_key
from hostler.governor.shares import ENDLESS
from hostler.store import Transaction
from hostler.store import governor as rows
from hostler.store.governor import Demand


def demand(
    tx: Transaction,
    pool: str,
    project: str,
    here: Here,
    *,
    wanted: int | None = None,
    weight: int = 1,
    width: int = 0,
) -> None:
    """Say how many more agents this process would start now; None: unknown. Renew it in time."""
    number = None if wanted is None else min(wanted, ENDLESS)
    said = Demand(pool_key(pool), project, here.holder, tx.stamp(), number, weight, width)
    if number is None or number > 0:
        rows.put_demand(tx, said)
    else:
        rows.drop_demand(tx, said)


def drop_demand(tx: Transaction, pool: str, project: str, here: Here) -> None:
    """This process wants nothing for a project any more."""
    demand(tx, pool, project, here, wanted=0)
