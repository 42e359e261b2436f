"""The governor's status, for display and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from hostler.config.pools import DEFAULT_POOL
from hostler.governor.adaptive.controller import AdaptivePool, adaptive_pool, make_pool_load
from hostler.governor.adaptive.model import BreakerState, PoolConfig, PoolState
from hostler.governor.gates import LeaseDenied, LeaseRequest, ParkedPool, decide, shares, turn_at
from hostler.governor.holders import HostView, PrunePlan, plan_prune, unreported_ends
from hostler.governor.leases import closed_since, count_on_machine, demand_by_project, inputs_from
from hostler.governor.parking import active_parking, age_of
from hostler.governor.policy import Policy
from hostler.model import format_timestamp
from hostler.store import Transaction
from hostler.store.governor import Claim, Demand, Lease, Parked, all_pool_states, parked_pools


def status_json(found: GovernorStatus) -> dict[str, Any]:
    """Return the whole status for JSON output."""
    return {
        "pools": [_pool_json(pool, found) for pool in found.pools],
        "machine": {"active": found.on_machine, "max_agents": found.machine_max_agents},
        "memory": {"free_mb": found.free_mb, "floor_mb": found.memory_floor_mb},
        "ended": [lease.lease for lease in found.ended],
    }


def breaker_until(state: PoolState) -> datetime | None:
    """Return when an open breaker allows a probe; None while it is not open."""
    if state.breaker_state is not BreakerState.OPEN or state.breaker_open_at is None:
        return None
    return state.breaker_open_at + timedelta(seconds=state.breaker_break_seconds)


def settles_until(known: AdaptivePool) -> datetime | None:
    """Return the end of the settle window; None if it has passed."""
    until = known.state.settle_until
    return until if until is not None and until > known.now else None


def _pool_json(pool: PoolStatus, found: GovernorStatus) -> dict[str, Any]:
    parked = pool.parked
    return {
        "pool": pool.pool,
        "max_global_agents": pool.config.max_global,
        "cap": pool.cap,
        "active": pool.active,
        "free": pool.free,
        "adaptive": pool.config.adaptive,
        "policy": pool.config.policy,
        "overlay": _adaptive_json(pool.learned) if pool.learned else None,
        "parked": parked and {"until": _format_time(parked.ends_at), "why": parked.why},
        "leases": [_lease_json(lease, found) for lease in pool.leases],
        "demand": [asdict(demand) for demand in pool.demands],
        "shares": dict(pool.shares),
        "projects": [_project_json(project, pool) for project in pool.shares],
    }


def _project_json(project: str, pool: PoolStatus) -> dict[str, Any]:
    denied = pool.denials.get(project)
    return {
        "project": project,
        "holds": pool.held_by(project),
        "wants": pool.wanted_by(project),
        "share": pool.shares[project],
        "waits": denied.as_json() if denied else None,
    }


def _adaptive_json(known: AdaptivePool) -> dict[str, Any]:
    state, config = known.state, known.config
    return {
        "dynamic_cap": known.cap,
        "hard_max": config.hard_max,
        "settle_seconds": config.settle_seconds,
        "settle_until": _format_time(settles_until(known)),
        "last_decrease_at": _format_time(state.last_decrease_at),
        "last_rate_limit_at": _format_time(state.last_rate_limit_at),
        "rate_limit_events": state.rate_limit_events,
        "breaker": _breaker_json(known),
        "min_dispatch_interval_seconds": config.min_dispatch_interval_seconds,
        "next_dispatch_at": _format_time(state.next_dispatch_at),
        "gate_until": _format_time(state.gate_until),
        "damaged_at": _format_time(state.damaged_at),
    }


def _breaker_json(known: AdaptivePool) -> dict[str, Any]:
    state = known.state
    probe = state.probe
    return {
        "state": state.breaker_state.value or "closed",
        "open_at": _format_time(state.breaker_open_at),
        "open_until": _format_time(breaker_until(state)),
        "break_seconds": state.breaker_break_seconds or known.config.break_seconds,
        "reopen_count": state.breaker_reopen_count,
        "probe": probe and {**asdict(probe), "admitted_at": _format_time(state.probe_admitted_at)},
    }


def _lease_json(lease: Lease, found: GovernorStatus) -> dict[str, Any]:
    age = age_of(lease.acquired_at, found.now).total_seconds()
    return {**asdict(lease), "age_seconds": age, "verified": lease.lease not in found.unverified}


def _format_time(time: datetime | None) -> str | None:
    return format_timestamp(time) if time else None


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """One pool: its cap, leases, demand and shares, and why each project's next agent waits.

    `cap` is the one in force; `learned` is None for a fixed cap.
    """

    pool: str
    cap: int
    config: PoolConfig
    leases: tuple[Lease, ...]
    demands: tuple[Demand, ...]
    shares: Mapping[str, int]
    parked: ParkedPool | None
    denials: Mapping[str, LeaseDenied | None]
    learned: AdaptivePool | None = None

    @property
    def active(self) -> int:
        """Return the number of leases that count."""
        return sum(not lease.released for lease in self.leases)

    @property
    def free(self) -> int:
        """Return the number of free slots."""
        return max(0, self.cap - self.active)

    def held_by(self, project: str) -> int:
        """Return how many leases of a project count."""
        return sum(one.project == project and not one.released for one in self.leases)

    def wanted_by(self, project: str) -> int | None:
        """Return how many more agents a project would start; None if unknown."""
        wanted = [demand.wanted for demand in self.demands if demand.project == project]
        known = [number for number in wanted if number is not None]
        return sum(known) if len(known) == len(wanted) else None


@dataclass(frozen=True, slots=True)
class StoredPools:
    """The stored rows of the pools themselves."""

    parked: Mapping[str, Parked] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GovernorStatus:
    """The whole governor at one time.

    `ended` are leases whose holders are dead, `stale` is demand that was not renewed.
    """

    now: datetime
    pools: tuple[PoolStatus, ...]
    on_machine: int
    machine_max_agents: int
    free_mb: int | None
    memory_floor_mb: int
    unverified: frozenset[str]
    ended: tuple[Lease, ...]
    stale: tuple[Demand, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the status for JSON output."""
        return status_json(self)


