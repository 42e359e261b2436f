"""The edge: write what an agent needs into its run folder, and say how to launch it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from hostler.agents.environment import (
    GITHUB_TOKENS,
    HOMES,
    PLAIN,
    agent_environment,
    with_own_home,
    with_tools,
)
from hostler.agents.errors import RunFilesFailed
from hostler.agents.kinds import kind_of
from hostler.agents.launch import Assignment, Launch
from hostler.agents.sandbox import enclosed, require_sandbox
from hostler.agents.view import view_of
from hostler.config.settings import Agent

# Where our own command stands, for agents that call `hostler done`.
TOOLS = Path(sys.executable).parent
CONTEXT_VERSION = 1


def prepare(
    agent: Agent,
    work: Assignment,
    ours: Mapping[str, str],
    secrets: Collection[str] = GITHUB_TOKENS,
) -> Launch:
    """Write the prompt and the context; the launch. A refused environment writes nothing."""
    launch = plan(agent, work, ours, secrets)
    if agent.sandbox != "none":
        require_sandbox(ours)
    write_whole(work.prompt_file, work.prompt)
    context = {"version": CONTEXT_VERSION, **work.context}
    write_whole(work.context_file, json.dumps(context, indent=2))
    make_folders(agent, work)
    return launch


def make_folders(agent: Agent, work: Assignment) -> None:
    """HOME and TMPDIR of an agent that has its own."""
    if has_own_home(agent):
        for folder in own_folders(work):
            _make(folder)


def plan(
    agent: Agent, work: Assignment, ours: Mapping[str, str], secrets: Collection[str]
) -> Launch:
    """How this agent is started for this work; nothing is written."""
    words, program = work.words(), kind_of(agent).program
    apart = HOMES if has_own_home(agent) else frozenset()
    listed = {*agent.env, *(set(program.variables if program else ()) - apart)}
    env = with_tools(agent_environment(ours, listed, words, secrets), TOOLS)
    env = {**(program.settings if program else {}), **env}
    if has_own_home(agent):
        env = with_own_home(env, *own_folders(work))
    limits = work.limits
    if agent.wall_limit_minutes:
        limits = replace(limits, wall_seconds=agent.wall_limit_minutes * 60.0)
    # What is not there cannot be handed on: a setting of the program's own stays what it is.
    handed = {name for name in listed if name in ours} - {*words, *PLAIN}
    launch = kind_of(agent).launch(agent, work, env)
    launch = replace(launch, tools_apart=program is not None and program.apart)
    if agent.sandbox != "none":
        launch = enclosed(launch, view_of(agent, work, launch, ours), ours)
    return launch.sparing(handed).limited(limits, agent.nice, agent.memory_limit_mb)


def has_own_home(agent: Agent) -> bool:
    """Whether its HOME is its task's: in a sandbox there is no other."""
    return agent.own_home or agent.sandbox != "none"


def own_folders(work: Assignment) -> tuple[Path, Path]:
    """HOME of a task and TMPDIR of a run that have their own: sessions outlive runs."""
    return work.task_dir / "home", work.run_dir / "tmp"


def write_whole(path: Path, text: str) -> None:
    """Whole or not at all, for us alone. A lone surrogate in a foreign text stops nobody."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        temporary.replace(path)
    except OSError as error:
        raise RunFilesFailed(path, error) from error


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise RunFilesFailed(folder, error) from error
