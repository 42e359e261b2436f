"""Find mistakes in a settings file, including those across tables. Pure functions."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from pydantic_core import ErrorDetails

from hostler.config.settings import PATTERN_MEANINGS, Agent, GitHub, Labels, Repo, Runtime, Web
from hostler.errors import Problem
from hostler.model import RepoName
from hostler.telemetry.redaction import looks_like_secret

# Longer lists of known keys are left to the reference.
MAX_KEYS_LISTED = 12
SECRET_WORDS = ("token", "secret", "password", "passwd", "private_key", "api_key", "apikey")


def format_value(value: object) -> str:
    """Format a value as in TOML, shortened, and withheld if it may be a secret."""
    if isinstance(value, str) and looks_like_secret(value):
        return "something that looks like a secret (not shown)"
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def find_pasted_secrets(value: object, name: str = "") -> Iterator[Problem]:
    """Yield a problem for every text that looks like a pasted token."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if looks_like_secret(str(key)):
                yield Problem(_join_key(name, "…"), format_value(str(key)), "the name of a key")
            yield from find_pasted_secrets(inner, _join_key(name, str(key)))
    elif isinstance(value, list):
        for inner in value:
            yield from find_pasted_secrets(inner, name)
    elif isinstance(value, str) and looks_like_secret(value):
        allowed = "the name of a variable or of a file that contains it"
        yield Problem(name, format_value(value), allowed)


def unknown_key_problem(table: str, name: str, known: Iterable[str]) -> Problem:
    """Describe an unknown key, with the nearest known one. Its value is never shown."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    suggestion = ""
    if near:
        suggestion = f"Did you mean {near[0]}?" if table else f"Did you mean [{near[0]}]?"
    elif 0 < len(known) <= MAX_KEYS_LISTED:
        suggestion = f"Known keys: {', '.join(known)}."
    if any(word in name.lower() for word in SECRET_WORDS) and name not in known:
        suggestion = (
            "Secrets do not belong in this file: name a variable (…_env) or a file (…_file)."
        )
    key = _join_key(table, name)
    what = f"unknown key {key}" if table else f"unknown table [{key}]"
    return Problem(key, "an unknown key", ", ".join(known) or "none", suggestion, message=what)


def problem_from_validation(table: str, details: ErrorDetails, known: Iterable[str]) -> Problem:
    """Translate one of pydantic's errors."""
    path = [str(part) for part in details["loc"]]
    if details["type"] == "extra_forbidden":
        # `labels` is the only table inside another one.
        nested = Labels.model_fields if path[0] == "labels" else ()
        return unknown_key_problem(
            _join_key(table, *path[:-1]), path[-1], known if len(path) == 1 else nested
        )
    name = _join_key(table, *(part for part in path if not part.startswith(("literal[", "bool"))))
    if details["type"] == "missing":
        return missing_key_problem(name)
    found = (
        "something that is not shown" if _may_hold_secret(name) else format_value(details["input"])
    )
    return Problem(name, found, _allowed_text(details), _suggest_choice(details))


def _suggest_choice(details: ErrorDetails) -> str:
    """Return the allowed word that is nearest to a wrong one, as a question."""
    if details["type"] != "literal_error" or not isinstance(details["input"], str):
        return ""
    choices = re.findall(r"'([^']*)'", str((details.get("ctx") or {}).get("expected", "")))
    near = difflib.get_close_matches(details["input"], choices, n=1)
    return f"Did you mean {near[0]}?" if near else ""


def missing_key_problem(name: str, meaning: str = "") -> Problem:
    """Describe a required key that is missing; `meaning` says what it is for."""
    what = f"missing required key {name}" + (f" ({meaning})" if meaning else "")
    return Problem(name, "nothing", meaning or "a value", message=what)


def _may_hold_secret(name: str) -> bool:
    """Return whether users tend to paste the secret itself into this key."""
    last = name.rpartition(".")[2]
    return last.endswith(("_env", "_file", "_url")) or any(word in last for word in SECRET_WORDS)


def _join_key(*parts: str) -> str:
    return ".".join(part for part in parts if part)


_TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text in quotes",
    "list_type": 'a list, as in ["a", "b"]',
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_LIMITS = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "{} or less"),
    "string_too_long": ("max_length", "at most {} characters"),
    "string_too_short": ("min_length", "at least {} characters"),
    "literal_error": ("expected", "{}"),
}


def _allowed_text(details: ErrorDetails) -> str:
    context: Mapping[str, Any] = details.get("ctx") or {}
    if details["type"] == "string_pattern_mismatch":
        return PATTERN_MEANINGS.get(context["pattern"], f"text that matches {context['pattern']}")
    if details["type"] == "string_too_short" and context.get("min_length") == 1:
        return "a text that is not empty"
    if details["type"] in _LIMITS:
        name, template = _LIMITS[details["type"]]
        return template.format(context.get(name, "?"))
    return _TYPES.get(details["type"], details["msg"])