def status(tx: Transaction, policy: Policy, host: HostView) -> GovernorStatus:
    """Return all pools that are configured, used, wanted or known; the default one always."""
    stored = StoredPools({one.pool: one for one in parked_pools(tx)}, all_pool_states(tx))
    return status_of(plan_prune(tx, policy, host), stored, tx.now(), policy, host)


def status_of(
    found: PrunePlan, stored: StoredPools, now: datetime, policy: Policy, host: HostView
) -> GovernorStatus:
    """Build the status from rows that were already read."""
    builder = _PoolStatusBuilder(found, stored, now, policy, host)
    used = {lease.pool for lease in found.leases} | {demand.pool for demand in found.demands}
    parked = {pool for pool, one in stored.parked.items() if active_parking(one, now)}
    known = {pool for pool in stored.states if policy.is_adaptive(pool)}
    names = sorted({DEFAULT_POOL, *policy.caps, *policy.tuned, *used, *parked, *known})
    return GovernorStatus(
        now=now,
        pools=tuple(builder.pool(name) for name in names),
        on_machine=count_on_machine((one for one in found.leases if not one.released), host),
        machine_max_agents=policy.machine_max_agents,
        free_mb=host.free_mb,
        memory_floor_mb=policy.memory_floor_mb,
        unverified=found.unverified,
        ended=found.ended,
        stale=tuple(demand for demand in found.ended_demands if demand.wanted != 0),
    )


@dataclass(frozen=True, slots=True)
class _PoolStatusBuilder:
    """What every pool's status is built from."""

    found: PrunePlan
    stored: StoredPools
    now: datetime
    policy: Policy
    host: HostView

    def pool(self, name: str) -> PoolStatus:
        wanted = tuple(demand for demand in self.found.demands if demand.pool == name)
        claimed = [Claim(demand, *_lease_counts(demand, self.found)) for demand in wanted]
        leases = tuple(lease for lease in self.found.leases if lease.pool == name)
        known = self._learned(name, leases, waiting=bool(wanted))
        cap = known.cap if known else self.policy.cap(name)
        turn = turn_at(self.now.timestamp(), self.policy.rotation_window_seconds)
        dealt = shares(cap, demand_by_project(claimed).values(), turn)
        return PoolStatus(
            pool=name,
            cap=cap,
            config=self.policy.pool_config(name),
            leases=leases,
            demands=wanted,
            shares=dealt,
            parked=active_parking(self.stored.parked.get(name), self.now),
            denials={project: self._denial(name, project, wanted) for project in dealt},
            learned=known,
        )

    def _learned(self, pool: str, leases: Sequence[Lease], *, waiting: bool) -> AdaptivePool | None:
        if not self.policy.is_adaptive(pool):
            return None
        rows = [(one.project, one.task_id, one.lease) for one in leases]
        load = make_pool_load(sum(not one.released for one in leases), rows, waiting=waiting)
        text, ended = self.stored.states.get(pool, ""), unreported_ends(self.found, pool)
        return adaptive_pool(self.policy.pool_config(pool), text, self.now, load, ended)

    def _denial(self, pool: str, project: str, wanted: Iterable[Demand]) -> LeaseDenied | None:
        """Return why the next agent of a project would be denied, or None."""
        widths = [demand.width for demand in wanted if demand.project == project]
        request = LeaseRequest("", project, pool, width=max(widths) if min(widths) > 0 else 0)
        parked, text = self.stored.parked.get(pool), self.stored.states.get(pool, "")
        inputs = inputs_from(request, self.policy, self.host, self.found, parked, text, self.now)
        denied = decide(request, inputs, self.policy)
        if denied is None:
            return None
        since = closed_since(denied, self.found.leases, self.host, self.now)
        return replace(denied, since=denied.since or since)


def _lease_counts(demand: Demand, found: PrunePlan) -> tuple[int, int]:
    """Return how many leases a project has: in the pool of the demand, and in all."""
    own = [one for one in found.leases if one.project == demand.project and not one.released]
    return sum(one.pool == demand.pool for one in own), len(own)
