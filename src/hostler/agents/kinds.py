"""Which kinds of agents there are."""

from __future__ import annotations

from hostler.agents.claude import Claude
from hostler.agents.codex import Codex
from hostler.agents.command import Command
from hostler.agents.errors import UnknownKind
from hostler.agents.gemini import Gemini
from hostler.agents.opencode import Opencode
from hostler.agents.port import AgentKind
from hostler.agents.scripted import Scripted
from hostler.config.settings import Agent

KINDS: dict[str, AgentKind] = {
    "claude": Claude(),
    "codex": Codex(),
    "gemini": Gemini(),
    "opencode": Opencode(),
    "command": Command(),
    "scripted": Scripted(),
}


def kind_of(agent: Agent) -> AgentKind:
    """What drives this agent."""
    try:
        return KINDS[agent.kind]
    except KeyError:
        raise UnknownKind(agent.kind, KINDS) from None
