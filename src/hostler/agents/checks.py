"""What `hostler doctor` asks of the agents: can each start, and does it see no secret of ours?"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hostler.agents.environment import agent_environment, secret_names
from hostler.agents.errors import SecretRefused
from hostler.agents.installed import path_of, version, version_of
from hostler.agents.kinds import KINDS
from hostler.agents.sandbox import sandbox
from hostler.config.load import load
from hostler.config.settings import Agent, Settings
from hostler.errors import ConfigError
from hostler.health import Context, Finding, Status, check

READY, VERSION = "agents.ready", "agents.version"


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


@check(VERSION, quick=False)
def versions_are_known(context: Context) -> Iterator[Finding]:
    """Programs are of versions whose output was recorded; each is asked once."""
    try:
        settings = load(context.home, context.config_path).settings
    except ConfigError:
        return
    asked: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="hostler-doctor-") as folder:
        for name, agent in settings.agent.items():
            env = _environment(agent, settings)
            path = path_of(agent, env["PATH"]) if env else None
            if env is None or path is None or path in asked:
                continue
            asked.add(path)
            for found in version(agent, version_of(agent, env, Path(folder))):
                yield replace(found, check=VERSION, evidence=f"{name}: {found.evidence}")


def _environment(agent: Agent, settings: Settings) -> dict[str, str] | None:
    try:
        return agent_environment(os.environ, agent.env, {}, secret_names(settings))
    except SecretRefused:
        return None  # the check above reports it


def _findings(name: str, agent: Agent, settings: Settings) -> Iterator[Finding]:
    try:
        env = agent_environment(os.environ, agent.env, {}, secret_names(settings))
    except SecretRefused as error:
        yield Finding(READY, Status.FAILED, f"{name}: {error.what}", error.remedy)
        return
    kind = KINDS.get(agent.kind)
    for problem in kind.mistakes(agent, env["PATH"]) if kind else ():
        yield Finding(READY, Status.FAILED, f"{name}: {problem.sentence()}", f"Mend agent.{name}.")
    for found in sandbox(agent.sandbox, os.environ):
        if found.status is not Status.OK:
            yield replace(found, check=READY, evidence=f"{name}: {found.evidence}")
