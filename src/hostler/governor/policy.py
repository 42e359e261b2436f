"""Limits of the governor, and the pool that each agent belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hostler.config.agent_kinds import AGENT_KINDS
from hostler.config.pools import DEFAULT_POOL, POOLS_FILE_NAME, PoolCaps, load_pools
from hostler.config.settings import Agent, Runtime, Settings
from hostler.errors import HostlerError
from hostler.governor.adaptive.model import PoolConfig

# A pool of which the operator's file says nothing. A hard max of 0 is twice the cap.
UNSET = PoolConfig(hard_max=0)


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits in force. `caps` and `tuned` hold what `governor.json` says alone."""

    caps: Mapping[str, int] = field(default_factory=dict)
    tuned: Mapping[str, PoolConfig] = field(default_factory=dict)
    default_cap: int = 8
    machine_max_agents: int = 0
    memory_floor_mb: int = 1024
    demand_ttl_seconds: int = 600
    rotation_window_seconds: int = 60
    unattached_lease_ttl_seconds: int = 300

    def cap(self, pool: str) -> int:
        """How many agents a pool takes by the operator's word. An account has its provider's."""
        provider = self.caps.get(provider_of(pool), self.default_cap)
        return self.caps.get(pool, provider)

    def knobs(self, pool: str) -> PoolConfig:
        """All of the operator's word on a pool. An account without its own has its provider's."""
        told = self.tuned.get(pool) or self.tuned.get(provider_of(pool), UNSET)
        cap = self.cap(pool)
        return replace(told, max_global=cap, hard_max=told.hard_max or 2 * cap)

    def heirs(self, provider: str, pools: Iterable[str]) -> list[str]:
        """Those of the pools that are accounts of a provider, and have its cap as their own."""
        return sorted(
            pool
            for pool in pools
            if pool != provider and provider_of(pool) == provider and pool not in self.caps
        )

    def is_adaptive(self, pool: str) -> bool:
        """Whether anything is learned of a pool."""
        return (self.tuned.get(pool) or self.tuned.get(provider_of(pool), UNSET)).adaptive

    @property
    def adapts(self) -> bool:
        """Whether anything is learned of any pool."""
        return any(knobs.adaptive for knobs in self.tuned.values())


def policy_of(runtime: Runtime, pools: Mapping[str, PoolCaps]) -> Policy:
    """The limits that both files of the operator say."""
    named = {name: pool.max_global_agents for name, pool in pools.items()}
    return Policy(
        caps={name: cap for name, cap in named.items() if cap > 0},
        tuned={name: pool_config(pool) for name, pool in pools.items()},
        default_cap=runtime.max_global_agents,
        machine_max_agents=runtime.machine_max_agents,
        memory_floor_mb=runtime.memory_floor_mb,
        demand_ttl_seconds=runtime.demand_ttl_seconds,
        rotation_window_seconds=runtime.rotation_window_seconds,
        unattached_lease_ttl_seconds=runtime.unattached_lease_ttl_seconds,
    )


def pool_config(pool: PoolCaps) -> PoolConfig:
    """One pool of `governor.json`, with what it leaves to the rest of the settings as 0."""
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
    """The limits as they are now; a damaged file is an error, never a wider cap."""
    return policy_of(settings.runtime, load_pools(home / POOLS_FILE_NAME))


MAX_POOL_NAME = 200


def pool_key(name: str) -> str:
    """A pool's name as it is stored: never empty."""
    return name.strip() or DEFAULT_POOL


def checked_pool_name(what: str, name: str) -> str:
    """A pool's or project's name that a person typed, or a clear refusal."""
    if len(name) <= MAX_POOL_NAME and name.isprintable() and " " not in name.strip():
        return name.strip()
    refused = HostlerError(
        f"{name[:MAX_POOL_NAME]!r} is no name of a {what}.",
        safe="Nothing was changed.",
        remedy=f"A name is printable, has no spaces, and at most {MAX_POOL_NAME} characters.",
    )
    refused.exit_code = 2
    raise refused


def provider_of(pool: str) -> str:
    """The provider's part of `provider:account`."""
    return pool.partition(":")[0]


def pool_of(agent: Agent) -> str:
    """The pool of a configured agent."""
    if agent.pool.strip():
        return pool_key(agent.pool)
    kind = AGENT_KINDS[agent.kind]
    if kind.has_provider_in_model and "/" in agent.model:
        return pool_key(agent.model.partition("/")[0])
    return kind.provider or DEFAULT_POOL
