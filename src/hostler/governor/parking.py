"""Pools that are closed until a given time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from hostler.governor.adaptive.controller import policy_for
from hostler.governor.adaptive.state import dump_state, load_state
from hostler.governor.gates import UNTIL_RESUMED, Gate, ParkedPool
from hostler.governor.policy import Policy, pool_key
from hostler.model import format_timestamp, parse_timestamp
from hostler.store import Transaction
from hostler.store.governor import (
    Parked,
    all_overlays,
    find_overlay,
    park_pool,
    parked_pool,
    parked_pools,
    put_overlay,
    unpark_pool,
)
from hostler.store.transaction import age, clamped_deadline, not_after


def readable_time(text: str | None) -> datetime | None:
    """The moment behind a stamp; None where there is none."""
    try:
        return parse_timestamp(text) if text else None
    except ValueError:
        return None


def age_of(text: str, now: datetime) -> timedelta:
    """How long ago a stored moment was. One from the future, or a damaged one, is now."""
    return age(readable_time(text) or now, now)


def deadline(text: str, now: datetime, longest: timedelta) -> datetime:
    """A stored deadline; a damaged one counts as the latest that there could be."""
    return clamped_deadline(readable_time(text) or now + longest, now, longest)


def is_off(text: str, now: datetime) -> bool:
    """Whether a stored moment is damaged or lies in the future."""
    moment = readable_time(text)
    return moment is None or moment > now


# The longest windows of providers are months; nothing is closed for longer by one word.
MAX_PARK = timedelta(days=31)
# Whoever goes elsewhere stays there: a shorter wait is no reason to. Starts that only keep their
# distance are none either.
LONG_WAIT = timedelta(seconds=60)
LASTING_WAIT = frozenset({Gate.BREAKER, Gate.LIMIT})


def park(tx: Transaction, pool: str, until: datetime, why: str, run: str = "") -> None:
    """Close a pool until a moment; a closing that lasts longer stays as it is.

    `run`: whose word alone says so. Once a second one says so too, it is nobody's alone.
    """
    now, key = tx.now(), pool_key(pool)
    if until != UNTIL_RESUMED:
        until = clamped_deadline(until, now, MAX_PARK)
    before = parked_pool(tx, key)
    standing = closed(before, now)
    alone = run if standing is None or before is None or before.run == run else ""
    if before is not None and _ends(before, now) >= until:
        if before.run != alone:
            park_pool(tx, replace(before, run=alone))
        return
    since = standing.since if standing and standing.since else now
    park_pool(tx, Parked(key, format_timestamp(since), format_timestamp(until), why, alone))


def reopen(tx: Transaction, pool: str, run: str) -> bool:
    """Open a pool that is closed on the word of this run alone; whether it was."""
    before = parked_pool(tx, pool_key(pool))
    alone = before is not None and before.run == run
    return alone and resume(tx, pool)


def resume(tx: Transaction, pool: str) -> bool:
    """Open a pool, whoever closed it; whether it was closed."""
    key, now = pool_key(pool), tx.now()
    overlay = load_state(find_overlay(tx, key))
    told = overlay.gate_until is not None and overlay.gate_until > now
    if told:
        put_overlay(
            tx, key, dump_state(replace(overlay, gate_until=None, gate_seconds=0.0, pausing=False))
        )
    return unpark_pool(tx, key) or told


def closed(parked: Parked | None, now: datetime) -> ParkedPool | None:
    """A stored closing as it may be believed; None: the pool is open."""
    if parked is None:
        return None
    until = _ends(parked, now)
    since = readable_time(parked.at)
    if until <= now:
        return None
    return ParkedPool(until, not_after(since, now) if since else None, parked.why)


def _ends(parked: Parked, now: datetime) -> datetime:
    """When a stored closing ends, as it may be believed."""
    if readable_time(parked.until) == UNTIL_RESUMED:
        return UNTIL_RESUMED
    return deadline(parked.until, now, _length(parked))


def _length(parked: Parked) -> timedelta:
    """For how long a pool was closed; a clock that is set back makes it no longer."""
    since, until = readable_time(parked.at), readable_time(parked.until)
    length = until - since if since is not None and until is not None else MAX_PARK
    return min(length, MAX_PARK) if length > timedelta(0) else MAX_PARK


def repair_parked(tx: Transaction) -> None:
    """Store closings as they are believed: one that is clamped anew at each look never ends."""
    now = tx.now()
    for one in parked_pools(tx):
        until, since = format_timestamp(_ends(one, now)), readable_time(one.at)
        if until != one.until and until > format_timestamp(now):
            at = format_timestamp(not_after(since, now) if since else now)
            park_pool(tx, replace(one, at=at, until=until))


def closed_pools(tx: Transaction, policy: Policy | None = None) -> frozenset[str]:
    """All pools that are closed now: parked, or held back for a while by what was learned."""
    now = tx.now()
    parked = {one.pool for one in parked_pools(tx) if closed(one, now) is not None}
    if policy is None or not policy.adapts:
        return frozenset(parked)
    return frozenset(parked | _held_back(all_overlays(tx), policy, now))


def _held_back(overlays: Mapping[str, str], policy: Policy, now: datetime) -> set[str]:
    """Where nobody may start for so long that others should be asked instead."""
    found = set()
    for pool, text in overlays.items():
        knobs = policy.knobs(pool)
        shut = policy_for(knobs).shut(knobs, load_state(text), now)
        if shut is not None and shut.gate in LASTING_WAIT and shut.until is not None:
            found |= {pool} if shut.until - now >= LONG_WAIT else set()
    return found
