"""Rules: which pool an agent belongs to."""

from __future__ import annotations

from hostler.config import DEFAULT_POOL, Agent
from hostler.errors import HostlerError

# Whom each kind of agent calls. What is not here may call anybody, and says so by its `pool`.
PROVIDERS = {"claude": "anthropic", "codex": "openai", "gemini": "google"}

LONGEST = 200


def pool_key(name: str) -> str:
    """A pool's name as it is stored: never empty."""
    return name.strip() or DEFAULT_POOL


def named_by_hand(what: str, name: str) -> str:
    """A pool's or project's name that a person typed, or a clear refusal."""
    if len(name) <= LONGEST and name.isprintable() and " " not in name.strip():
        return name.strip()
    refused = HostlerError(
        f"{name[:LONGEST]!r} is no name of a {what}.",
        safe="Nothing was changed.",
        remedy=f"A name is printable, has no spaces, and at most {LONGEST} characters.",
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
    if agent.kind == "opencode" and "/" in agent.model:
        return pool_key(agent.model.partition("/")[0])
    return PROVIDERS.get(agent.kind, DEFAULT_POOL)
