"""What the service has noted of itself: pools over time."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query

from hostler.model import stamp
from hostler.store.governor import met_since, samples_since
from hostler.web.desk import At
from hostler.web.shapes import Object

router = APIRouter(tags=["pools"])
Hours = Annotated[int, Query(ge=1, le=24)]
# Of limits that were met, so many of the newest.
MOST_LIMITS = 1000


@router.get("/pool-history")
def pool_history(desk: At, hours: Hours = 24) -> Object:
    """Each pool as it was, when it changed and now and then; and limits that its agents met."""
    with desk.store.read() as tx:
        now, since = tx.stamp(), stamp(tx.now() - timedelta(hours=hours))
        samples, limits = samples_since(tx, since), met_since(tx, since, MOST_LIMITS)
    pools: dict[str, dict[str, list[Any]]] = {}
    for sample in samples:
        _of(pools, sample.pool)["samples"].append(sample.as_json())
    for met in limits:
        told = {"at": met.at, "count": met.times, "reason": met.reason}
        _of(pools, met.pool)["limits"].append(told)
    return {"since": since, "now": now, "pools": pools}


def _of(pools: dict[str, dict[str, list[Any]]], name: str) -> dict[str, list[Any]]:
    return pools.setdefault(name, {"samples": [], "limits": []})
