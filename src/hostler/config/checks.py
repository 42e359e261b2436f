"""Checks of `hostler doctor`: settings, home folder, git, agents and credentials."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from hostler.config.loader import load_settings
from hostler.config.pools import POOLS_FILE_NAME, load_pools
from hostler.config.settings import GitHub, Settings
from hostler.config.template import run_program
from hostler.errors import ConfigError
from hostler.health import CheckContext, CheckStatus, Finding, check

# Older ones lack what shared clones and pushes with an expected old commit need.
MIN_GIT_VERSION = (2, 30)


@check("settings")
def check_settings(context: CheckContext) -> Iterator[Finding]:
    """The settings file has no mistakes and names something to do."""
    try:
        loaded = load_settings(context.home, context.config_path)
        pools = load_pools(context.home / POOLS_FILE_NAME)
    except ConfigError as error:
        for problem in error.problems:
            evidence = f"{error.path}: {problem.sentence()}"
            yield Finding(
                "settings", CheckStatus.FAILED, evidence, "Mend it; `hostler config check`."
            )
        return
    if loaded.path is None:
        yield Finding("settings", CheckStatus.WARNING, "there is no file", "Run `hostler init`.")
        return
    repos, agents = len(loaded.settings.repo), len(loaded.settings.agent)
    caps = f", {len(pools)} pool cap(s)" if pools else ""
    evidence = f"{loaded.path}: {repos} repository(ies), {agents} agent(s){caps}"
    idle = CheckStatus.WARNING if not (repos and agents) else CheckStatus.OK
    remedy = "" if repos and agents else "Add [repo.<id>] and [agent.<name>] tables."
    yield Finding("settings", idle, evidence, remedy)


@check("home")
def check_home(context: CheckContext) -> Iterator[Finding]:
    """The home can be written, and not by everybody."""
    home = context.home
    nearest = next(path for path in (home, *home.parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        evidence = f"{nearest} is not a folder we may write to"
        yield Finding(
            "home", CheckStatus.FAILED, evidence, "Mend its rights, or name another --home."
        )
        return
    yield Finding(
        "home", CheckStatus.OK, f"{home}" + ("" if home.exists() else ", made when needed")
    )
    if home.exists() and stat.S_IMODE(home.stat().st_mode) & 0o002:
        yield Finding("home", CheckStatus.WARNING, "anybody may write to it", f"chmod o-w {home}")


@check("git")
def check_git(_context: CheckContext) -> Iterator[Finding]:
    """git is installed and new enough."""
    program = shutil.which("git")
    if not program:
        yield Finding("git", CheckStatus.FAILED, "git is not on PATH", "Install git.")
        return
    said = subprocess.run([program, "version"], capture_output=True, text=True, timeout=10).stdout
    found = re.search(r"(\d+)\.(\d+)", said)
    if found and (int(found[1]), int(found[2])) < MIN_GIT_VERSION:
        yield Finding("git", CheckStatus.FAILED, said.strip(), "Install git 2.30 or newer.")
    else:
        yield Finding("git", CheckStatus.OK, f"{said.strip()} ({program})")


@check("agents")
def check_agents(context: CheckContext) -> Iterator[Finding]:
    """Every configured agent's program is on PATH."""
    for name, agent in _load_settings(context).agent.items():
        if agent.kind == "scripted":
            there, program = Path(agent.script).expanduser().is_file(), agent.script
        else:
            program = agent.command[0] if agent.command else agent.kind
            there = shutil.which(program) is not None
        if there:
            yield Finding("agents", CheckStatus.OK, f"{name}: {program} found")
        else:
            remedy = f"Install it, or mend [agent.{name}]."
            yield Finding("agents", CheckStatus.FAILED, f"{name}: {program} not found", remedy)


@check("credentials")
def check_credentials(context: CheckContext) -> Iterator[Finding]:
    """A GitHub credential can be had, and its file is readable by its owner alone."""
    settings = _load_settings(context)
    if not settings.repo:
        yield Finding("credentials", CheckStatus.SKIPPED, "no repository is configured")
        return
    source = _credential_source(settings.github)
    if source:
        yield Finding("credentials", CheckStatus.OK, source)
    else:
        remedy = "Set GITHUB_TOKEN, name a token_file, or log in with `gh auth login`."
        yield Finding("credentials", CheckStatus.FAILED, "no GitHub credential was found", remedy)
    for name in (settings.github.token_file, settings.github.app_private_key_file):
        yield from _check_file_mode(name)


def _load_settings(context: CheckContext) -> Settings:
    try:
        return load_settings(context.home, context.config_path).settings
    except ConfigError:
        return Settings()  # the check "settings" reports what is wrong


def _credential_source(github: GitHub) -> str:
    """Where the credential comes from, by the same choice as `github.auth`."""
    asked = (
        _CREDENTIAL_SOURCES
        if github.auth == "auto"
        else {github.auth: _CREDENTIAL_SOURCES[github.auth]}
    )
    return next(filter(None, (source(github) for source in asked.values())), "")


def _app_source(github: GitHub) -> str:
    there = github.app_id and Path(github.app_private_key_file).expanduser().is_file()
    return f"GitHub App {github.app_id}" if there else ""


def _token_source(github: GitHub) -> str:
    if github.token_file and Path(github.token_file).expanduser().is_file():
        return f"token in {github.token_file}"
    if github.token_env and os.environ.get(github.token_env):
        return f"token in the variable {github.token_env}"
    return ""


def _gh_source(_github: GitHub) -> str:
    return "`gh auth token` has one" if run_program("gh", "auth", "token") else ""


_CREDENTIAL_SOURCES: dict[str, Callable[[GitHub], str]] = {
    "app": _app_source,
    "token": _token_source,
    "gh": _gh_source,
}


def _check_file_mode(name: str) -> Iterator[Finding]:
    path = Path(name).expanduser()
    if name and path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077:
        evidence = f"{path} can be read by others"
        yield Finding("credentials", CheckStatus.WARNING, evidence, f"chmod 600 {path}")
