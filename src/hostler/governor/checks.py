"""What `hostler doctor` asks of the governor: who holds places, and which pools are closed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta

from hostler.config.loader import load_settings
from hostler.errors import ConfigError, StoreError
from hostler.governor.adaptive.model import Breaker
from hostler.governor.holders import read_host
from hostler.governor.policy import read_policy
from hostler.governor.status import PoolStatus, breaker_until, status
from hostler.governor.status import Status as Governor
from hostler.health import CheckContext, CheckStatus, Finding, check

LEASES, POOLS = "governor.leases", "governor.pools"
CAPS, BREAKERS = "governor.adaptive_cap", "governor.breaker"
# A cap that has stood at its floor for so long does not come back by itself.
PINNED_FOR = timedelta(minutes=30)
FLOOR = 1
# So often in a row opened again means that the pauses do not help.
FLAPPING = 2
UNREADABLE = "settings or database cannot be read"


@check(LEASES)
def leases_are_held(context: CheckContext) -> Iterator[Finding]:
    """Does a living process hold each lease, and stand behind each wish?"""
    found = _look(context)
    if found is None:
        yield Finding(LEASES, CheckStatus.SKIPPED, UNREADABLE)
        return
    number = sum(len(pool.leases) for pool in found.pools)
    if not found.unseen:
        yield Finding(LEASES, CheckStatus.OK, f"{number} lease(s)")
    else:
        unseen = ", ".join(sorted(found.unseen))
        evidence = f"{number} lease(s); whether the holders of {unseen} live is not known here"
        yield Finding(
            LEASES, CheckStatus.WARNING, evidence, "Look on their machines; they end with the TTL."
        )
    yield from _left_behind(found)


def _left_behind(found: Governor) -> Iterator[Finding]:
    """What the dead left, by pool. It is given back by itself."""
    by_itself = "A service gives it back within a minute; without one, run: hostler doctor --fix"
    for pool in sorted({one.pool for one in found.ended}):
        names = ", ".join(one.lease for one in found.ended if one.pool == pool)
        evidence = f"{pool}: the holders of {names} are dead"
        yield Finding(LEASES, CheckStatus.WARNING, evidence, by_itself)
    for pool in sorted({one.pool for one in found.stale}):
        names = ", ".join(sorted({one.project for one in found.stale if one.pool == pool}))
        evidence = f"{pool}: nobody stands behind the wishes of {names} any more"
        yield Finding(LEASES, CheckStatus.WARNING, evidence, by_itself)


@check(POOLS)
def pools_are_open(context: CheckContext) -> Iterator[Finding]:
    """Is any pool closed by its provider's word, or over its cap?"""
    for pool in _pools(context, POOLS):
        if isinstance(pool, Finding):
            yield pool
            continue
        evidence = f"{pool.pool}: {pool.active} of {pool.cap} agents"
        if pool.parked is not None:
            remedy = f"Wait, or run: hostler governor resume --provider {pool.pool}"
            closed = f"{evidence}, closed {pool.parked.in_words}"
            yield Finding(POOLS, CheckStatus.WARNING, closed, remedy)
        elif pool.active > pool.cap:
            remedy = "Nothing starts there until enough have ended."
            yield Finding(POOLS, CheckStatus.WARNING, f"{evidence}, above its cap", remedy)
        else:
            yield Finding(POOLS, CheckStatus.OK, evidence)


@check(CAPS)
def caps_move(context: CheckContext) -> Iterator[Finding]:
    """Does any adaptive cap stand at its floor, long after it was lowered?"""
    for pool in _pools(context, CAPS):
        yield pool if isinstance(pool, Finding) else _cap(pool)


def _cap(pool: PoolStatus) -> Finding:
    known = pool.learned
    if known is None:
        return Finding(CAPS, CheckStatus.OK, f"{pool.pool}: fixed at {pool.cap}")
    if known.overlay.damaged_at is not None:
        return _damaged(pool, known.overlay.damaged_at)
    lowered = known.overlay.last_decrease_at
    pinned = lowered is not None and known.now - lowered >= PINNED_FOR
    evidence = f"{pool.pool}: {pool.cap}, up to {known.knobs.hard_max}"
    if pool.cap > FLOOR or not pinned or known.knobs.hard_max <= FLOOR:
        return Finding(CAPS, CheckStatus.OK, evidence)
    remedy = (
        "Its provider refuses again and again: look at the account's limits, or start anew with "
        f"`hostler governor reset --provider {pool.pool}`."
    )
    since = f"lowered last at {lowered:%Y-%m-%d %H:%M} UTC"
    return Finding(CAPS, CheckStatus.WARNING, f"{evidence}, pinned at its floor, {since}", remedy)


def _damaged(pool: PoolStatus, at: datetime) -> Finding:
    evidence = (
        f"{pool.pool}: {pool.cap}, as what was learned was damaged, found {at:%Y-%m-%d %H:%M}"
    )
    remedy = (
        "Look at the disk, and run `hostler db check`. It learns anew by itself, or at once with "
        f"`hostler governor reset --provider {pool.pool}`."
    )
    return Finding(CAPS, CheckStatus.WARNING, f"{evidence} UTC", remedy)


@check(BREAKERS)
def breakers_are_closed(context: CheckContext) -> Iterator[Finding]:
    """Does the breaker of any pool hold everybody back?"""
    for pool in _pools(context, BREAKERS):
        yield pool if isinstance(pool, Finding) else _breaker(pool)


def _breaker(pool: PoolStatus) -> Finding:
    overlay = pool.learned.overlay if pool.learned else None
    if overlay is None or overlay.breaker_state is Breaker.CLOSED:
        return Finding(BREAKERS, CheckStatus.OK, f"{pool.pool}: closed")
    until = breaker_until(overlay)
    evidence = f"{pool.pool}: {overlay.breaker_state.value}"
    if until is not None:
        evidence += f" until {until:%Y-%m-%d %H:%M:%S} UTC"
    remedy = f"Wait, or run: hostler governor reset --provider {pool.pool}"
    if overlay.breaker_reopen_count >= FLAPPING:
        evidence += f", flapping: opened again {overlay.breaker_reopen_count} times in a row"
        remedy = f"Look at the account's limits, `--hard-max` and `--break-sec`. {remedy}"
    return Finding(BREAKERS, CheckStatus.WARNING, evidence, remedy)


def _pools(context: CheckContext, name: str) -> Iterator[PoolStatus | Finding]:
    """Every pool, or why there is none to look at."""
    found = _look(context)
    if found is None:
        yield Finding(name, CheckStatus.SKIPPED, UNREADABLE)
    else:
        yield from found.pools


def _look(context: CheckContext) -> Governor | None:
    """The governor as it is; None where other checks say what is wrong."""
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
