"""Checks of `hostler doctor`: can each agent start, and does it see no secret of Hostler?"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hostler.agents.adapters.registry import KINDS
from hostler.agents.errors import SecretRefused
from hostler.agents.prepare import build_agent_environment, secret_variables
from hostler.agents.program_check import check_version, find_program_path, read_version
from hostler.agents.sandbox import check_sandbox
from hostler.config.loader import load_settings
from hostler.config.settings import Agent, Settings
from hostler.errors import ConfigError
from hostler.health import CheckContext, CheckStatus, Finding, check

READY, VERSION = "agents.ready", "agents.version"


@check(READY)
def agents_can_start(context: CheckContext) -> Iterator[Finding]:
    """Check that scripts have no mistakes, and no agent is given a secret of Hostler."""
    try:
        settings = load_settings(context.home, context.config_path).settings
    except ConfigError:
        return  # the check "settings" reports what is wrong
    for name, agent in settings.agent.items():
        found = list(_findings(name, agent, settings))
        yield from found or [Finding(READY, CheckStatus.OK, f"{name}: settings and environment")]


@check(VERSION, quick=False)
def versions_are_known(context: CheckContext) -> Iterator[Finding]:
    """Check that programs have versions whose output was recorded; each is started once."""
    try:
        settings = load_settings(context.home, context.config_path).settings
    except ConfigError:
        return
    checked_programs: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="hostler-doctor-") as folder:
        for name, agent in settings.agent.items():
            env = _environment(agent, settings)
            path = find_program_path(agent, env["PATH"]) if env else None
            if env is None or path is None or path in checked_programs:
                continue
            checked_programs.add(path)
            for found in check_version(agent, read_version(agent, env, Path(folder))):
                yield replace(found, check=VERSION, evidence=f"{name}: {found.evidence}")


def _environment(agent: Agent, settings: Settings) -> dict[str, str] | None:
    try:
        return build_agent_environment(os.environ, agent.env, {}, secret_variables(settings))
    except SecretRefused:
        return None  # the check above reports it


def _findings(name: str, agent: Agent, settings: Settings) -> Iterator[Finding]:
    try:
        env = build_agent_environment(os.environ, agent.env, {}, secret_variables(settings))
    except SecretRefused as error:
        yield Finding(READY, CheckStatus.FAILED, f"{name}: {error.what}", error.remedy)
        return
    kind = KINDS.get(agent.kind)
    for problem in kind.mistakes(agent, env["PATH"]) if kind else ():
        yield Finding(
            READY, CheckStatus.FAILED, f"{name}: {problem.sentence()}", f"Mend agent.{name}."
        )
    for found in check_sandbox(agent.sandbox, os.environ):
        if found.status is not CheckStatus.OK:
            yield replace(found, check=READY, evidence=f"{name}: {found.evidence}")
