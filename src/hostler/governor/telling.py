"""All pools as they are, for programs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from hostler.governor.learned import Learned
from hostler.governor.moments import age_of
from hostler.governor.overlay import Breaker, Overlay
from hostler.model import stamp
from hostler.store.governor import Lease

if TYPE_CHECKING:
    from hostler.governor.status import PoolStatus, Status


def told(found: Status) -> dict[str, Any]:
    """The whole governor."""
    return {
        "pools": [_pool(pool, found) for pool in found.pools],
        "machine": {"active": found.on_machine, "max_agents": found.machine_max_agents},
        "memory": {"free_mb": found.free_mb, "floor_mb": found.memory_floor_mb},
        "ended": [lease.lease for lease in found.ended],
    }


def breaker_until(overlay: Overlay) -> datetime | None:
    """When an open breaker lets somebody try; None while it is not open."""
    if overlay.breaker_state is not Breaker.OPEN or overlay.breaker_open_at is None:
        return None
    return overlay.breaker_open_at + timedelta(seconds=overlay.breaker_break_seconds)


def settles_until(known: Learned) -> datetime | None:
    """Until when the last change of a cap settles; None: it has."""
    until = known.overlay.settle_until
    return until if until is not None and until > known.now else None


def _pool(pool: PoolStatus, found: Status) -> dict[str, Any]:
    parked = pool.parked
    return {
        "pool": pool.pool,
        "max_global_agents": pool.knobs.max_global,
        "cap": pool.cap,
        "active": pool.active,
        "free": pool.free,
        "adaptive": pool.knobs.adaptive,
        "policy": pool.knobs.policy,
        "overlay": _overlay(pool.learned) if pool.learned else None,
        "parked": parked and {"until": _moment(parked.ends_at), "why": parked.why},
        "leases": [_lease(lease, found) for lease in pool.leases],
        "demand": [asdict(wish) for wish in pool.demand],
        "shares": dict(pool.shares),
        "projects": [_project(project, pool) for project in pool.shares],
    }


def _project(project: str, pool: PoolStatus) -> dict[str, Any]:
    no = pool.waits.get(project)
    return {
        "project": project,
        "holds": pool.held_by(project),
        "wants": pool.wanted_by(project),
        "share": pool.shares[project],
        "waits": no.as_json() if no else None,
    }


def _overlay(known: Learned) -> dict[str, Any]:
    overlay, knobs = known.overlay, known.knobs
    return {
        "dynamic_cap": known.cap,
        "hard_max": knobs.hard_max,
        "settle_seconds": knobs.settle_seconds,
        "settle_until": _moment(settles_until(known)),
        "last_decrease_at": _moment(overlay.last_decrease_at),
        "last_rate_limit_at": _moment(overlay.last_rate_limit_at),
        "rate_limit_events": overlay.rate_limit_events,
        "breaker": _breaker(known),
        "min_dispatch_interval_seconds": knobs.min_dispatch_interval_seconds,
        "next_dispatch_at": _moment(overlay.next_dispatch_at),
        "gate_until": _moment(overlay.gate_until),
        "damaged_at": _moment(overlay.damaged_at),
    }


def _breaker(known: Learned) -> dict[str, Any]:
    overlay = known.overlay
    probe = overlay.probe
    return {
        "state": overlay.breaker_state.value or "closed",
        "open_at": _moment(overlay.breaker_open_at),
        "open_until": _moment(breaker_until(overlay)),
        "break_seconds": overlay.breaker_break_seconds or known.knobs.break_seconds,
        "reopen_count": overlay.breaker_reopen_count,
        "probe": probe and {**asdict(probe), "admitted_at": _moment(overlay.probe_admitted_at)},
    }


def _lease(lease: Lease, found: Status) -> dict[str, Any]:
    age = age_of(lease.acquired_at, found.now).total_seconds()
    return {**asdict(lease), "age_seconds": age, "verified": lease.lease not in found.unseen}


def _moment(moment: datetime | None) -> str | None:
    return stamp(moment) if moment else None
