"""The list of agent kinds and their adapters."""

from hostler.agents.adapters.registry import KINDS
from hostler.config.agent_kinds import AGENT_KIND_NAMES, AGENT_KINDS


def test_every_kind_in_the_settings_has_facts_and_an_adapter():
    assert tuple(KINDS) == AGENT_KIND_NAMES == tuple(AGENT_KINDS)
