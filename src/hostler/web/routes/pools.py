"""Routes for the governor's pools and their history."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query

from hostler.errors import ConfigError
from hostler.governor.policy import pool_key, read_policy
from hostler.governor.status import status
from hostler.model import format_timestamp, parse_timestamp
from hostler.service.pool_admin import LocalPoolControl, change_pool, set_pool
from hostler.service.tasks.control import to_one_line
from hostler.store.governor import met_since, samples_since
from hostler.web.context import ContextDep, WebContext
from hostler.web.errors import InvalidValue, ResourceNotFound
from hostler.web.schemas import Object, ParkPoolBody, PoolCapsBody, PoolCapsPatchBody, PoolName

router = APIRouter(prefix="/pools", tags=["pools"])


@router.get("")
def show_all(context: ContextDep) -> Object:
    """Return all pools, and the machine's agents and memory."""
    return _read_status(context)


@router.get("/{pool}")
def show(context: ContextDep, pool: PoolName) -> Object:
    """Return one pool."""
    return _find_pool_status(context, pool)


@router.put("/{pool}")
def replace(context: ContextDep, pool: PoolName, caps: PoolCapsBody) -> Object:
    """Replace the settings of a pool; missing ones become defaults. Running agents continue."""
    return _write_caps(context, pool, caps, set_pool)


@router.patch("/{pool}")
def change(context: ContextDep, pool: PoolName, caps: PoolCapsPatchBody) -> Object:
    """Change some settings of a pool. Running agents continue."""
    _find_pool_status(context, pool)  # refuse unknown names, which are probably misspelt
    return _write_caps(context, pool, caps, change_pool)


@router.post("/{pool}/reset")
def reset(context: ContextDep, pool: PoolName) -> Object:
    """Reset the adaptive state of a pool."""
    return {"pool": pool_key(pool), "was_reset": _build_pools(context).reset(pool)}


@router.post("/{pool}/park")
def park(context: ContextDep, pool: PoolName, body: ParkPoolBody) -> Object:
    """Park a pool for a time or until it is resumed. Running agents continue."""
    why = to_one_line(body.why.replace("\0", " ")) or f"parked by {context.by}"
    _build_pools(context).park(pool, _parse_end(body, context.clock.now()), why)
    return _find_pool_status(context, pool)


@router.post("/{pool}/resume")
def resume(context: ContextDep, pool: PoolName) -> Object:
    """Resume a parked pool."""
    return {"pool": pool_key(pool), "was_parked": _build_pools(context).resume(pool)}


def _build_pools(context: WebContext) -> LocalPoolControl:
    return LocalPoolControl(context.home, context.settings, context.store)


def _parse_end(body: ParkPoolBody, now: datetime) -> datetime | timedelta | None:
    """Return the duration or end of a park; None means until resumed."""
    if body.minutes and body.until:
        raise InvalidValue("Both `minutes` and `until` are set.", "Set only one of them.")
    if body.minutes:
        return timedelta(minutes=body.minutes)
    if not body.until:
        return None
    try:
        end = parse_timestamp(body.until)
    except (ValueError, OverflowError):
        raise InvalidValue(
            "`until` is not a valid time.", "Use the form 2026-05-01T12:00Z."
        ) from None
    if end <= now:
        raise InvalidValue("`until` is in the past.", "Use a time in the future.")
    return end


def _write_caps(
    context: WebContext, pool: str, caps: PoolCapsBody, write: Callable[..., None]
) -> Object:
    # Raise for a file that is already damaged, which is not the caller's error.
    read_policy(context.home, context.settings)
    try:
        write(
            context.home, context.settings, context.store, pool, caps.model_dump(exclude_unset=True)
        )
    except ConfigError as error:
        message = " ".join(problem.sentence() for problem in error.problems)
        raise InvalidValue(message, "Correct the value and try again.") from error
    return _find_pool_status(context, pool)


def _read_status(context: WebContext) -> Object:
    inputs = context.snapshots.read_inputs()
    with context.store.read() as tx:
        return status(tx, inputs.policy, inputs.host).as_json()


def _find_pool_status(context: WebContext, pool: str) -> Object:
    found: list[Object] = _read_status(context)["pools"]
    for one in found:
        if one["pool"] == pool_key(pool):
            return one
    raise ResourceNotFound(
        f"There is no pool {pool!r}.",
        "A pool exists once its cap is set, or a task or agent uses it.",
    )


history_router = APIRouter(tags=["pools"])
Hours = Annotated[int, Query(ge=1, le=24)]
# Maximum number of rate limits returned, newest first.
_MAX_LIMITS = 1000


@history_router.get("/pool-history")
def pool_history(context: ContextDep, hours: Hours = 24) -> Object:
    """Return the recorded samples of each pool, and the rate limits that its agents hit."""
    with context.store.read() as tx:
        now, since = tx.stamp(), format_timestamp(tx.now() - timedelta(hours=hours))
        samples, limits = samples_since(tx, since), met_since(tx, since, _MAX_LIMITS)
    pools: dict[str, dict[str, list[Any]]] = {}
    for sample in samples:
        _pool_entry(pools, sample.pool)["samples"].append(sample.as_json())
    for met in limits:
        limit = {"at": met.at, "count": met.times, "reason": met.reason}
        _pool_entry(pools, met.pool)["limits"].append(limit)
    return {"since": since, "now": now, "pools": pools}


def _pool_entry(pools: dict[str, dict[str, list[Any]]], name: str) -> dict[str, list[Any]]:
    return pools.setdefault(name, {"samples": [], "limits": []})
