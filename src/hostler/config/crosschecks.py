"""Rules between keys: what each table alone cannot know."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from hostler.config.problems import shown
from hostler.config.settings import Agent, GitHub, Repo, Runtime, Web
from hostler.errors import Problem
from hostler.model import RepoName


def crosschecks(parsed: Mapping[str, Any]) -> Iterator[Problem]:
    """All mistakes that show only when tables are read together."""
    repos: Mapping[str, Repo] = parsed.get("repo", {})
    agents: Mapping[str, Agent] = parsed.get("agent", {})
    yield from _repositories(repos, agents)
    for name, agent in agents.items():
        yield from _agent(name, agent, agents)
    if "github" in parsed:
        yield from _github(parsed["github"])
    if "runtime" in parsed:
        yield from _database(parsed["runtime"])
    if "web" in parsed:
        yield from _web(parsed["web"])


def _repositories(repos: Mapping[str, Repo], agents: Mapping[str, Agent]) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for name, repo in repos.items():
        full = f"{repo.owner}/{repo.name}".lower()
        if not _is_owner(repo.owner):
            yield Problem(f"repo.{name}.owner", shown(repo.owner), "a GitHub owner")
        if repo.name in {".", ".."}:
            yield Problem(f"repo.{name}.name", shown(repo.name), "a GitHub repository name")
        if full in seen:
            yield Problem(
                f"repo.{name}", f"{full} again", f"one table per repository (see repo.{seen[full]})"
            )
        seen.setdefault(full, name)
        if repo.agent and repo.agent not in agents:
            yield _no_such_agent(f"repo.{name}.agent", repo.agent, agents)
        elif not repo.agent and len(agents) > 1:
            yield Problem(f"repo.{name}.agent", "nothing", _names(agents))
        yield from _labels(name, repo)
        yield from _operators(name, repo)


def _is_owner(text: str) -> bool:
    """A login may be a bot's and may be longer; what owns a repository may not."""
    try:
        RepoName(text, "any")
    except ValueError:
        return False
    return True


def _labels(name: str, repo: Repo) -> Iterator[Problem]:
    labels = [repo.labels.design, repo.labels.bugfix, repo.labels.small_job, repo.labels.ignore]
    if len({label.lower() for label in labels}) < len(labels):
        yield Problem(f"repo.{name}.labels", "one label twice", "four different labels")


def _operators(name: str, repo: Repo) -> Iterator[Problem]:
    if repo.operations_issue_number and not repo.operator_logins:
        yield Problem(
            f"repo.{name}.operator_logins",
            "nobody",
            f"who may command on issue {repo.operations_issue_number}",
            "Name at least one login, or set operations_issue_number = 0.",
        )


def _agent(name: str, agent: Agent, agents: Mapping[str, Agent]) -> Iterator[Problem]:
    place = f"agent.{name}"
    if agent.kind == "command" and not agent.command:
        yield Problem(f"{place}.command", "nothing", 'the program to run, as in ["my-agent"]')
    if agent.kind == "scripted" and not agent.script:
        yield Problem(f"{place}.script", "nothing", "the file to play")
    if agent.fallback and agent.fallback not in agents:
        yield _no_such_agent(f"{place}.fallback", agent.fallback, agents)
    if agent.fallback and _goes_in_a_circle(name, agents):
        yield Problem(f"{place}.fallback", shown(agent.fallback), "a chain that ends")


def _goes_in_a_circle(start: str, agents: Mapping[str, Agent]) -> bool:
    seen: set[str] = set()
    name = start
    while name in agents and agents[name].fallback:
        if name in seen:
            return True
        seen.add(name)
        name = agents[name].fallback
    return False


def _github(github: GitHub) -> Iterator[Problem]:
    if github.app_id and not github.app_private_key_file:
        yield Problem(
            "github.app_private_key_file", "nothing", "the App's key, since app_id is set"
        )
    if github.auth == "app" and not github.app_id:
        yield Problem("github.app_id", "0", "the App's number, since auth is app")
    if github.auth == "token" and not (github.token_env or github.token_file):
        yield Problem(
            "github.token_env", "nothing", "a variable or token_file, since auth is token"
        )


def _database(runtime: Runtime) -> Iterator[Problem]:
    if _has_password(runtime.database_url):
        yield Problem(
            "runtime.database_url",
            "an address with a password, or one that cannot be read (not shown)",
            "postgresql://user@host/name",
            "Keep the password in ~/.pgpass or PGPASSWORD.",
        )


def _has_password(url: str) -> bool:
    """Whether an address holds a password, or cannot be read well enough to tell."""
    try:
        parts = urlsplit(url)
        words = [name.lower() for name, _ in parse_qsl(parts.query)]
        return parts.password is not None or any("password" in name for name in words)
    except ValueError:
        return True


def _web(web: Web) -> Iterator[Problem]:
    if not web.allow_remote and not _is_loopback(web.host):
        yield Problem(
            "web.host",
            shown(web.host),
            "a loopback address",
            "Set allow_remote = true if others on the network shall reach it.",
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _no_such_agent(place: str, found: str, agents: Mapping[str, Agent]) -> Problem:
    return Problem(place, shown(found), _names(agents))


def _names(agents: Mapping[str, Agent]) -> str:
    return "one of " + ", ".join(sorted(agents)) if agents else "an [agent.<name>] of this file"
