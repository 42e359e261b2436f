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
from hostler.web.errors import NotHere, Unusable
from hostler.web.schemas import Caps, Closing, Object, PoolName, SomeCaps

router = APIRouter(prefix="/pools", tags=["pools"])


@router.get("")
def show_all(context: ContextDep) -> Object:
    """All pools, the machine and its memory."""
    return _read_status(context)


@router.get("/{pool}")
def show(context: ContextDep, pool: PoolName) -> Object:
    """One pool."""
    return _find_pool_status(context, pool)


@router.put("/{pool}")
def set_anew(context: ContextDep, pool: PoolName, caps: Caps) -> Object:
    """Set it anew: what is not said goes back to its default. Agents at work go on."""
    return _write_caps(context, pool, caps, set_pool)


@router.patch("/{pool}")
def change(context: ContextDep, pool: PoolName, caps: SomeCaps) -> Object:
    """Change some of it: what is not said stays. Agents at work go on."""
    _find_pool_status(context, pool)  # a name that nobody knows is a slip of the pen
    return _write_caps(context, pool, caps, change_pool)


@router.post("/{pool}/reset")
def reset(context: ContextDep, pool: PoolName) -> Object:
    """Forget what was learned of it."""
    return {"pool": pool_key(pool), "was_known": _build_pools(context).reset(pool)}


@router.post("/{pool}/park")
def park(context: ContextDep, pool: PoolName, closing: Closing) -> Object:
    """Close it for a while, or until it is resumed; agents at work go on."""
    why = to_one_line(closing.why.replace("\0", " ")) or f"closed by {context.by}"
    _build_pools(context).park(pool, _parse_term(closing, context.clock.now()), why)
    return _find_pool_status(context, pool)


@router.post("/{pool}/resume")
def resume(context: ContextDep, pool: PoolName) -> Object:
    """Open it."""
    return {"pool": pool_key(pool), "was_parked": _build_pools(context).resume(pool)}


def _build_pools(context: WebContext) -> LocalPoolControl:
    return LocalPoolControl(context.home, context.settings, context.store)


def _parse_term(closing: Closing, now: datetime) -> datetime | timedelta | None:
    """For how long or until when; None: until it is resumed."""
    if closing.minutes and closing.until:
        raise Unusable("`minutes` and `until` say different things.", "Say one of them.")
    if closing.minutes:
        return timedelta(minutes=closing.minutes)
    if not closing.until:
        return None
    try:
        moment = parse_timestamp(closing.until)
    except (ValueError, OverflowError):
        raise Unusable("`until` is no moment.", "Write it like 2026-05-01T12:00Z.") from None
    if moment <= now:
        raise Unusable("`until` is over already.", "Say a moment that is to come.")
    return moment


def _write_caps(context: WebContext, pool: str, caps: Caps, write: Callable[..., None]) -> Object:
    read_policy(
        context.home, context.settings
    )  # a file that is damaged already is no fault of theirs
    try:
        write(
            context.home, context.settings, context.store, pool, caps.model_dump(exclude_unset=True)
        )
    except ConfigError as error:
        said = " ".join(problem.sentence() for problem in error.problems)
        raise Unusable(said, "Nothing of it was written.") from error
    return _find_pool_status(context, pool)


def _read_status(context: WebContext) -> Object:
    inquiry = context.lookout.inquiry()
    with context.store.read() as tx:
        return status(tx, inquiry.policy, inquiry.here).as_json()


def _find_pool_status(context: WebContext, pool: str) -> Object:
    found: list[Object] = _read_status(context)["pools"]
    for one in found:
        if one["pool"] == pool_key(pool):
            return one
    raise NotHere(f"There is no pool {pool!r}.", "Nobody set its cap, uses it or wants it.")


history_router = APIRouter(tags=["pools"])
Hours = Annotated[int, Query(ge=1, le=24)]
# Of limits that were met, so many of the newest.
MAX_LIMITS = 1000


@history_router.get("/pool-history")
def pool_history(context: ContextDep, hours: Hours = 24) -> Object:
    """Each pool as it was, when it changed and now and then; and limits that its agents met."""
    with context.store.read() as tx:
        now, since = tx.stamp(), format_timestamp(tx.now() - timedelta(hours=hours))
        samples, limits = samples_since(tx, since), met_since(tx, since, MAX_LIMITS)
    pools: dict[str, dict[str, list[Any]]] = {}
    for sample in samples:
        _pool_entry(pools, sample.pool)["samples"].append(sample.as_json())
    for met in limits:
        told = {"at": met.at, "count": met.times, "reason": met.reason}
        _pool_entry(pools, met.pool)["limits"].append(told)
    return {"since": since, "now": now, "pools": pools}


def _pool_entry(pools: dict[str, dict[str, list[Any]]], name: str) -> dict[str, list[Any]]:
    return pools.setdefault(name, {"samples": [], "limits": []})
