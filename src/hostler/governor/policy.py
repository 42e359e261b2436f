"""The operator's limits, and the pool that each agent belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hostler.config.agent_kinds import AGENT_KINDS
from hostler.config.pools import DEFAULT_POOL, POOLS_FILE_NAME, PoolCaps, load_pools
from hostler.config.settings import Agent, Runtime, Settings
from hostler.errors import HostlerError
from hostler.governor.adaptive.model import PoolConfig

# A pool without an entry in governor.json. A hard_max of 0 means twice the cap.
UNSET = PoolConfig(hard_max=0)


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits in force. `caps` and `tuned` hold only what `governor.json` says."""

    caps: Mapping[str, int] = field(default_factory=dict)
    tuned: Mapping[str, PoolConfig] = field(default_factory=dict)
    default_cap: int = 8
    machine_max_agents: int = 0
    memory_floor_mb: int = 1024
    demand_ttl_seconds: int = 600
    rotation_window_seconds: int = 60
    unattached_lease_ttl_seconds: int = 300

    def cap(self, pool: str) -> int:
        """Return the operator's cap of a pool. An account without its own has its provider's."""
        provider = self.caps.get(provider_of(pool), self.default_cap)
        return self.caps.get(pool, provider)

    def pool_config(self, pool: str) -> PoolConfig:
        """Return the operator's settings of a pool; those of its provider if it has none."""
        own = self.tuned.get(pool) or self.tuned.get(provider_of(pool), UNSET)
        cap = self.cap(pool)
        return replace(own, max_global=cap, hard_max=own.hard_max or 2 * cap)

    def inheriting_pools(self, provider: str, pools: Iterable[str]) -> list[str]:
        """Return the accounts of a provider among the pools that inherit its cap, sorted."""
        return sorted(
            pool
            for pool in pools
            if pool != provider and provider_of(pool) == provider and pool not in self.caps
        )

    def is_adaptive(self, pool: str) -> bool:
        """Return True if the cap of a pool is adaptive."""
        return (self.tuned.get(pool) or self.tuned.get(provider_of(pool), UNSET)).adaptive

    @property
    def is_any_adaptive(self) -> bool:
        """Return True if the cap of any pool is adaptive."""
        return any(config.adaptive for config in self.tuned.values())


def make_policy(runtime: Runtime, pools: Mapping[str, PoolCaps]) -> Policy:
    """Combine the settings and `governor.json` into a policy."""
    named = {name: pool.max_global_agents for name, pool in pools.items()}
    return Policy(
        caps={name: cap for name, cap in named.items() if cap > 0},
        tuned={name: _config_from_caps(pool) for name, pool in pools.items()},
        default_cap=runtime.max_global_agents,
        machine_max_agents=runtime.machine_max_agents,
        memory_floor_mb=runtime.memory_floor_mb,
        demand_ttl_seconds=runtime.demand_ttl_seconds,
        rotation_window_seconds=runtime.rotation_window_seconds,
        unattached_lease_ttl_seconds=runtime.unattached_lease_ttl_seconds,
    )


def _config_from_caps(pool: PoolCaps) -> PoolConfig:
    """Return one entry of `governor.json` as a PoolConfig; a missing value is 0."""
    return PoolConfig(
        max_global=pool.max_global_agents,
        adaptive=pool.adaptive,
        policy=pool.policy,
        hard_max=pool.hard_max,
        settle_seconds=pool.settle_seconds,
        break_seconds=pool.break_seconds,
        min_dispatch_interval_seconds=pool.min_dispatch_interval_seconds,
    )


def read_policy(home: Path, settings: Settings) -> Policy:
    """Read the limits now in force. A damaged file is an error, never a wider cap."""
    return make_policy(settings.runtime, load_pools(home / POOLS_FILE_NAME))


MAX_NAME_LENGTH = 200


def pool_key(name: str) -> str:
    """Return a pool's name as it is stored: never empty."""
    return name.strip() or DEFAULT_POOL


def require_pool_name(what: str, name: str) -> str:
    """Return the name of a pool or project that a user typed, or raise HostlerError."""
    if len(name) <= MAX_NAME_LENGTH and name.isprintable() and " " not in name.strip():
        return name.strip()
    refused = HostlerError(
        f"{name[:MAX_NAME_LENGTH]!r} is not a valid {what} name.",
        safe="Nothing was changed.",
        remedy=f"Use at most {MAX_NAME_LENGTH} printable characters without spaces.",
    )
    refused.exit_code = 2
    raise refused


def provider_of(pool: str) -> str:
    """Return the provider's part of `provider:account`."""
    return pool.partition(":")[0]


def pool_of(agent: Agent) -> str:
    """Return the pool of a configured agent."""
    if agent.pool.strip():
        return pool_key(agent.pool)
    kind = AGENT_KINDS[agent.kind]
    if kind.has_provider_in_model and "/" in agent.model:
        return pool_key(agent.model.partition("/")[0])
    return kind.provider or DEFAULT_POOL
