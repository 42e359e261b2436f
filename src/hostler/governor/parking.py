"""Pools that a provider's own word holds back."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from hostler.governor.gates import UNTIL_RESUMED, Closed
from hostler.governor.moments import deadline, readable
from hostler.governor.pools import pool_key
from hostler.governor.remembering import as_text, from_text
from hostler.model import stamp
from hostler.store import Transaction
from hostler.store.instants import clamped_deadline, not_after
from hostler.store.overlays import find_overlay, put_overlay
from hostler.store.parked import Parked, park_pool, parked_pool, parked_pools, unpark_pool

# The longest windows of providers are months; nothing is closed for longer by one word.
LONGEST = timedelta(days=31)


def park(tx: Transaction, pool: str, until: datetime, why: str, run: str = "") -> None:
    """Close a pool until a moment; a closing that lasts longer stays as it is.

    `run`: whose word alone says so. Once a second one says so too, it is nobody's alone.
    """
    now, key = tx.now(), pool_key(pool)
    if until != UNTIL_RESUMED:
        until = clamped_deadline(until, now, LONGEST)
    before = parked_pool(tx, key)
    standing = closed(before, now)
    alone = run if standing is None or before is None or before.run == run else ""
    if before is not None and _ends(before, now) >= until:
        if before.run != alone:
            park_pool(tx, replace(before, run=alone))
        return
    since = standing.since if standing and standing.since else now
    park_pool(tx, Parked(key, stamp(since), stamp(until), why, alone))


def reopen(tx: Transaction, pool: str, run: str) -> bool:
    """Open a pool that is closed on the word of this run alone; whether it was."""
    before = parked_pool(tx, pool_key(pool))
    alone = before is not None and before.run == run
    return alone and resume(tx, pool)


def resume(tx: Transaction, pool: str) -> bool:
    """Open a pool, whoever closed it; whether it was closed."""
    key, now = pool_key(pool), tx.now()
    overlay = from_text(find_overlay(tx, key))
    told = overlay.gate_until is not None and overlay.gate_until > now
    if told:
        put_overlay(
            tx, key, as_text(replace(overlay, gate_until=None, gate_seconds=0.0, pausing=False))
        )
    return unpark_pool(tx, key) or told


def closed(parked: Parked | None, now: datetime) -> Closed | None:
    """A stored closing as it may be believed; None: the pool is open."""
    if parked is None:
        return None
    until = _ends(parked, now)
    since = readable(parked.at)
    if until <= now:
        return None
    return Closed(until, not_after(since, now) if since else None, parked.why)


def _ends(parked: Parked, now: datetime) -> datetime:
    """When a stored closing ends, as it may be believed."""
    if readable(parked.until) == UNTIL_RESUMED:
        return UNTIL_RESUMED
    return deadline(parked.until, now, LONGEST)


def closed_pools(tx: Transaction) -> frozenset[str]:
    """All pools that are closed now."""
    now = tx.now()
    return frozenset(one.pool for one in parked_pools(tx) if closed(one, now) is not None)
