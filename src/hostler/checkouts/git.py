"""Run one git command isolated from all user configuration, and map its failures to errors."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hostler.checkouts import process
from hostler.checkouts.errors import (
    DiskFull,
    GitFailed,
    GitMissing,
    GitTimeout,
    GitTooOld,
    RemoteDenied,
    RemoteError,
    RemoteMissing,
    RemoteMoved,
    RemoteUnreachable,
)
from hostler.errors import CheckoutError

# Only for commands that talk to a remote; the first match counts.
REMOTE_ERROR_PATTERNS: tuple[tuple[str, type[RemoteError]], ...] = (
    (r"returned error: 30[1278]|from redirection", RemoteMoved),
    (r"returned error: 40[13]|Authentication failed|could not read Username", RemoteDenied),
    (r"Write access to repository not granted|Permission to \S+ denied", RemoteDenied),
    (r"returned error: 404|repository '.*' not found|Repository not found", RemoteMissing),
    (r"does not appear to be a git repository", RemoteMissing),
    (r"Could not resolve (host|proxy)|Failed to connect|Couldn't connect", RemoteUnreachable),
    (r"Connection (refused|reset|timed out)|Operation timed out", RemoteUnreachable),
    (r"returned error: (429|5\d\d)|early EOF|hung up unexpectedly", RemoteUnreachable),
    (
        r"Empty reply from server|RPC failed|SSL (certificate|conn|read)|gnutls_handshake",
        RemoteUnreachable,
    ),
)
NO_SPACE_PATTERN = re.compile(r"No space left on device|Disk quota exceeded")


def error_from_output(verb: str, code: int, said: str, url: str, place: Path) -> CheckoutError:
    """Return the error for a failed command."""
    if NO_SPACE_PATTERN.search(said):
        return DiskFull(place)
    if url:
        for pattern, kind in REMOTE_ERROR_PATTERNS:
            if re.search(pattern, said):
                return kind(url, said)
    return GitFailed(verb, code, said)


MIN_VERSION = (2, 32)
LOCAL_TIMEOUT_SECONDS = 300.0
NETWORK_TIMEOUT_SECONDS = 1800.0
MAX_OUTPUT_BYTES = 64 * 1024 * 1024
MAX_STDERR_BYTES = 8 * 1024

# Override every configuration file: git reads these from the environment, last.
CONFIG_OVERRIDES: tuple[tuple[str, str], ...] = (
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.attributesFile", os.devnull),
    ("core.excludesFile", os.devnull),
    ("core.commitGraph", "false"),
    ("core.multiPackIndex", "false"),
    ("core.autocrlf", "false"),
    ("core.sshCommand", "false"),
    ("core.askPass", ""),
    ("core.editor", "false"),
    ("core.pager", "cat"),
    ("core.logAllRefUpdates", "false"),
    ("credential.helper", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("pack.useBitmaps", "false"),
    ("gpg.program", "false"),
    ("commit.gpgSign", "false"),
    ("push.gpgSign", "false"),
    ("push.recurseSubmodules", "no"),
    ("push.followTags", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.writeCommitGraph", "false"),
    ("submodule.recurse", "false"),
    ("http.followRedirects", "false"),
    ("transfer.credentialsInUrl", "die"),
    ("safe.bareRepository", "explicit"),
    ("advice.detachedHead", "false"),
)
# The operator's network settings: they are needed, and an agent cannot change them.
_INHERITED_VARIABLES = (
    *("PATH", "http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR"),
)
# A sandbox or a demo; no proxy could reach it.
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class GitOutput:
    """The output of a successful command."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", "surrogateescape").strip()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def items(self) -> list[str]:
        """Return the parts of NUL-separated output."""
        return [part.decode("utf-8", "surrogateescape") for part in self.out.split(b"\0") if part]


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """What one remote needs: allowed protocols, and settings that may be secret."""

    url: str = ""
    protocols: frozenset[str] = frozenset()
    config: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Git:
    """Git bound to one repository, or to none (`folder` is None)."""

    folder: Path | None
    place: Path
    work_tree: Path | None = None
    index: Path | None = None
    access: RemoteAccess = RemoteAccess()
    config: tuple[tuple[str, str], ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    keep_open: tuple[int, ...] = ()

    def __call__(
        self, *args: str, stdin: bytes = b"", accept: Sequence[int] = (0,), seconds: float = 0
    ) -> GitOutput:
        """Run `git args…`. Raise if the exit code is not in `accept`."""
        limit = seconds or (NETWORK_TIMEOUT_SECONDS if self.access.url else LOCAL_TIMEOUT_SECONDS)
        child = process.ChildProcess(
            ("git", *args), self.place, self._environment(), limit, stdin, self.keep_open
        )
        done = run_git(child)
        said = mask_secrets(done.err, self.access.secrets)
        if done.code not in accept:
            raise error_from_output(args[0], done.code, said, self.access.url, self.place)
        return replace(done, err=said)

    def using(self, access: RemoteAccess) -> Git:
        """Return the same repository with access to a remote."""
        return replace(self, access=access)

    def over(self, work_tree: Path, index: Path) -> Git:
        """Return the same repository with files and an index."""
        return replace(self, work_tree=work_tree, index=index, place=work_tree)

    def _environment(self) -> dict[str, str]:
        places = {
            "GIT_DIR": self.folder,
            "GIT_COMMON_DIR": self.folder,
            "GIT_WORK_TREE": self.work_tree,
            "GIT_INDEX_FILE": self.index,
        }
        return (
            build_base_environment()
            | {"GIT_ALLOW_PROTOCOL": ":".join(sorted(self.access.protocols))}
            | {name: str(path) for name, path in places.items() if path is not None}
            | config_variables((*CONFIG_OVERRIDES, *self.config, *self.access.config))
            | dict(self.env)
        )


def _no_proxy_hosts(environment: Mapping[str, str]) -> str:
    """Return the hosts that are reached without a proxy: the operator's, and this machine."""
    given = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    return given if given == "*" else ",".join(filter(None, [given, *_LOCAL_HOSTS]))


def build_base_environment() -> dict[str, str]:
    """Return an environment without the user's configuration, home or prompts."""
    passed = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
    return passed | {
        "no_proxy": _no_proxy_hosts(os.environ),
        "HOME": os.devnull,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": os.devnull,
        "GIT_PAGER": "cat",
    }


def config_variables(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return settings in the form that git reads from its environment."""
    variables = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


def run_git(child: process.ChildProcess) -> GitOutput:
    """Run one git child within its limits."""
    out, err = process.HeadBuffer(MAX_OUTPUT_BYTES), process.TailBuffer(MAX_STDERR_BYTES)
    verb = child.argv[1]
    try:
        code = process.run_child(child, out, err)
    except FileNotFoundError:
        if not child.cwd.is_dir():
            raise
        raise GitMissing from None
    if code is None:
        raise GitTimeout(verb, child.seconds)
    if out.overflowed:
        raise GitFailed(verb, code, f"the output is more than {MAX_OUTPUT_BYTES} bytes")
    return GitOutput(code, bytes(out.data), err.text().strip())


def mask_secrets(text: str, secrets: Sequence[str]) -> str:
    """Return a text with the secrets replaced."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def require_version() -> tuple[int, ...]:
    """Return git's version. Raise `GitTooOld` if it is not supported."""
    said = Git(None, Path("/"))("version").text
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", said)
    numbers = tuple(int(part) for part in found.groups() if part) if found else ()
    if numbers < MIN_VERSION:
        raise GitTooOld(said.removeprefix("git version "))
    return numbers
