"""The adapters of all agent kinds. Facts that need no adapter are in `config.agent_kinds`."""

from __future__ import annotations

from hostler.agents.adapters.base import AgentKind
from hostler.agents.adapters.claude import ClaudeAdapter
from hostler.agents.adapters.codex import CodexAdapter
from hostler.agents.adapters.command import CommandAdapter
from hostler.agents.adapters.gemini import GeminiAdapter
from hostler.agents.adapters.opencode import OpencodeAdapter
from hostler.agents.errors import UnknownKind
from hostler.agents.scripted.adapter import ScriptedAdapter
from hostler.config.settings import Agent

KINDS: dict[str, AgentKind] = {
    "claude": ClaudeAdapter(),
    "codex": CodexAdapter(),
    "gemini": GeminiAdapter(),
    "opencode": OpencodeAdapter(),
    "command": CommandAdapter(),
    "scripted": ScriptedAdapter(),
}


def find_kind(agent: Agent) -> AgentKind:
    """Return the adapter for an agent."""
    try:
        return KINDS[agent.kind]
    except KeyError:
        raise UnknownKind(agent.kind, KINDS) from None
