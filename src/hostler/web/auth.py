"""Who may use the API: access token, browser sessions, and checks of host, origin and CSRF."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path

from hostler.agents.agent_files import (
    FileProblem,
    NotRegularFile,
    open_regular_file,
    read_regular_file,
)
from hostler.clock import Clock
from hostler.config.settings import Web
from hostler.errors import HostlerError
from hostler.store.engine.locks import private_folder
from hostler.telemetry.redaction import register_secret

SESSION_IDLE_SECONDS = 12 * 3600.0
MAX_SESSION_SECONDS = 7 * 86_400.0
_MAX_SESSIONS = 64


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser session. Times are of the monotonic clock."""

    csrf: str
    opened: float
    used: float

    def is_expired(self, now: float) -> bool:
        """Return True if it has expired."""
        return now - self.used > SESSION_IDLE_SECONDS or now - self.opened > MAX_SESSION_SECONDS


class SessionStore:
    """The open sessions. Thread-safe."""

    def __init__(self, clock: Clock, max_sessions: int = _MAX_SESSIONS) -> None:
        self._clock = clock
        self._max_sessions = max_sessions
        self._guard = threading.Lock()
        # By the digest of the id, so that the stored keys cannot be used as session ids.
        self._open: dict[str, BrowserSession] = {}

    def open(self) -> str:
        """Open a session and return its id."""
        made, now = secrets.token_urlsafe(32), self._clock.monotonic()
        with self._guard:
            self._remove_expired(now)
            while len(self._open) >= self._max_sessions:
                del self._open[min(self._open, key=lambda name: self._open[name].used)]
            self._open[_digest(made)] = BrowserSession(secrets.token_urlsafe(32), now, now)
        return made

    def find(self, name: str) -> BrowserSession | None:
        """Return the open session with this id, and count this as use."""
        key, now = _digest(name), self._clock.monotonic()
        with self._guard:
            self._remove_expired(now)
            found = self._open.get(key)
            if found is None:
                return None
            self._open[key] = replace(found, used=now)
            return found

    def is_open(self, name: str) -> bool:
        """Return True if the session is open. Does not count as use."""
        with self._guard:
            self._remove_expired(self._clock.monotonic())
            return _digest(name) in self._open

    def close(self, name: str) -> None:
        """Close a session."""
        with self._guard:
            self._open.pop(_digest(name), None)

    def _remove_expired(self, now: float) -> None:
        for name in [name for name, one in self._open.items() if one.is_expired(now)]:
            del self._open[name]


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()


# HTTP methods that change nothing.
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LOGIN_PATH = "/login"
API_ROOT = "/api/"
_PUBLIC_PATHS = frozenset({LOGIN_PATH, "/api/v1/health", "/api/v1/ready"})
STATIC_ROOT = "/static/"


class AuthFailure(StrEnum):
    """Why a request was refused."""

    HOST = "host_not_allowed"
    ORIGIN = "origin_not_allowed"
    TOKEN = "invalid_token"  # noqa: S105
    CSRF = "invalid_csrf_token"
    NAME = "name_not_allowed"


@dataclass(frozen=True, slots=True)
class RequestCredentials:
    """The parts of a request that authentication needs; empty if missing."""

    method: str
    path: str
    host: str = ""
    origin: str = ""
    bearer: str = ""
    csrf: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class AuthPolicy:
    """What requests are checked against.

    `allow_remote`: other machines may call, by IP address or one of the host `names`.
    """

    token: str = field(repr=False)
    allow_remote: bool = False
    names: frozenset[str] = frozenset()


def check_request(
    credentials: RequestCredentials, policy: AuthPolicy, session: BrowserSession | None
) -> AuthFailure | None:
    """Return the first check that fails, or None if the request is allowed."""
    changes = credentials.method not in SAFE_METHODS
    if not is_allowed_host(credentials.host, policy):
        return AuthFailure.HOST
    # Also for reads: a page on another port could occupy live streams, though not read them.
    if credentials.origin and not is_same_origin(credentials.origin, credentials.host):
        return AuthFailure.ORIGIN
    if is_public_path(credentials.path):
        return None
    if credentials.bearer:
        return None if is_same_secret(credentials.bearer, policy.token) else AuthFailure.TOKEN
    if session is None:
        return AuthFailure.TOKEN
    if changes and not is_same_secret(credentials.csrf, session.csrf):
        return AuthFailure.CSRF
    # A manipulated page must not act in the name of others.
    return AuthFailure.NAME if credentials.by else None


def is_public_path(path: str) -> bool:
    """Return True if a path needs no authentication."""
    return path in _PUBLIC_PATHS or path.startswith(STATIC_ROOT)


