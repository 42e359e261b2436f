"""Build an agent's environment, write the files of its run folder, and plan its launch.

The environment starts empty; secrets of Hostler are never passed on.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from hostler.agents.adapters.registry import find_kind
from hostler.agents.assignment import Assignment, Launch
from hostler.agents.errors import RunFilesFailed, SecretRefused
from hostler.agents.sandbox import plan_mounts, require_sandbox, wrap_launch
from hostler.config.settings import Agent, Settings

# TZ, because some programs print local times that we parse. The last one locates the
# settings, for an agent that calls `hostler`.
PASSED_VARIABLES = (
    "PATH",
    "HOME",
    "LANG",
    "TERM",
    "TZ",
    "TMPDIR",
    "USER",
    "SHELL",
    "HOSTLER_CONFIG",
)
# Where programs keep logins, sessions and settings outside of HOME: an agent with its own
# HOME gets them only if they are listed.
HOME_VARIABLES = frozenset(
    {
        *("CLAUDE_CONFIG_DIR", "CODEX_HOME"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    }
)
_LOCALE_PREFIX = "LC_"
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
# All names under which git's and GitHub's tools look for a token.
GITHUB_TOKEN_VARIABLES = frozenset(
    {"GITHUB_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_PAT"}
)
_TOKEN_SHAPE = re.compile(r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}")
# A shorter value (such as "1") would make ordinary variables look like the secret.
_MIN_SECRET_LENGTH = 8


def secret_variables(settings: Settings) -> frozenset[str]:
    """Return every variable that contains a secret of Hostler, according to the settings."""
    named = {
        settings.github.token_env,
        settings.github.webhook_secret_env,
        settings.web.token_env,
        settings.notify.url_env,
        settings.notify.secret_env,
    }
    return GITHUB_TOKEN_VARIABLES | (named - {""})


def build_agent_environment(
    ours: Mapping[str, str],
    listed: Iterable[str],
    variables: Mapping[str, str],
    secrets: Collection[str] = GITHUB_TOKEN_VARIABLES,
) -> dict[str, str]:
    """Build the environment of an agent from nothing.

    `ours` is Hostler's environment, `listed` the names that the settings pass on, `variables` the
    variables of the run, `secrets` the names that are never passed. Raises `SecretRefused` for a
    name or a value that must not be passed.
    """
    wanted = {name for name in listed if name}
    forbidden = {name.upper() for name in (*secrets, *GITHUB_TOKEN_VARIABLES)}
    passed = {
        name: value
        for name, value in ours.items()
        if name in wanted
        or ((name in PASSED_VARIABLES or _is_locale(name)) and name.upper() not in forbidden)
    }
    refused = {name for name in wanted if name.upper() in forbidden}
    refused |= set(_variables_with_secrets(passed, _secret_values(ours, forbidden)))
    if refused:
        raise SecretRefused(refused)
    return {"PATH": _DEFAULT_PATH, **passed, **variables}


def set_own_home(environment: Mapping[str, str], home: Path, temporary: Path) -> dict[str, str]:
    """Return a copy with a HOME and TMPDIR that no other run uses."""
    return {**environment, "HOME": str(home), "TMPDIR": str(temporary)}


def append_to_path(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return a copy with a folder at the end of PATH: the agent's own programs come first."""
    found = environment.get("PATH", "")
    if str(folder) in found.split(":"):
        return dict(environment)
    return {**environment, "PATH": f"{found}:{folder}" if found else str(folder)}


def _is_locale(name: str) -> bool:
    return name.startswith(_LOCALE_PREFIX)


def _secret_values(ours: Mapping[str, str], names: Collection[str]) -> set[str]:
    found = {value for name, value in ours.items() if name.upper() in names}
    return {value for value in found if len(value) >= _MIN_SECRET_LENGTH}


def _variables_with_secrets(passed: Mapping[str, str], secrets: Collection[str]) -> Iterator[str]:
    """Return names whose value contains a secret known under another name."""
    for name, value in passed.items():
        if _TOKEN_SHAPE.search(value) or any(secret in value for secret in secrets):
            yield name


# The folder of the `hostler` command, for agents that call `hostler done`.
TOOLS_FOLDER = Path(sys.executable).parent
CONTEXT_VERSION = 1


def prepare_launch(
    agent: Agent,
    work: Assignment,
    ours: Mapping[str, str],
    secrets: Collection[str] = GITHUB_TOKEN_VARIABLES,
) -> Launch:
    """Write the prompt and the context. A refused environment writes nothing."""
    launch = plan_launch(agent, work, ours, secrets)
    if agent.sandbox != "none":
        require_sandbox(ours)
    write_atomically(work.prompt_file, work.prompt)
    context = {"version": CONTEXT_VERSION, **work.context}
    write_atomically(work.context_file, json.dumps(context, indent=2))
    make_own_folders(agent, work)
    return launch


def make_own_folders(agent: Agent, work: Assignment) -> None:
    """Create HOME and TMPDIR of an agent that has its own."""
    if has_own_home(agent):
        for folder in _own_folders(work):
            _make_folder(folder)


def plan_launch(
    agent: Agent, work: Assignment, ours: Mapping[str, str], secrets: Collection[str]
) -> Launch:
    """Return how to start this agent for this run. Writes nothing."""
    variables, program = work.variables(), find_kind(agent).program
    apart = HOME_VARIABLES if has_own_home(agent) else frozenset()
    listed = {*agent.env, *(set(program.variables if program else ()) - apart)}
    env = append_to_path(build_agent_environment(ours, listed, variables, secrets), TOOLS_FOLDER)
    env = {**(program.settings if program else {}), **env}
    if has_own_home(agent):
        env = set_own_home(env, *_own_folders(work))
    limits = work.limits
    if agent.wall_limit_minutes:
        limits = replace(limits, wall_seconds=agent.wall_limit_minutes * 60.0)
    # Inherit only variables that are set: others would override the program's settings.
    handed = {name for name in listed if name in ours} - {*variables, *PASSED_VARIABLES}
    launch = find_kind(agent).launch(agent, work, env)
    launch = replace(launch, tools_apart=program is not None and program.apart)
    if agent.sandbox != "none":
        launch = wrap_launch(launch, plan_mounts(agent, work, launch, ours), ours)
    return launch.with_inherited(handed).limited(limits, agent.nice, agent.memory_limit_mb)


def has_own_home(agent: Agent) -> bool:
    """Return whether its HOME belongs to the task: in a sandbox there is no other."""
    return agent.own_home or agent.sandbox != "none"


def _own_folders(work: Assignment) -> tuple[Path, Path]:
    """Return the task's HOME and the run's TMPDIR: sessions outlive runs."""
    return work.task_dir / "home", work.run_dir / "tmp"


def write_atomically(path: Path, text: str) -> None:
    """Write atomically, mode 0600. Characters that cannot be encoded are replaced."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        temporary.replace(path)
    except OSError as error:
        raise RunFilesFailed(path, error) from error


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise RunFilesFailed(folder, error) from error
