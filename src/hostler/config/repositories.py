"""Find a repository in the settings by id or name, and choose the id of a new one."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import TypeAdapter, ValidationError

from hostler.config.loader import TABLE_NAME
from hostler.config.settings import Agent, Login, Repo
from hostler.errors import HostlerError
from hostler.model import RepoName

ReposById = Mapping[str, Repo]
# IDs are used as folder names.
MAX_ID_LENGTH = 100
_LOGIN: TypeAdapter[str] = TypeAdapter(Login)


def repo_full_name(repo: Repo) -> RepoName:
    """Return a repository's `owner/name`."""
    return RepoName(repo.owner, repo.name)


def parse_repo_name(text: str) -> RepoName:
    """Parse `owner/name`; raise HostlerError for anything else."""
    try:
        return RepoName.parse(text.strip())
    except ValueError as error:
        raise HostlerError(
            f"Invalid repository {text!r}: {error}.",
            safe="Nothing was changed.",
            remedy="Write it as owner/name.",
        ) from error


def find_repo_id(repos: ReposById, name: RepoName) -> str | None:
    """Return the ID of a watched repository, or None. Like on GitHub, case does not matter."""
    wanted = str(name).lower()
    return next(
        (id for id, repo in repos.items() if str(repo_full_name(repo)).lower() == wanted), None
    )


def resolve_repo_id(repos: ReposById, text: str) -> str:
    """Return the ID of a repository that is given by ID or by `owner/name`."""
    text = text.strip()
    if text in repos:
        return text
    found = find_repo_id(repos, parse_repo_name(text)) if "/" in text else None
    if found is None:
        known = ", ".join(f"{id} ({repo_full_name(repo)})" for id, repo in repos.items())
        raise HostlerError(
            f"There is no repository {text!r} in the settings.",
            safe="Nothing was changed.",
            remedy=f"Watched: {known}." if known else "Add one with: hostler repo add owner/name",
        )
    return found


def require_repo_id(text: str) -> str:
    """Return the text if it is a valid ID; otherwise raise HostlerError."""
    if not TABLE_NAME.fullmatch(text) or len(text) > MAX_ID_LENGTH:
        raise HostlerError(
            f"Invalid ID {text!r}.",
            safe="Nothing was changed.",
            remedy=f"Use at most {MAX_ID_LENGTH} letters, digits, '_' and '-', "
            "starting with a letter or digit.",
        )
    return text


def require_login(text: str) -> str:
    """Return the text if it is a valid GitHub login; otherwise raise HostlerError."""
    try:
        return _LOGIN.validate_python(text)
    except ValidationError as error:
        raise HostlerError(
            f"Invalid GitHub login {text!r}.",
            safe="Nothing was changed.",
            remedy="Give one login at a time, without the @.",
        ) from error


def choose_repo_id(repos: ReposById, name: RepoName, wanted: str = "") -> str:
    """Return a free ID: the wanted one, or one derived from the repository's name."""
    if wanted:
        taken = repos.get(require_repo_id(wanted))
        if taken is not None:
            raise HostlerError(
                f"The ID {wanted} is used by {repo_full_name(taken)}.",
                safe="Nothing was changed.",
                remedy="Choose another one with --id.",
            )
        return wanted
    for proposed in (build_table_name(name.name), build_table_name(f"{name.owner}-{name.name}")):
        if proposed not in repos:
            return proposed
    raise HostlerError(
        f"The IDs derived from {name} are in use.",
        safe="Nothing was changed.",
        remedy="Choose one with --id.",
    )


def build_table_name(name: str) -> str:
    """Derive the name of a TOML table, which must not contain dots."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", name).lstrip("-_")
    return plain[:MAX_ID_LENGTH] or "repository"


def choose_agent(agents: Mapping[str, Agent], wanted: str) -> str:
    """Return the agent to name in a new table; empty if there is only one."""
    names = ", ".join(sorted(agents))
    if wanted and wanted not in agents:
        raise HostlerError(
            f"There is no agent {wanted!r}.",
            safe="Nothing was changed.",
            remedy=f"Configured agents: {names}."
            if names
            else "Add an [agent.<name>] table first.",
        )
    if not wanted and len(agents) > 1:
        raise HostlerError(
            "There are several agents.",
            safe="Nothing was changed.",
            remedy=f"Choose one with --agent: {names}.",
        )
    return wanted
