"""What `hostler doctor` asks of the governor: who holds places, and which pools are closed."""

from __future__ import annotations

import os
from collections.abc import Iterator

from hostler.config import load
from hostler.errors import ConfigError, StoreError
from hostler.governor.holders import look_around
from hostler.governor.policy import read_policy
from hostler.governor.status import Status as Governor
from hostler.governor.status import status
from hostler.health import Context, Finding, Status, check

LEASES, POOLS = "governor.leases", "governor.pools"


@check(LEASES)
def leases_are_held(context: Context) -> Iterator[Finding]:
    """Does a living process hold each lease?"""
    found = _look(context)
    if found is None:
        yield Finding(LEASES, Status.SKIPPED, "settings or database cannot be read")
        return
    number = sum(len(pool.leases) for pool in found.pools)
    gone = f", {len(found.ended)} of the dead are given back at the next start"
    evidence = f"{number} lease(s){gone if found.ended else ''}"
    if not found.unseen:
        yield Finding(LEASES, Status.OK, evidence)
        return
    evidence += f"; whether the holders of {', '.join(sorted(found.unseen))} live is not known here"
    yield Finding(
        LEASES, Status.WARNING, evidence, "Look on their machines; they end with the TTL."
    )


@check(POOLS)
def pools_are_open(context: Context) -> Iterator[Finding]:
    """Is any pool closed by its provider's word, or over its cap?"""
    found = _look(context)
    if found is None:
        yield Finding(POOLS, Status.SKIPPED, "settings or database cannot be read")
        return
    for pool in found.pools:
        evidence = f"{pool.pool}: {pool.active} of {pool.cap} agents"
        if pool.parked is not None:
            until = f"closed until {pool.parked.until:%Y-%m-%d %H:%M} UTC"
            remedy = f"Wait, or run: hostler governor unpark --provider {pool.pool}"
            yield Finding(POOLS, Status.WARNING, f"{evidence}, {until}", remedy)
        elif pool.active > pool.cap:
            remedy = "Nothing starts there until enough have ended."
            yield Finding(POOLS, Status.WARNING, f"{evidence}, above its cap", remedy)
        else:
            yield Finding(POOLS, Status.OK, evidence)


def _look(context: Context) -> Governor | None:
    """The governor as it is; None where other checks say what is wrong."""
    from hostler.store import open_store
    from hostler.store.place import URL_VARIABLE

    try:
        settings = load(context.home, context.config_path).settings
        url = os.environ.get(URL_VARIABLE) or settings.runtime.database_url or None
        policy = read_policy(context.home, settings)
        store = open_store(context.home, url, clock=context.clock)
    except (ConfigError, StoreError):
        return None
    try:
        with store.read() as tx:
            return status(tx, policy, look_around())
    finally:
        store.close()
