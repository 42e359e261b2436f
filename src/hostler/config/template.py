"""The settings file that `hostler init` writes, and the values that it suggests."""

from __future__ import annotations

import re
import shutil
import subprocess
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hostler.config.agent_kinds import DETECTED_KINDS
from hostler.config.reference import (
    SETTINGS_TABLES,
    SettingKey,
    format_toml_value,
    list_section_keys,
)
from hostler.config.repositories import build_table_name
from hostler.model import RepoName

_TEMPLATE_HEAD = """\
# Settings of Hostler. Keys that are commented out show their defaults.
# Check this file with `hostler config check`; docs/reference/configuration.md explains every key.
# Secrets do not belong here: name a variable (…_env) or a file (…_file).
"""


@dataclass(frozen=True, slots=True)
class InitChoices:
    """The keys to set, per table."""

    tables: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


def render_template(choices: InitChoices) -> str:
    """Render the commented file."""
    parts = [_TEMPLATE_HEAD]
    for table, section in SETTINGS_TABLES.items():
        kind = table.partition(".<")[0]
        chosen = _chosen_tables(kind, choices) if kind != table else [table]
        for name in chosen or [f"{kind}.example"]:
            is_real = name in choices.tables or kind == table
            parts.append(f"# {'-' * 76}\n# {section.__doc__}")
            parts.append(f"[{name}]" if is_real else f"# [{name}]")
            rows = [key for key in list_section_keys(name, section) if key.table == name]
            parts.extend(_rows(rows, choices.tables.get(name, {})))
            parts.extend(_inner_tables(name, list_section_keys(name, section)))
            parts.append("")
    return "\n".join(parts)


def _chosen_tables(kind: str, choices: InitChoices) -> list[str]:
    return [name for name in choices.tables if name.startswith(f"{kind}.")]


def _rows(keys: Iterable[SettingKey], chosen: Mapping[str, object]) -> Iterable[str]:
    for key in keys:
        yield from textwrap.wrap(
            key.meaning, 96, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
        )
        if key.name in chosen:
            yield f"{key.name} = {format_toml_value(chosen[key.name])}"
        else:
            shown = '""' if key.is_required else format_toml_value(key.default)
            yield f"# {key.name} = {shown}"


def _inner_tables(name: str, keys: Iterable[SettingKey]) -> Iterable[str]:
    inner = [key for key in keys if key.table != name]
    if inner:
        yield f"# [{inner[0].table}]"
        yield from _rows(inner, {})


_REMOTE = re.compile(r"github\.com[:/]([^/\s]+)/([^/\s]+?)(?:\.git)?/?$")
# Time limit of each program that is asked.
_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class DetectedEnvironment:
    """What was found on this machine."""

    agents: tuple[str, ...]
    repo: RepoName | None
    has_token: bool
    gh_has_token: bool


@dataclass(frozen=True, slots=True)
class InitAnswers:
    """The user's answers, or the suggestions with --yes. Empty means undecided."""

    repo: RepoName | None
    allowed_users: tuple[str, ...]
    agent: str
    auth: str


def detect_environment(folder: Path, environment: Mapping[str, str]) -> DetectedEnvironment:
    """Find agents, the repository of this folder, and where a token could come from."""
    return DetectedEnvironment(
        agents=tuple(name for name in DETECTED_KINDS if shutil.which(name)),
        repo=parse_github_remote(
            run_program("git", "-C", str(folder), "remote", "get-url", "origin")
        ),
        has_token=bool(environment.get("GITHUB_TOKEN")),
        # Only whether there is one: the token itself is read when it is needed.
        gh_has_token=bool(run_program("gh", "auth", "token")),
    )


def parse_github_remote(url: str) -> RepoName | None:
    """Return the GitHub repository of a git remote, or None if it is not on GitHub."""
    match = _REMOTE.search(url.strip())
    try:
        return RepoName(match[1], match[2]) if match else None
    except ValueError:
        return None


def propose_answers(found: DetectedEnvironment) -> InitAnswers:
    """Suggest answers from what was found."""
    return InitAnswers(
        repo=found.repo,
        allowed_users=(found.repo.owner,) if found.repo else (),
        agent=found.agents[0] if found.agents else "",
        auth="gh" if found.gh_has_token and not found.has_token else "auto",
    )


def build_choices(answers: InitAnswers) -> InitChoices:
    """Build the keys to set in the new file."""
    tables: dict[str, dict[str, object]] = {"github": {"auth": answers.auth}}
    if answers.repo:
        tables[f"repo.{build_table_name(answers.repo.name)}"] = {
            "owner": answers.repo.owner,
            "name": answers.repo.name,
            "allowed_users": list(answers.allowed_users),
            "operator_logins": list(answers.allowed_users[:1]),
        }
    if answers.agent:
        tables[f"agent.{answers.agent}"] = {"kind": answers.agent}
    return InitChoices(tables)


def run_program(*argv: str) -> str:
    """Return a program's output; an empty text if it is missing, fails or takes too long."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
