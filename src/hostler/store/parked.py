"""Rows of parked pools: closed until a moment, because a provider said so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from hostler.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Parked:
    """A closed pool. Both moments are stamps, as they were stored.

    `run`: the one on whose word alone it is closed; empty: on somebody else's too.
    """

    pool: str
    at: str
    until: str
    why: str
    run: str = ""


PARK = """
    INSERT INTO pools (pool, parked_at, parked_until, parked_why, parked_run)
    VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (pool) DO UPDATE SET parked_at = excluded.parked_at,
        parked_until = excluded.parked_until, parked_why = excluded.parked_why,
        parked_run = excluded.parked_run
"""
UNPARK = """
    UPDATE pools SET parked_at = NULL, parked_until = NULL, parked_why = '', parked_run = ''
    WHERE pool = ? AND parked_until IS NOT NULL
"""
FIND = """
    SELECT pool, parked_at, parked_until, parked_why, parked_run FROM pools
    WHERE pool = ? AND parked_until IS NOT NULL
"""
ALL = """
    SELECT pool, parked_at, parked_until, parked_why, parked_run FROM pools
    WHERE parked_until IS NOT NULL
"""


def park_pool(tx: Transaction, parked: Parked) -> None:
    """Store until when a pool is closed, in place of what was said before."""
    tx.constant(PARK, (parked.pool, parked.at, parked.until, parked.why, parked.run))


def unpark_pool(tx: Transaction, pool: str) -> bool:
    """Open a pool; whether it was parked."""
    return tx.constant(UNPARK, (pool,)).rowcount == 1


def parked_pool(tx: Transaction, pool: str) -> Parked | None:
    """What is stored of a pool's closing, whether or not it is over."""
    return next((_parked(row) for row in tx.constant(FIND, (pool,))), None)


def parked_pools(tx: Transaction) -> list[Parked]:
    """The same of all pools."""
    return sorted((_parked(row) for row in tx.constant(ALL)), key=lambda parked: parked.pool)


def _parked(row: Row[Any]) -> Parked:
    pool, at, until, why, run = tuple(row)
    return Parked(pool, at or "", until, why, run)
