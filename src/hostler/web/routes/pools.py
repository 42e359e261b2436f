"""Pools of the governor: as they are, and what an operator says of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from fastapi import APIRouter

from hostler.errors import ConfigError
from hostler.governor import pool_key, read_policy, status
from hostler.model import parse_stamp
from hostler.service.directing import one_line
from hostler.service.pool_caps import StoredPools, change_pool, set_pool
from hostler.web.desk import At, Desk
from hostler.web.refusals import NotHere, Unusable
from hostler.web.shapes import Caps, Closing, Object, PoolName, SomeCaps

router = APIRouter(prefix="/pools", tags=["pools"])


@router.get("")
def show_all(desk: At) -> Object:
    """All pools, the machine and its memory."""
    return _status(desk)


@router.get("/{pool}")
def show(desk: At, pool: PoolName) -> Object:
    """One pool."""
    return _one(desk, pool)


@router.put("/{pool}")
def set_anew(desk: At, pool: PoolName, caps: Caps) -> Object:
    """Set it anew: what is not said goes back to its default. Agents at work go on."""
    return _written(desk, pool, caps, set_pool)


@router.patch("/{pool}")
def change(desk: At, pool: PoolName, caps: SomeCaps) -> Object:
    """Change some of it: what is not said stays. Agents at work go on."""
    _one(desk, pool)  # a name that nobody knows is a slip of the pen
    return _written(desk, pool, caps, change_pool)


@router.post("/{pool}/reset")
def reset(desk: At, pool: PoolName) -> Object:
    """Forget what was learned of it."""
    return {"pool": pool_key(pool), "was_known": _pools(desk).reset(pool)}


@router.post("/{pool}/park")
def park(desk: At, pool: PoolName, closing: Closing) -> Object:
    """Close it for a while, or until it is resumed; agents at work go on."""
    why = one_line(closing.why.replace("\0", " ")) or f"closed by {desk.by}"
    _pools(desk).park(pool, _term(closing, desk.clock.now()), why)
    return _one(desk, pool)


@router.post("/{pool}/resume")
def resume(desk: At, pool: PoolName) -> Object:
    """Open it."""
    return {"pool": pool_key(pool), "was_parked": _pools(desk).resume(pool)}


def _pools(desk: Desk) -> StoredPools:
    return StoredPools(desk.home, desk.settings, desk.store)


def _term(closing: Closing, now: datetime) -> datetime | timedelta | None:
    """For how long or until when; None: until it is resumed."""
    if closing.minutes and closing.until:
        raise Unusable("`minutes` and `until` say different things.", "Say one of them.")
    if closing.minutes:
        return timedelta(minutes=closing.minutes)
    if not closing.until:
        return None
    try:
        moment = parse_stamp(closing.until)
    except (ValueError, OverflowError):
        raise Unusable("`until` is no moment.", "Write it like 2026-05-01T12:00Z.") from None
    if moment <= now:
        raise Unusable("`until` is over already.", "Say a moment that is to come.")
    return moment


def _written(desk: Desk, pool: str, caps: Caps, write: Callable[..., None]) -> Object:
    read_policy(desk.home, desk.settings)  # a file that is damaged already is no fault of theirs
    try:
        write(desk.home, desk.settings, desk.store, pool, caps.model_dump(exclude_unset=True))
    except ConfigError as error:
        said = " ".join(problem.sentence() for problem in error.problems)
        raise Unusable(said, "Nothing of it was written.") from error
    return _one(desk, pool)


def _status(desk: Desk) -> Object:
    inquiry = desk.lookout.inquiry()
    with desk.store.read() as tx:
        return status(tx, inquiry.policy, inquiry.here).as_json()


def _one(desk: Desk, pool: str) -> Object:
    found: list[Object] = _status(desk)["pools"]
    for one in found:
        if one["pool"] == pool_key(pool):
            return one
    raise NotHere(f"There is no pool {pool!r}.", "Nobody set its cap, uses it or wants it.")
