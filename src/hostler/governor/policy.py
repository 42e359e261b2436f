"""What the operator allows: caps, ceilings and times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hostler.config import PoolCaps, Settings, load_pools
from hostler.config.pools import FILE_NAME
from hostler.config.settings import Runtime
from hostler.governor.pools import provider_of


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits in force. `caps` holds those of `governor.json` alone."""

    caps: Mapping[str, int] = field(default_factory=dict)
    default_cap: int = 8
    machine_max_agents: int = 0
    memory_floor_mb: int = 1024
    demand_ttl_seconds: int = 600
    rotation_window_seconds: int = 60
    unattached_lease_ttl_seconds: int = 300

    def cap(self, pool: str) -> int:
        """How many agents a pool takes. An account without a cap has its provider's."""
        provider = self.caps.get(provider_of(pool), self.default_cap)
        return self.caps.get(pool, provider)


def policy_of(runtime: Runtime, pools: Mapping[str, PoolCaps]) -> Policy:
    """The limits that both files of the operator say."""
    named = {name: pool.max_global_agents for name, pool in pools.items()}
    return Policy(
        caps={name: cap for name, cap in named.items() if cap > 0},
        default_cap=runtime.max_global_agents,
        machine_max_agents=runtime.machine_max_agents,
        memory_floor_mb=runtime.memory_floor_mb,
        demand_ttl_seconds=runtime.demand_ttl_seconds,
        rotation_window_seconds=runtime.rotation_window_seconds,
        unattached_lease_ttl_seconds=runtime.unattached_lease_ttl_seconds,
    )


def read_policy(home: Path, settings: Settings) -> Policy:
    """The limits as they are now; a damaged file is an error, never a wider cap."""
    return policy_of(settings.runtime, load_pools(home / FILE_NAME))
