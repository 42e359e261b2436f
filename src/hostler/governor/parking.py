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
    all_pool_states,
    find_pool_state,
    park_pool,
    parked_pool,
    parked_pools,
    put_pool_state,
    unpark_pool,
)
from hostler.store.transaction import age, clamped_deadline, not_after


def readable_time(text: str | None) -> datetime | None:
    """Parse a stored time; return None if it is empty or damaged."""
    try:
        return parse_timestamp(text) if text else None
    except ValueError:
        return None


def age_of(text: str, now: datetime) -> timedelta:
    """Return how long ago a stored time was. A damaged or future time counts as now."""
    return age(readable_time(text) or now, now)


def deadline(text: str, now: datetime, longest: timedelta) -> datetime:
    """Return a stored deadline, at most `longest` ahead. A damaged one is that far ahead."""
    return clamped_deadline(readable_time(text) or now + longest, now, longest)


def is_invalid_time(text: str, now: datetime) -> bool:
    """Return True if a stored time is damaged or in the future."""
    moment = readable_time(text)
    return moment is None or moment > now


# Providers' windows last up to a month; one report never parks a pool for longer.
MAX_PARK = timedelta(days=31)
# Fall back to another agent only for waits at least this long, and only for these gates: the task
# then stays with that agent.
LONG_WAIT = timedelta(seconds=60)
LASTING_WAIT = frozenset({Gate.BREAKER, Gate.LIMIT})


def park(tx: Transaction, pool: str, until: datetime, why: str, run: str = "") -> None:
    """Park a pool until a time. A parking that lasts longer stays in force.

    `run` is the only run that reported it. When a second one does too, the row names none.
    """
    now, key = tx.now(), pool_key(pool)
    if until != UNTIL_RESUMED:
        until = clamped_deadline(until, now, MAX_PARK)
    before = parked_pool(tx, key)
    current = active_parking(before, now)
    only_run = run if current is None or before is None or before.run == run else ""
    if before is not None and _ends(before, now) >= until:
        if before.run != only_run:
            park_pool(tx, replace(before, run=only_run))
        return
    since = current.since if current and current.since else now
    park_pool(tx, Parked(key, format_timestamp(since), format_timestamp(until), why, only_run))


def reopen(tx: Transaction, pool: str, run: str) -> bool:
    """Reopen a pool if only this run reported its parking. Return False if it did not."""
    before = parked_pool(tx, pool_key(pool))
    is_only_run = before is not None and before.run == run
    return is_only_run and resume(tx, pool)


def resume(tx: Transaction, pool: str) -> bool:
    """Reopen a pool, and clear its adaptive gate. Return False if it was open."""
    key, now = pool_key(pool), tx.now()
    state = load_state(find_pool_state(tx, key))
    gate_closed = state.gate_until is not None and state.gate_until > now
    if gate_closed:
        put_pool_state(
            tx, key, dump_state(replace(state, gate_until=None, gate_seconds=0.0, pausing=False))
        )
    return unpark_pool(tx, key) or gate_closed


def active_parking(parked: Parked | None, now: datetime) -> ParkedPool | None:
    """Return a stored parking with sanitised times, or None if the pool is open."""
    if parked is None:
        return None
    until = _ends(parked, now)
    since = readable_time(parked.at)
    if until <= now:
        return None
    return ParkedPool(until, not_after(since, now) if since else None, parked.why)


def _ends(parked: Parked, now: datetime) -> datetime:
    """Return when a stored parking ends, after sanitising."""
    if readable_time(parked.until) == UNTIL_RESUMED:
        return UNTIL_RESUMED
    return deadline(parked.until, now, _length(parked))


def _length(parked: Parked) -> timedelta:
    """Return how long the pool was parked for: a clock set back must not extend it."""
    since, until = readable_time(parked.at), readable_time(parked.until)
    length = until - since if since is not None and until is not None else MAX_PARK
    return min(length, MAX_PARK) if length > timedelta(0) else MAX_PARK


def repair_parked(tx: Transaction) -> None:
    """Store sanitised parkings: a deadline clamped at every read would never pass."""
    now = tx.now()
    for one in parked_pools(tx):
        until, since = format_timestamp(_ends(one, now)), readable_time(one.at)
        if until != one.until and until > format_timestamp(now):
            at = format_timestamp(not_after(since, now) if since else now)
            park_pool(tx, replace(one, at=at, until=until))


def closed_pools(tx: Transaction, policy: Policy | None = None) -> frozenset[str]:
    """Return all pools that are parked, or closed for long by their adaptive policy."""
    now = tx.now()
    parked = {one.pool for one in parked_pools(tx) if active_parking(one, now) is not None}
    if policy is None or not policy.is_any_adaptive:
        return frozenset(parked)
    return frozenset(parked | _long_closed(all_pool_states(tx), policy, now))


def _long_closed(states: Mapping[str, str], policy: Policy, now: datetime) -> set[str]:
    """Return pools closed long enough that another agent should be used instead."""
    found = set()
    for pool, text in states.items():
        config = policy.pool_config(pool)
        closed = policy_for(config).closed_gate(config, load_state(text), now)
        if closed is not None and closed.gate in LASTING_WAIT and closed.until is not None:
            found |= {pool} if closed.until - now >= LONG_WAIT else set()
    return found