def is_allowed_host(host: str, policy: AuthPolicy) -> bool:
    """Return True if the `Host` header is allowed. Protects against DNS rebinding."""
    name = parse_host_name(host)
    if name == "localhost" or (policy.allow_remote and name in policy.names):
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    return policy.allow_remote or address.is_loopback


def parse_host_name(host: str) -> str:
    """Return a host without port and brackets, in lower case; empty if it is not valid."""
    text = host.strip().lower()
    if text.startswith("["):
        name, closed, rest = text[1:].partition("]")
        return name if closed and (not rest or _is_port(rest)) else ""
    name, colon, port = text.partition(":")
    return name if not colon or _is_port(f":{port}") else ""


def is_same_origin(origin: str, host: str) -> bool:
    """Return True if the page has the host and port that the request is sent to."""
    scheme, _, rest = origin.strip().lower().partition("://")
    return scheme in ("http", "https") and rest == host.strip().lower()


def is_same_secret(given: str, wanted: str) -> bool:
    """Compare two secrets in constant time."""
    return secrets.compare_digest(
        given.encode("utf-8", "surrogateescape"), wanted.encode("utf-8", "surrogateescape")
    )


def _is_port(text: str) -> bool:
    return text[1:].isascii() and text[1:].isdigit() and text.startswith(":") and len(text) <= 6


AUTH_FILE_NAME = "web-token"
# Shorter tokens could be guessed.
_MIN_TOKEN_LENGTH = 16
_MAX_TOKEN_LENGTH = 4096
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_CREATE_REMEDY = "Create one (openssl rand -hex 32) that only you can read (chmod 600)."


@dataclass(frozen=True, slots=True)
class WebToken:
    """The access token, and where it is stored."""

    value: str = field(repr=False)
    where: str


class NoToken(HostlerError):
    """There is no usable access token."""

    def __init__(self, what: str, remedy: str = _CREATE_REMEDY) -> None:
        super().__init__(what, safe="Nothing was started.", remedy=remedy)


def read_or_create_token(
    web: Web, home: Path, environment: Mapping[str, str], *, require_own: bool
) -> WebToken:
    """Return the configured token, or create one in the home directory.

    With `require_own`, raise NoToken if none is configured.
    """
    if web.token_env:
        found = WebToken(environment.get(web.token_env, "").strip(), f"${web.token_env}")
    elif web.token_file:
        found = _read_token_file(Path(os.path.expanduser(web.token_file)))  # noqa: PTH111
    elif require_own:
        raise NoToken(
            "To listen for other machines, configure your own access token.",
            f"Set `web.token_file` or `web.token_env`. {_CREATE_REMEDY}",
        )
    else:
        found = _create_token(home)
    if len(found.value) < _MIN_TOKEN_LENGTH:
        problem = f"is shorter than {_MIN_TOKEN_LENGTH} characters" if found.value else "is empty"
        raise NoToken(f"The access token in {found.where} {problem}.")
    register_secret(found.value)
    return found


def find_token(web: Web, home: Path, environment: Mapping[str, str]) -> WebToken | None:
    """Return the current token, or None if there is no usable one. Creates none."""
    if not (web.token_env or web.token_file or (home / AUTH_FILE_NAME).exists()):
        return None
    try:
        return read_or_create_token(web, home, environment, require_own=False)
    except NoToken:
        return None


def _create_token(home: Path) -> WebToken:
    """Create the home's token once. Concurrent callers get the same token."""
    path = home / AUTH_FILE_NAME
    private_folder(home)
    part = home / f".{AUTH_FILE_NAME}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        if not path.exists():
            with os.fdopen(os.open(part, _NEW_FILE_FLAGS, 0o600), "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
            with suppress(FileExistsError):
                os.link(part, path)
    except OSError as error:
        raise NoToken(
            f"Cannot write the access token {path}: {error.strerror}.",
            "Check the owner and permissions of the home directory.",
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return _read_token_file(path)


def _read_token_file(path: Path) -> WebToken:
    try:
        _require_private(path)
        return WebToken(
            read_regular_file(path, _MAX_TOKEN_LENGTH).decode("ascii").strip(), str(path)
        )
    except NotRegularFile as error:
        missing = error.oddity is FileProblem.MISSING
        problem = "is missing" if missing else f"cannot be read: it is {error.found}"
        raise NoToken(f"The access token {path} {problem}.") from error
    except UnicodeDecodeError as error:
        raise NoToken(f"The access token {path} cannot be read: it is not plain text.") from error


def _require_private(path: Path) -> None:
    descriptor = open_regular_file(path)
    try:
        mode = os.fstat(descriptor).st_mode
    finally:
        os.close(descriptor)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise NoToken(f"Other users can read the access token {path}.", f"Run: chmod 600 {path}")
