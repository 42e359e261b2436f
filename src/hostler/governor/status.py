"""All pools as they are, for faces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from hostler.config import DEFAULT_POOL
from hostler.governor.gates import Closed
from hostler.governor.holders import Here
from hostler.governor.moments import age_of
from hostler.governor.parking import closed
from hostler.governor.policy import Policy
from hostler.governor.pruning import Survey, survey
from hostler.governor.scenes import count_on_machine, wishes_of
from hostler.governor.shares import shares, turn_at
from hostler.model import stamp
from hostler.store import Transaction
from hostler.store.demand import Claim, Demand
from hostler.store.leases import Lease
from hostler.store.parked import Parked, parked_pools


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """One pool: its cap, who runs, who wants more, and what each may have."""

    pool: str
    cap: int
    leases: tuple[Lease, ...]
    demand: tuple[Demand, ...]
    shares: Mapping[str, int]
    parked: Closed | None

    @property
    def active(self) -> int:
        """Leases that count."""
        return sum(not lease.lent for lease in self.leases)

    @property
    def free(self) -> int:
        """Slots that nobody has."""
        return max(0, self.cap - self.active)


@dataclass(frozen=True, slots=True)
class Status:
    """The whole governor at one moment. `ended` are leases whose holders are dead."""

    now: datetime
    pools: tuple[PoolStatus, ...]
    on_machine: int
    machine_max_agents: int
    free_mb: int | None
    memory_floor_mb: int
    unseen: frozenset[str]
    ended: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "pools": [self._pool(pool) for pool in self.pools],
            "machine": {"active": self.on_machine, "max_agents": self.machine_max_agents},
            "memory": {"free_mb": self.free_mb, "floor_mb": self.memory_floor_mb},
            "ended": list(self.ended),
        }

    def _pool(self, pool: PoolStatus) -> dict[str, Any]:
        parked = pool.parked
        return {
            "pool": pool.pool,
            "max_global_agents": pool.cap,
            "active": pool.active,
            "free": pool.free,
            "parked": parked and {"until": stamp(parked.until), "why": parked.why},
            "leases": [self._lease(lease) for lease in pool.leases],
            "demand": [asdict(wish) for wish in pool.demand],
            "shares": dict(pool.shares),
        }

    def _lease(self, lease: Lease) -> dict[str, Any]:
        age = age_of(lease.acquired_at, self.now).total_seconds()
        seen = lease.lease not in self.unseen
        return {**asdict(lease), "age_seconds": age, "verified": seen}


def status(tx: Transaction, policy: Policy, here: Here) -> Status:
    """All pools that are configured, used or wanted; the default one always."""
    return status_of(survey(tx, policy, here), parked_pools(tx), tx.now(), policy, here)


def status_of(
    found: Survey, stored: Iterable[Parked], now: datetime, policy: Policy, here: Here
) -> Status:
    """The same from what was found."""
    parked = {one.pool: shut for one in stored if (shut := closed(one, now))}
    used = {lease.pool for lease in found.leases} | {wish.pool for wish in found.demand}
    names = sorted({DEFAULT_POOL, *policy.caps, *used, *parked})
    return Status(
        now=now,
        pools=tuple(_pool(name, found, policy, parked.get(name), now) for name in names),
        on_machine=count_on_machine((one for one in found.leases if not one.lent), here),
        machine_max_agents=policy.machine_max_agents,
        free_mb=here.free_mb,
        memory_floor_mb=policy.memory_floor_mb,
        unseen=found.unseen,
        ended=tuple(lease.lease for lease in found.ended),
    )


def _pool(
    name: str, found: Survey, policy: Policy, parked: Closed | None, now: datetime
) -> PoolStatus:
    wanted = tuple(wish for wish in found.demand if wish.pool == name)
    claimed = [Claim(wish, *_held(wish, found)) for wish in wanted]
    turn = turn_at(now.timestamp(), policy.rotation_window_seconds)
    return PoolStatus(
        pool=name,
        cap=policy.cap(name),
        leases=tuple(lease for lease in found.leases if lease.pool == name),
        demand=wanted,
        shares=shares(policy.cap(name), wishes_of(claimed).values(), turn),
        parked=parked,
    )


def _held(wish: Demand, found: Survey) -> tuple[int, int]:
    """How many leases a project has: in the pool of a wish, and in all."""
    own = [one for one in found.leases if one.project == wish.project and not one.lent]
    return sum(one.pool == wish.pool for one in own), len(own)
