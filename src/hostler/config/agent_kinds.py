"""The one list of agent kinds. Settings, `hostler init`, help texts and pools derive from it.

A new kind needs an entry here and an adapter in `hostler.agents.adapters`, whose `registry` has
the same names (a test compares them).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

AgentKindName = Literal["claude", "codex", "gemini", "opencode", "command", "scripted"]
AGENT_KIND_NAMES: tuple[AgentKindName, ...] = get_args(AgentKindName)


@dataclass(frozen=True, slots=True)
class AgentKindFacts:
    """What is known of a kind without its adapter.

    `provider`: the provider that it calls, which is its pool; empty: any, named by `pool`.
    """

    # A program that `hostler init` looks for on PATH, under the name of the kind.
    is_detected: bool = True
    provider: str = ""
    # The part of the model's name before "/" is the provider.
    has_provider_in_model: bool = False


AGENT_KINDS: dict[AgentKindName, AgentKindFacts] = {
    "claude": AgentKindFacts(provider="anthropic"),
    "codex": AgentKindFacts(provider="openai"),
    "gemini": AgentKindFacts(provider="google"),
    "opencode": AgentKindFacts(has_provider_in_model=True),
    "command": AgentKindFacts(is_detected=False),
    "scripted": AgentKindFacts(is_detected=False),
}
DETECTED_KINDS = tuple(name for name, facts in AGENT_KINDS.items() if facts.is_detected)
