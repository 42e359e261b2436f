"""What `hostler init` proposes, from what it finds around it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hostler.config.repos import table_name
from hostler.config.template import Choices
from hostler.model import RepoName

AGENTS = ("claude", "codex", "gemini", "opencode")
_REMOTE = re.compile(r"github\.com[:/]([^/\s]+)/([^/\s]+?)(?:\.git)?/?$")
# A question to another program is never worth more than this to us.
_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was found on this machine."""

    agents: tuple[str, ...]
    repo: RepoName | None
    has_token: bool
    gh_has_token: bool


@dataclass(frozen=True, slots=True)
class Answers:
    """What the person (or `--yes`) decided. Empty means: leave it open."""

    repo: RepoName | None
    allowed_users: tuple[str, ...]
    agent: str
    auth: str


def look_around(folder: Path, environment: Mapping[str, str]) -> Surroundings:
    """Find agents, the repository of this folder, and where a token could come from."""
    return Surroundings(
        agents=tuple(name for name in AGENTS if shutil.which(name)),
        repo=repo_of_remote(ask("git", "-C", str(folder), "remote", "get-url", "origin")),
        has_token=bool(environment.get("GITHUB_TOKEN")),
        # Only whether there is one: the token itself is asked for anew when it is needed.
        gh_has_token=bool(ask("gh", "auth", "token")),
    )


def repo_of_remote(url: str) -> RepoName | None:
    """The GitHub repository behind a git remote, if it is one."""
    match = _REMOTE.search(url.strip())
    try:
        return RepoName(match[1], match[2]) if match else None
    except ValueError:
        return None


def propose(found: Surroundings) -> Answers:
    """The answers to start from."""
    return Answers(
        repo=found.repo,
        allowed_users=(found.repo.owner,) if found.repo else (),
        agent=found.agents[0] if found.agents else "",
        auth="gh" if found.gh_has_token and not found.has_token else "auto",
    )


def choices(answers: Answers) -> Choices:
    """The keys to set in the new file."""
    tables: dict[str, dict[str, object]] = {"github": {"auth": answers.auth}}
    if answers.repo:
        tables[f"repo.{table_name(answers.repo.name)}"] = {
            "owner": answers.repo.owner,
            "name": answers.repo.name,
            "allowed_users": list(answers.allowed_users),
            "operator_logins": list(answers.allowed_users[:1]),
        }
    if answers.agent:
        tables[f"agent.{answers.agent}"] = {"kind": answers.agent}
    return Choices(tables)


def ask(*argv: str) -> str:
    """What a program answers; nothing where it is missing, fails or takes too long."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_PATIENCE, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
