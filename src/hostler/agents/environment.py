"""What an agent may see of our environment: little, and never a secret of ours."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from hostler.agents.errors import SecretRefused
from hostler.config.settings import Settings

# TZ, because some name times by their clock, which must be ours. The last one says where the
# settings are, for an agent that calls us.
PLAIN = ("PATH", "HOME", "LANG", "TERM", "TZ", "TMPDIR", "USER", "SHELL", "HOSTLER_CONFIG")
# Where programs keep logins, sessions and settings if not below HOME: an agent with a HOME of its
# own sees them only if they are listed.
HOMES = frozenset(
    {
        *("CLAUDE_CONFIG_DIR", "CODEX_HOME"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    }
)
_LOCALE = "LC_"
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
# Every name under which git's and GitHub's own tools look for a token.
GITHUB_TOKENS = frozenset(
    {"GITHUB_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_PAT"}
)
_TOKEN_SHAPE = re.compile(r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}")
# A shorter value (such as "1") would make ordinary variables look like the secret.
_SHORTEST_SECRET = 8


def secret_names(settings: Settings) -> frozenset[str]:
    """Every variable that holds a secret of ours, by these settings."""
    named = {
        settings.github.token_env,
        settings.github.webhook_secret_env,
        settings.web.token_env,
        settings.notify.url_env,
        settings.notify.secret_env,
    }
    return GITHUB_TOKENS | (named - {""})


def agent_environment(
    ours: Mapping[str, str],
    listed: Iterable[str],
    words: Mapping[str, str],
    secrets: Collection[str] = GITHUB_TOKENS,
) -> dict[str, str]:
    """The whole environment of an agent, made from nothing.

    `ours` is our own environment, `listed` the names its settings let through, `words` the
    variables of the run, `secrets` the names that never pass. Raises `SecretRefused` for a name
    or a value that must stay here.
    """
    wanted = {name for name in listed if name}
    forbidden = {name.upper() for name in (*secrets, *GITHUB_TOKENS)}
    passed = {
        name: value
        for name, value in ours.items()
        if name in wanted or ((name in PLAIN or _is_locale(name)) and name.upper() not in forbidden)
    }
    refused = {name for name in wanted if name.upper() in forbidden}
    refused |= set(_carriers(passed, _values(ours, forbidden)))
    if refused:
        raise SecretRefused(refused)
    return {"PATH": _DEFAULT_PATH, **passed, **words}


def with_own_home(environment: Mapping[str, str], home: Path, temporary: Path) -> dict[str, str]:
    """The same, with a HOME and TMPDIR that no other run shares."""
    return {**environment, "HOME": str(home), "TMPDIR": str(temporary)}


def with_tools(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The same, with a folder of programs at the end of PATH: the agent's own come first."""
    found = environment.get("PATH", "")
    if str(folder) in found.split(":"):
        return dict(environment)
    return {**environment, "PATH": f"{found}:{folder}" if found else str(folder)}


def _is_locale(name: str) -> bool:
    return name.startswith(_LOCALE)


def _values(ours: Mapping[str, str], names: Collection[str]) -> set[str]:
    found = {value for name, value in ours.items() if name.upper() in names}
    return {value for value in found if len(value) >= _SHORTEST_SECRET}


def _carriers(passed: Mapping[str, str], secrets: Collection[str]) -> Iterator[str]:
    """Names whose value is, or contains, a secret that came under another name."""
    for name, value in passed.items():
        if _TOKEN_SHAPE.search(value) or any(secret in value for secret in secrets):
            yield name
