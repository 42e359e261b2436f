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
# An id is the name of a folder too.
MAX_ID_LENGTH = 100
_LOGIN: TypeAdapter[str] = TypeAdapter(Login)


def repo_full_name(repo: Repo) -> RepoName:
    """A repository's `owner/name`."""
    return RepoName(repo.owner, repo.name)


def parse_repo_name(text: str) -> RepoName:
    """Read `owner/name`; one clear error for anything else."""
    try:
        return RepoName.parse(text.strip())
    except ValueError as error:
        raise HostlerError(
            f"{text!r} is no repository: {error}.",
            safe="Nothing was changed.",
            remedy="Write it as owner/name.",
        ) from error


def find_repo_id(repos: ReposById, name: RepoName) -> str | None:
    """Under which id a repository is watched. GitHub reads names without regard to case."""
    wanted = str(name).lower()
    return next(
        (id for id, repo in repos.items() if str(repo_full_name(repo)).lower() == wanted), None
    )


def resolve_repo_id(repos: ReposById, text: str) -> str:
    """The id that a person means by an id or by `owner/name`."""
    text = text.strip()
    if text in repos:
        return text
    found = find_repo_id(repos, parse_repo_name(text)) if "/" in text else None
    if found is None:
        known = ", ".join(f"{id} ({repo_full_name(repo)})" for id, repo in repos.items())
        raise HostlerError(
            f"The settings know no repository {text!r}.",
            safe="Nothing was changed.",
            remedy=f"There are: {known}." if known else "Add one: hostler repo add owner/name",
        )
    return found


def require_repo_id(text: str) -> str:
    """An id that a table can have."""
    if not TABLE_NAME.fullmatch(text) or len(text) > MAX_ID_LENGTH:
        raise HostlerError(
            f"{text!r} cannot be an id.",
            safe="Nothing was changed.",
            remedy=f"Use at most {MAX_ID_LENGTH} letters, digits, '_' and '-', "
            "and begin with a letter or digit.",
        )
    return text


def require_login(text: str) -> str:
    """The login of a person or bot on GitHub."""
    try:
        return _LOGIN.validate_python(text)
    except ValidationError as error:
        raise HostlerError(
            f"{text!r} is not a GitHub login.",
            safe="Nothing was changed.",
            remedy="Name one login at a time, without the @.",
        ) from error


def choose_repo_id(repos: ReposById, name: RepoName, wanted: str = "") -> str:
    """An id that is free: the wanted one, or one like the repository's name."""
    if wanted:
        taken = repos.get(require_repo_id(wanted))
        if taken is not None:
            raise HostlerError(
                f"The id {wanted} belongs to {repo_full_name(taken)}.",
                safe="Nothing was changed.",
                remedy="Choose another one with --id.",
            )
        return wanted
    for proposed in (build_table_name(name.name), build_table_name(f"{name.owner}-{name.name}")):
        if proposed not in repos:
            return proposed
    raise HostlerError(
        f"The ids that {name} would get are in use.",
        safe="Nothing was changed.",
        remedy="Choose one with --id.",
    )


def build_table_name(name: str) -> str:
    """A name for a table without dots, which would open a table inside."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", name).lstrip("-_")
    return plain[:MAX_ID_LENGTH] or "repository"


def choose_agent(agents: Mapping[str, Agent], wanted: str) -> str:
    """The agent to name in a new table; empty where there is no choice."""
    names = ", ".join(sorted(agents))
    if wanted and wanted not in agents:
        raise HostlerError(
            f"There is no agent {wanted!r}.",
            safe="Nothing was changed.",
            remedy=f"There are: {names}." if names else "Add an [agent.<name>] table first.",
        )
    if not wanted and len(agents) > 1:
        raise HostlerError(
            "There are several agents, and none was named.",
            safe="Nothing was changed.",
            remedy=f"Name one with --agent: {names}.",
        )
    return wanted
