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

# Required for shared clones and for pushes with an expected old commit.
MIN_GIT_VERSION = (2, 30)


@check("settings")
def check_settings(context: CheckContext) -> Iterator[Finding]:
    """Check that the settings file has no mistakes, a repository and an agent."""
    try:
        loaded = load_settings(context.home, context.config_path)
        pools = load_pools(context.home / POOLS_FILE_NAME)
    except ConfigError as error:
        for problem in error.problems:
            evidence = f"{error.path}: {problem.sentence()}"
            yield Finding(
                "settings", CheckStatus.FAILED, evidence, "Fix it; see `hostler config check`."
            )
        return
    if loaded.path is None:
        yield Finding(
            "settings", CheckStatus.WARNING, "there is no settings file", "Run: hostler init"
        )
        return
    repos, agents = len(loaded.settings.repo), len(loaded.settings.agent)
    counts = [
        f"{repos} repositor{'y' if repos == 1 else 'ies'}",
        f"{agents} agent{'' if agents == 1 else 's'}",
        *([f"{len(pools)} pool cap{'' if len(pools) == 1 else 's'}"] if pools else []),
    ]
    missing = [
        *([] if repos else ["a repository: hostler repo add owner/name"]),
        *([] if agents else ["an agent: an [agent.<name>] table"]),
    ]
    status = CheckStatus.WARNING if missing else CheckStatus.OK
    remedy = f"Add {' and '.join(missing)}." if missing else ""
    yield Finding("settings", status, f"{loaded.path}: {', '.join(counts)}", remedy)


@check("home")
def check_home(context: CheckContext) -> Iterator[Finding]:
    """Check that the home is writable, and not by all users."""
    home = context.home
    nearest = next(path for path in (home, *home.parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        evidence = f"{nearest} is not a writable folder"
        remedy = "Fix its permissions, or choose another folder with --home."
        yield Finding("home", CheckStatus.FAILED, evidence, remedy)
        return
    yield Finding(
        "home", CheckStatus.OK, f"{home}" + ("" if home.exists() else ", created when needed")
    )
    if home.exists() and stat.S_IMODE(home.stat().st_mode) & 0o002:
        yield Finding("home", CheckStatus.WARNING, "writable by all users", f"chmod o-w {home}")


@check("git")
def check_git(_context: CheckContext) -> Iterator[Finding]:
    """Check that git is installed and recent enough."""
    program = shutil.which("git")
    if not program:
        yield Finding("git", CheckStatus.FAILED, "git is not on PATH", "Install git.")
        return
    output = subprocess.run([program, "version"], capture_output=True, text=True, timeout=10).stdout
    found = re.search(r"(\d+)\.(\d+)", output)
    if found and (int(found[1]), int(found[2])) < MIN_GIT_VERSION:
        yield Finding("git", CheckStatus.FAILED, output.strip(), "Install git 2.30 or newer.")
    else:
        yield Finding("git", CheckStatus.OK, f"{output.strip()} ({program})")


@check("agents")
def check_agents(context: CheckContext) -> Iterator[Finding]:
    """Check that every configured agent's program is on PATH."""
    for name, agent in _load_settings(context).agent.items():
        if agent.kind == "scripted":
            there, program = Path(agent.script).expanduser().is_file(), agent.script
        else:
            program = agent.command[0] if agent.command else agent.kind
            there = shutil.which(program) is not None
        if there:
            yield Finding("agents", CheckStatus.OK, f"{name}: {program} found")
        else:
            remedy = f"Install it, or correct [agent.{name}]."
            yield Finding("agents", CheckStatus.FAILED, f"{name}: {program} not found", remedy)


@check("credentials")
def check_credentials(context: CheckContext) -> Iterator[Finding]:
    """Check that there is a GitHub credential, and that its file is private."""
    settings = _load_settings(context)
    if not settings.repo:
        yield Finding("credentials", CheckStatus.SKIPPED, "no repository is configured")
        return
    source = _credential_source(settings.github)
    if source:
        yield Finding("credentials", CheckStatus.OK, source)
    else:
        remedy = "Set GITHUB_TOKEN or token_file, or log in with `gh auth login`."
        yield Finding("credentials", CheckStatus.FAILED, "no GitHub credential was found", remedy)
    for name in (settings.github.token_file, settings.github.app_private_key_file):
        yield from _check_file_mode(name)


def _load_settings(context: CheckContext) -> Settings:
    try:
        return load_settings(context.home, context.config_path).settings
    except ConfigError:
        return Settings()  # check_settings reports the mistakes


def _credential_source(github: GitHub) -> str:
    """Return the source of the credential, chosen as `github.auth` says."""
    sources = (
        _CREDENTIAL_SOURCES
        if github.auth == "auto"
        else {github.auth: _CREDENTIAL_SOURCES[github.auth]}
    )
    return next(filter(None, (source(github) for source in sources.values())), "")


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
    return "token of `gh auth token`" if run_program("gh", "auth", "token") else ""


_CREDENTIAL_SOURCES: dict[str, Callable[[GitHub], str]] = {
    "app": _app_source,
    "token": _token_source,
    "gh": _gh_source,
}


def _check_file_mode(name: str) -> Iterator[Finding]:
    path = Path(name).expanduser()
    if name and path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077:
        evidence = f"{path} can be read by other users"
        yield Finding("credentials", CheckStatus.WARNING, evidence, f"chmod 600 {path}")
