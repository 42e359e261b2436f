"""What `hostler doctor` checks: the holders of leases, parked pools, caps and breakers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta

from hostler.config.loader import load_settings
from hostler.errors import ConfigError, StoreError
from hostler.governor.adaptive.model import BreakerState
from hostler.governor.holders import read_host
from hostler.governor.policy import read_policy
from hostler.governor.status import GovernorStatus, PoolStatus, breaker_until, status
from hostler.health import CheckContext, CheckStatus, Finding, check

LEASES, POOLS = "governor.leases", "governor.pools"
CAPS, BREAKERS = "governor.adaptive_cap", "governor.breaker"
# A cap that stays at its floor for this long does not recover by itself.
MAX_TIME_AT_FLOOR = timedelta(minutes=30)
FLOOR = 1
# Reopened this many times in a row: the breaks are too short, or the limit too low.
FLAPPING_REOPENS = 2
UNREADABLE = "Settings or database cannot be read"


@check(LEASES)
def leases_are_held(context: CheckContext) -> Iterator[Finding]:
    """Does a living process hold each lease, and stand behind each demand?"""
    found = _read_status(context)
    if found is None:
        yield Finding(LEASES, CheckStatus.SKIPPED, UNREADABLE)
        return
    number = sum(len(pool.leases) for pool in found.pools)
    if not found.unverified:
        yield Finding(LEASES, CheckStatus.OK, f"{number} leases" if number != 1 else "1 lease")
    else:
        unverified = ", ".join(sorted(found.unverified))
        evidence = f"{number} lease(s); whether the holders of {unverified} live is not known here"
        yield Finding(
            LEASES,
            CheckStatus.WARNING,
            evidence,
            "Check on their machines; the leases expire with the TTL.",
        )
    yield from _dead_holders(found)


def _dead_holders(found: GovernorStatus) -> Iterator[Finding]:
    """Report what dead processes left, by pool. Pruning releases it."""
    remedy = "The service releases it within a minute. Without a service, run: hostler doctor --fix"
    for pool in sorted({one.pool for one in found.ended}):
        names = ", ".join(one.lease for one in found.ended if one.pool == pool)
        evidence = f"{pool}: the holders of {names} are dead"
        yield Finding(LEASES, CheckStatus.WARNING, evidence, remedy)
    for pool in sorted({one.pool for one in found.stale}):
        names = ", ".join(sorted({one.project for one in found.stale if one.pool == pool}))
        evidence = f"{pool}: the demand of {names} is stale"
        yield Finding(LEASES, CheckStatus.WARNING, evidence, remedy)


@check(POOLS)
def pools_are_open(context: CheckContext) -> Iterator[Finding]:
    """Is any pool parked, or above its cap?"""
    for pool in _pools(context, POOLS):
        if isinstance(pool, Finding):
            yield pool
            continue
        evidence = f"{pool.pool}: {pool.active} of {pool.cap} agents"
        if pool.parked is not None:
            remedy = f"Wait, or run: hostler governor resume --provider {pool.pool}"
            closed = f"{evidence}, parked {pool.parked.text}"
            yield Finding(POOLS, CheckStatus.WARNING, closed, remedy)
        elif pool.active > pool.cap:
            remedy = "No agent starts in this pool until enough have ended."
            yield Finding(POOLS, CheckStatus.WARNING, f"{evidence}, above its cap", remedy)
        else:
            yield Finding(POOLS, CheckStatus.OK, evidence)


@check(CAPS)
def caps_move(context: CheckContext) -> Iterator[Finding]:
    """Has any adaptive cap stayed at its floor for long after it was lowered?"""
    for pool in _pools(context, CAPS):
        yield pool if isinstance(pool, Finding) else _cap(pool)


def _cap(pool: PoolStatus) -> Finding:
    known = pool.learned
    if known is None:
        return Finding(CAPS, CheckStatus.OK, f"{pool.pool}: fixed at {pool.cap}")
    if known.state.damaged_at is not None:
        return _damaged(pool, known.state.damaged_at)
    lowered = known.state.last_decrease_at
    pinned = lowered is not None and known.now - lowered >= MAX_TIME_AT_FLOOR
    evidence = f"{pool.pool}: {pool.cap}, up to {known.config.hard_max}"
    if pool.cap > FLOOR or not pinned or known.config.hard_max <= FLOOR:
        return Finding(CAPS, CheckStatus.OK, evidence)
    remedy = (
        "The provider keeps refusing: check the account's limits, or start over with "
        f"`hostler governor reset --provider {pool.pool}`."
    )
    since = f"last lowered at {lowered:%Y-%m-%d %H:%M} UTC"
    return Finding(CAPS, CheckStatus.WARNING, f"{evidence}, pinned at its floor, {since}", remedy)


def _damaged(pool: PoolStatus, at: datetime) -> Finding:
    evidence = f"{pool.pool}: {pool.cap}; its stored state was damaged, found {at:%Y-%m-%d %H:%M}"
    remedy = (
        "Check the disk, and run `hostler db check`. The pool recovers by itself, or at once with "
        f"`hostler governor reset --provider {pool.pool}`."
    )
    return Finding(CAPS, CheckStatus.WARNING, f"{evidence} UTC", remedy)


@check(BREAKERS)
def breakers_are_closed(context: CheckContext) -> Iterator[Finding]:
    """Is the circuit breaker of any pool open?"""
    for pool in _pools(context, BREAKERS):
        yield pool if isinstance(pool, Finding) else _breaker(pool)


def _breaker(pool: PoolStatus) -> Finding:
    state = pool.learned.state if pool.learned else None
    if state is None or state.breaker_state is BreakerState.CLOSED:
        return Finding(BREAKERS, CheckStatus.OK, f"{pool.pool}: closed")
    until = breaker_until(state)
    evidence = f"{pool.pool}: {state.breaker_state.value}"
    if until is not None:
        evidence += f" until {until:%Y-%m-%d %H:%M:%S} UTC"
    remedy = f"Wait, or run: hostler governor reset --provider {pool.pool}"
    if state.breaker_reopen_count >= FLAPPING_REOPENS:
        evidence += f", flapping: reopened {state.breaker_reopen_count} times in a row"
        remedy = f"Check the account's limits, `--hard-max` and `--break-sec`. {remedy}"
    return Finding(BREAKERS, CheckStatus.WARNING, evidence, remedy)


def _pools(context: CheckContext, name: str) -> Iterator[PoolStatus | Finding]:
    """Yield every pool, or why the pools cannot be read."""
    found = _read_status(context)
    if found is None:
        yield Finding(name, CheckStatus.SKIPPED, UNREADABLE)
    else:
        yield from found.pools


def _read_status(context: CheckContext) -> GovernorStatus | None:
    """Return the governor's status, or None if settings or database cannot be read."""
    from hostler.store import open_store
    from hostler.store.engine.backend import URL_VARIABLE

    try:
        settings = load_settings(context.home, context.config_path).settings
        url = os.environ.get(URL_VARIABLE) or settings.runtime.database_url or None
        policy = read_policy(context.home, settings)
        store = open_store(context.home, url, clock=context.clock)
    except (ConfigError, StoreError):
        return None
    try:
        with store.read() as tx:
            return status(tx, policy, read_host())
    finally:
        store.close()