def check_across_tables(parsed: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the mistakes that show only when tables are read together."""
    repos: Mapping[str, Repo] = parsed.get("repo", {})
    agents: Mapping[str, Agent] = parsed.get("agent", {})
    yield from _check_repositories(repos, agents)
    for name, agent in agents.items():
        yield from _check_agent(name, agent, agents)
    if "github" in parsed:
        yield from _check_github(parsed["github"])
    if "runtime" in parsed:
        yield from _check_database(parsed["runtime"])
    if "web" in parsed:
        yield from _check_web(parsed["web"])


def _check_repositories(
    repos: Mapping[str, Repo], agents: Mapping[str, Agent]
) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for name, repo in repos.items():
        full = f"{repo.owner}/{repo.name}".lower()
        if not _is_owner(repo.owner):
            yield Problem(f"repo.{name}.owner", format_value(repo.owner), "a GitHub owner")
        if repo.name in {".", ".."}:
            yield Problem(f"repo.{name}.name", format_value(repo.name), "a GitHub repository name")
        if full in seen:
            what = f"[repo.{name}] and [repo.{seen[full]}] are the same repository, {full}"
            yield Problem(f"repo.{name}", full, "another repository", message=what)
        seen.setdefault(full, name)
        if repo.agent and repo.agent not in agents:
            yield _unknown_agent_problem(f"repo.{name}.agent", repo.agent, agents)
        elif not repo.agent and len(agents) > 1:
            yield missing_key_problem(f"repo.{name}.agent", _agent_choices(agents))
        yield from _check_labels(name, repo)
        yield from _check_operators(name, repo)


def _is_owner(text: str) -> bool:
    """Return whether the text can own a repository; bots cannot, and their logins are longer."""
    try:
        RepoName(text, "any")
    except ValueError:
        return False
    return True


def _check_labels(name: str, repo: Repo) -> Iterator[Problem]:
    labels = [repo.labels.design, repo.labels.bugfix, repo.labels.small_job, repo.labels.ignore]
    if len({label.lower() for label in labels}) < len(labels):
        yield Problem(f"repo.{name}.labels", "the same label twice", "four different labels")


def _check_operators(name: str, repo: Repo) -> Iterator[Problem]:
    if repo.operations_issue_number and not repo.operator_logins:
        key = f"repo.{name}.operator_logins"
        yield Problem(
            key,
            "an empty list",
            "a login",
            "Add a login, or set operations_issue_number = 0.",
            message=f"{key} is empty, so no one can command on the operations issue "
            f"#{repo.operations_issue_number}",
        )


def _check_agent(name: str, agent: Agent, agents: Mapping[str, Agent]) -> Iterator[Problem]:
    table = f"agent.{name}"
    if agent.kind == "command" and not agent.command:
        yield missing_key_problem(f"{table}.command", 'the program to run, as in ["my-agent"]')
    if agent.kind == "scripted" and not agent.script:
        yield missing_key_problem(f"{table}.script", "the script file to play")
    if agent.fallback and agent.fallback not in agents:
        yield _unknown_agent_problem(f"{table}.fallback", agent.fallback, agents)
    if agent.fallback and _has_fallback_cycle(name, agents):
        yield Problem(
            f"{table}.fallback",
            format_value(agent.fallback),
            "an agent whose fallbacks do not lead back to this one",
        )


def _has_fallback_cycle(start: str, agents: Mapping[str, Agent]) -> bool:
    seen: set[str] = set()
    name = start
    while name in agents and agents[name].fallback:
        if name in seen:
            return True
        seen.add(name)
        name = agents[name].fallback
    return False


def _check_github(github: GitHub) -> Iterator[Problem]:
    if github.app_id and not github.app_private_key_file:
        yield missing_key_problem(
            "github.app_private_key_file", "file of the App's key, because app_id is set"
        )
    if github.auth == "app" and not github.app_id:
        yield missing_key_problem("github.app_id", 'the App\'s number, because auth = "app"')
    if github.auth == "token" and not (github.token_env or github.token_file):
        yield missing_key_problem(
            "github.token_env", 'or github.token_file, because auth = "token"'
        )


def _check_database(runtime: Runtime) -> Iterator[Problem]:
    if _has_password(runtime.database_url):
        yield Problem(
            "runtime.database_url",
            "an address with a password, or an invalid one (not shown)",
            "postgresql://user@host/name",
            "Keep the password in ~/.pgpass or PGPASSWORD.",
        )


def _has_password(url: str) -> bool:
    """Return whether an address contains a password, or is too broken to tell."""
    try:
        parts = urlsplit(url)
        options = [name.lower() for name, _ in parse_qsl(parts.query)]
        return parts.password is not None or any("password" in name for name in options)
    except ValueError:
        return True


def _check_web(web: Web) -> Iterator[Problem]:
    if not web.allow_remote and not _is_loopback(web.host):
        yield Problem(
            "web.host",
            format_value(web.host),
            "a loopback address",
            "Set allow_remote = true if other machines should reach the dashboard.",
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _unknown_agent_problem(key: str, found: str, agents: Mapping[str, Agent]) -> Problem:
    near = difflib.get_close_matches(found, agents, n=1)
    suggestion = f"Did you mean {near[0]}?" if near else ""
    return Problem(key, format_value(found), _agent_choices(agents), suggestion)


def _agent_choices(agents: Mapping[str, Agent]) -> str:
    return "one of " + ", ".join(sorted(agents)) if agents else "an [agent.<name>] of this file"
