"""Rules: which pool an agent belongs to."""

from __future__ import annotations

from hostler.config import DEFAULT_POOL, Agent

# Whom each kind of agent calls. What is not here may call anybody, and says so by its `pool`.
PROVIDERS = {"claude": "anthropic", "codex": "openai", "gemini": "google"}


def pool_key(name: str) -> str:
    """A pool's name as it is stored: never empty."""
    return name.strip() or DEFAULT_POOL


def provider_of(pool: str) -> str:
    """The provider's part of `provider:account`."""
    return pool.partition(":")[0]


def pool_of(agent: Agent) -> str:
    """The pool of a configured agent."""
    if agent.pool.strip():
        return pool_key(agent.pool)
    if agent.kind == "opencode" and "/" in agent.model:
        return pool_key(agent.model.partition("/")[0])
    return PROVIDERS.get(agent.kind, DEFAULT_POOL)
