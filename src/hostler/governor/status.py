"""The governor's state for people and programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from hostler.config.pools import DEFAULT_POOL
from hostler.governor.adaptive.controller import AdaptivePool, adaptive_pool, pool_load
from hostler.governor.adaptive.model import Breaker, PoolConfig, PoolState
from hostler.governor.gates import LeaseDenied, LeaseRequest, ParkedPool, decide, shares, turn_at
from hostler.governor.holders import HostView, PruneSurvey, silent_ends, survey
from hostler.governor.leases import closed_since, count_on_machine, demands_in, inputs_from
from hostler.governor.parking import age_of, closed
from hostler.governor.policy import Policy
from hostler.model import format_timestamp
from hostler.store import Transaction
from hostler.store.governor import Claim, Demand, Lease, Parked, all_overlays, parked_pools

if TYPE_CHECKING:
    pass


def status_json(found: Status) -> dict[str, Any]:
    """The whole governor."""
    return {
        "pools": [_pool(pool, found) for pool in found.pools],
        "machine": {"active": found.on_machine, "max_agents": found.machine_max_agents},
        "memory": {"free_mb": found.free_mb, "floor_mb": found.memory_floor_mb},
        "ended": [lease.lease for lease in found.ended],
    }


def breaker_until(overlay: PoolState) -> datetime | None:
    """When an open breaker lets somebody try; None while it is not open."""
    if overlay.breaker_state is not Breaker.OPEN or overlay.breaker_open_at is None:
        return None
    return overlay.breaker_open_at + timedelta(seconds=overlay.breaker_break_seconds)


def settles_until(known: AdaptivePool) -> datetime | None:
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


def _overlay(known: AdaptivePool) -> dict[str, Any]:
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


def _breaker(known: AdaptivePool) -> dict[str, Any]:
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
    return format_timestamp(moment) if moment else None


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """One pool: its cap, who runs, who wants more, what each may have, and why its next waits.

    `cap` is the one in force; `learned` is None where it is the operator's alone.
    """

    pool: str
    cap: int
    knobs: PoolConfig
    leases: tuple[Lease, ...]
    demand: tuple[Demand, ...]
    shares: Mapping[str, int]
    parked: ParkedPool | None
    waits: Mapping[str, LeaseDenied | None]
    learned: AdaptivePool | None = None

    @property
    def active(self) -> int:
        """Leases that count."""
        return sum(not lease.lent for lease in self.leases)

    @property
    def free(self) -> int:
        """Slots that nobody has."""
        return max(0, self.cap - self.active)

    def held_by(self, project: str) -> int:
        """How many leases of a project count."""
        return sum(one.project == project and not one.lent for one in self.leases)

    def wanted_by(self, project: str) -> int | None:
        """How many more a project would start; None: nobody knows."""
        wanted = [wish.wanted for wish in self.demand if wish.project == project]
        known = [number for number in wanted if number is not None]
        return sum(known) if len(known) == len(wanted) else None


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored of pools themselves."""

    parked: Mapping[str, Parked] = field(default_factory=dict)
    overlays: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Status:
    """The whole governor at one moment.

    `ended` are leases whose holders are dead, `stale` wishes that nobody stands behind any more.
    """

    now: datetime
    pools: tuple[PoolStatus, ...]
    on_machine: int
    machine_max_agents: int
    free_mb: int | None
    memory_floor_mb: int
    unseen: frozenset[str]
    ended: tuple[Lease, ...]
    stale: tuple[Demand, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return status_json(self)


def status(tx: Transaction, policy: Policy, here: HostView) -> Status:
    """All pools that are configured, used, wanted or known; the default one always."""
    stored = Stored({one.pool: one for one in parked_pools(tx)}, all_overlays(tx))
    return status_of(survey(tx, policy, here), stored, tx.now(), policy, here)


def status_of(
    found: PruneSurvey, stored: Stored, now: datetime, policy: Policy, here: HostView
) -> Status:
    """The same from what was found."""
    look = _Look(found, stored, now, policy, here)
    used = {lease.pool for lease in found.leases} | {wish.pool for wish in found.demand}
    shut = {pool for pool, one in stored.parked.items() if closed(one, now)}
    known = {pool for pool in stored.overlays if policy.is_adaptive(pool)}
    names = sorted({DEFAULT_POOL, *policy.caps, *policy.tuned, *used, *shut, *known})
    return Status(
        now=now,
        pools=tuple(look.pool(name) for name in names),
        on_machine=count_on_machine((one for one in found.leases if not one.lent), here),
        machine_max_agents=policy.machine_max_agents,
        free_mb=here.free_mb,
        memory_floor_mb=policy.memory_floor_mb,
        unseen=found.unseen,
        ended=found.ended,
        stale=tuple(wish for wish in found.ended_demand if wish.wanted != 0),
    )


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at everything, for one pool after another."""

    found: PruneSurvey
    stored: Stored
    now: datetime
    policy: Policy
    here: HostView

    def pool(self, name: str) -> PoolStatus:
        wanted = tuple(wish for wish in self.found.demand if wish.pool == name)
        claimed = [Claim(wish, *_held(wish, self.found)) for wish in wanted]
        leases = tuple(lease for lease in self.found.leases if lease.pool == name)
        known = self._learned(name, leases, waiting=bool(wanted))
        cap = known.cap if known else self.policy.cap(name)
        turn = turn_at(self.now.timestamp(), self.policy.rotation_window_seconds)
        dealt = shares(cap, demands_in(claimed).values(), turn)
        return PoolStatus(
            pool=name,
            cap=cap,
            knobs=self.policy.knobs(name),
            leases=leases,
            demand=wanted,
            shares=dealt,
            parked=closed(self.stored.parked.get(name), self.now),
            waits={project: self._no(name, project, wanted) for project in dealt},
            learned=known,
        )

    def _learned(self, pool: str, leases: Sequence[Lease], *, waiting: bool) -> AdaptivePool | None:
        if not self.policy.is_adaptive(pool):
            return None
        rows = [(one.project, one.task_id, one.lease) for one in leases]
        load = pool_load(sum(not one.lent for one in leases), rows, waiting=waiting)
        text, ended = self.stored.overlays.get(pool, ""), silent_ends(self.found, pool)
        return adaptive_pool(self.policy.knobs(pool), text, self.now, load, ended)

    def _no(self, pool: str, project: str, wanted: Iterable[Demand]) -> LeaseDenied | None:
        """What the next agent of a project would hear."""
        widths = [wish.width for wish in wanted if wish.project == project]
        ask = LeaseRequest("", project, pool, width=max(widths) if min(widths) > 0 else 0)
        parked, text = self.stored.parked.get(pool), self.stored.overlays.get(pool, "")
        scene = inputs_from(ask, self.policy, self.here, self.found, parked, text, self.now)
        denied = decide(ask, scene, self.policy)
        if denied is None:
            return None
        since = closed_since(denied, self.found.leases, self.here, self.now)
        return replace(denied, since=denied.since or since)


def _held(wish: Demand, found: PruneSurvey) -> tuple[int, int]:
    """How many leases a project has: in the pool of a wish, and in all."""
    own = [one for one in found.leases if one.project == wish.project and not one.lent]
    return sum(one.pool == wish.pool for one in own), len(own)
