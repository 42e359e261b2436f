"""What `hostler doctor` asks of the agents: can each start, and does it see no secret of ours?"""

from __future__ import annotations

import os
from collections.abc import Iterator

from hostler.agents.environment import agent_environment, secret_names
from hostler.agents.errors import SecretRefused
from hostler.agents.kinds import KINDS
from hostler.config.load import load
from hostler.config.settings import Agent, Settings
from hostler.errors import ConfigError
from hostler.health import Context, Finding, Status, check

READY = "agents.ready"


@check(READY)
def agents_can_start(context: Context) -> Iterator[Finding]:
    """Scripts have no mistakes, and no agent is given a secret of ours."""
    try:
        settings = load(context.home, context.config_path).settings
    except ConfigError:
        return  # the check "settings" reports what is wrong
    for name, agent in settings.agent.items():
        found = list(_findings(name, agent, settings))
        yield from found or [Finding(READY, Status.OK, f"{name}: settings and environment")]


def _findings(name: str, agent: Agent, settings: Settings) -> Iterator[Finding]:
    try:
        env = agent_environment(os.environ, agent.env, {}, secret_names(settings))
    except SecretRefused as error:
        yield Finding(READY, Status.FAILED, f"{name}: {error.what}", error.remedy)
        return
    kind = KINDS.get(agent.kind)
    for problem in kind.mistakes(agent, env["PATH"]) if kind else ():
        yield Finding(READY, Status.FAILED, f"{name}: {problem.sentence()}", f"Mend agent.{name}.")
