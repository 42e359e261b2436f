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
MAX_SESSIONS = 64


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """One browser. Moments are of the monotonic clock."""

    csrf: str
    opened: float
    used: float

    def over(self, now: float) -> bool:
        """Whether it counts no more."""
        return now - self.used > SESSION_IDLE_SECONDS or now - self.opened > MAX_SESSION_SECONDS


class SessionStore:
    """All that are open. Safe to share between threads."""

    def __init__(self, clock: Clock, most: int = MAX_SESSIONS) -> None:
        self._clock = clock
        self._most = most
        self._guard = threading.Lock()
        # By the digest of its id: whoever reads our memory of them cannot use them.
        self._open: dict[str, BrowserSession] = {}

    def open(self) -> str:
        """A new one; its id."""
        made, now = secrets.token_urlsafe(32), self._clock.monotonic()
        with self._guard:
            self._forget(now)
            while len(self._open) >= self._most:
                del self._open[min(self._open, key=lambda name: self._open[name].used)]
            self._open[_digest(made)] = BrowserSession(secrets.token_urlsafe(32), now, now)
        return made

    def find(self, name: str) -> BrowserSession | None:
        """The one with this id, which is used by that."""
        key, now = _digest(name), self._clock.monotonic()
        with self._guard:
            self._forget(now)
            found = self._open.get(key)
            if found is None:
                return None
            self._open[key] = replace(found, used=now)
            return found

    def lasts(self, name: str) -> bool:
        """Whether one is still open; to ask is no use of it."""
        with self._guard:
            self._forget(self._clock.monotonic())
            return _digest(name) in self._open

    def close(self, name: str) -> None:
        """End one."""
        with self._guard:
            self._open.pop(_digest(name), None)

    def _forget(self, now: float) -> None:
        for name in [name for name, one in self._open.items() if one.over(now)]:
            del self._open[name]


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()


# These change nothing, by the meaning of HTTP.
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LOGIN_PATH = "/login"
API_ROOT = "/api/"
PUBLIC_PATHS = frozenset({LOGIN_PATH, "/api/v1/health", "/api/v1/ready"})
STATIC_ROOT = "/static/"


class AuthFailure(StrEnum):
    """What refused somebody."""

    HOST = "foreign_host"
    ORIGIN = "foreign_origin"
    TOKEN = "not_known"  # noqa: S105
    CSRF = "no_csrf"
    NAME = "no_name"


@dataclass(frozen=True, slots=True)
class RequestCredentials:
    """What a request says of itself. Empty: it does not."""

    method: str
    path: str
    host: str = ""
    origin: str = ""
    bearer: str = ""
    csrf: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class AuthPolicy:
    """What is compared with. `wide`: other machines may come, by addresses or these names."""

    token: str = field(repr=False)
    wide: bool = False
    names: frozenset[str] = frozenset()


def check_request(
    credentials: RequestCredentials, locks: AuthPolicy, session: BrowserSession | None
) -> AuthFailure | None:
    """The first door that refuses; None lets in."""
    changes = credentials.method not in SAFE_METHODS
    if not is_allowed_host(credentials.host, locks):
        return AuthFailure.HOST
    # Looking too: a page of another port could not read the answer, but hold on to live places.
    if credentials.origin and not is_same_origin(credentials.origin, credentials.host):
        return AuthFailure.ORIGIN
    if is_public_path(credentials.path):
        return None
    if credentials.bearer:
        return None if is_same_secret(credentials.bearer, locks.token) else AuthFailure.TOKEN
    if session is None:
        return AuthFailure.TOKEN
    if changes and not is_same_secret(credentials.csrf, session.csrf):
        return AuthFailure.CSRF
    # A page that was tampered with must not speak for others.
    return AuthFailure.NAME if credentials.by else None


def is_public_path(path: str) -> bool:
    """Whether a path answers everybody."""
    return path in PUBLIC_PATHS or path.startswith(STATIC_ROOT)


def is_allowed_host(host: str, locks: AuthPolicy) -> bool:
    """Whether a `Host` can be meant for us. Names of others lead here only by a trick."""
    name = parse_host_name(host)
    if name == "localhost" or (locks.wide and name in locks.names):
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    return locks.wide or address.is_loopback


def parse_host_name(host: str) -> str:
    """A host without its port and brackets, in small letters; empty where it is none."""
    text = host.strip().lower()
    if text.startswith("["):
        name, closed, rest = text[1:].partition("]")
        return name if closed and (not rest or _is_port(rest)) else ""
    name, colon, port = text.partition(":")
    return name if not colon or _is_port(f":{port}") else ""


def is_same_origin(origin: str, host: str) -> bool:
    """Whether a page is ours: it came from the very host and port that are asked."""
    scheme, _, rest = origin.strip().lower().partition("://")
    return scheme in ("http", "https") and rest == host.strip().lower()


def is_same_secret(given: str, wanted: str) -> bool:
    """Whether two secrets are one, in the same time whatever is given."""
    return secrets.compare_digest(
        given.encode("utf-8", "surrogateescape"), wanted.encode("utf-8", "surrogateescape")
    )


def _is_port(text: str) -> bool:
    return text[1:].isascii() and text[1:].isdigit() and text.startswith(":") and len(text) <= 6


AUTH_FILE_NAME = "web-token"
# Anything shorter can be guessed.
MIN_TOKEN_LENGTH = 16
MAX_TOKEN_LENGTH = 4096
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_CREATE_REMEDY = "Make one (openssl rand -hex 32), readable by you alone (chmod 600)."


@dataclass(frozen=True, slots=True)
class AccessToken:
    """The token, and where it stands, for people."""

    value: str = field(repr=False)
    where: str


class NoToken(HostlerError):
    """There is no token, or none that may be used."""

    def __init__(self, what: str, remedy: str = _CREATE_REMEDY) -> None:
        super().__init__(what, safe="Nothing was started.", remedy=remedy)


def read_or_create_token(
    web: Web, home: Path, environment: Mapping[str, str], *, wide: bool
) -> AccessToken:
    """The token in force; one of the home is made where there is none. `wide`: it must be named."""
    if web.token_env:
        found = AccessToken(environment.get(web.token_env, "").strip(), f"${web.token_env}")
    elif web.token_file:
        found = _read_token_file(Path(os.path.expanduser(web.token_file)))  # noqa: PTH111
    elif wide:
        raise NoToken(
            "Listening wider than this machine needs a token of your own.",
            f"Name it in `web.token_file` or `web.token_env`. {_CREATE_REMEDY}",
        )
    else:
        found = _create_token(home)
    if len(found.value) < MIN_TOKEN_LENGTH:
        fault = f"is shorter than {MIN_TOKEN_LENGTH} characters" if found.value else "is empty"
        raise NoToken(f"The access token in {found.where} {fault}.")
    register_secret(found.value)
    return found


def find_token(web: Web, home: Path, environment: Mapping[str, str]) -> AccessToken | None:
    """The token in force, where one can be found and used; none is made."""
    if not (web.token_env or web.token_file or (home / AUTH_FILE_NAME).exists()):
        return None
    try:
        return read_or_create_token(web, home, environment, wide=False)
    except NoToken:
        return None


def _create_token(home: Path) -> AccessToken:
    """The token of a home, made once: of two who begin together, both get the same."""
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
            f"The access token {path} cannot be written: {error.strerror}.",
            "Look at the owner and permissions of the home.",
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return _read_token_file(path)


def _read_token_file(path: Path) -> AccessToken:
    try:
        _require_private(path)
        return AccessToken(
            read_regular_file(path, MAX_TOKEN_LENGTH).decode("ascii").strip(), str(path)
        )
    except NotRegularFile as error:
        missing = error.oddity is FileProblem.MISSING
        found = "is missing" if missing else f"cannot be read: it is {error.found}"
        raise NoToken(f"The access token {path} {found}.") from error
    except UnicodeDecodeError as error:
        raise NoToken(f"The access token {path} cannot be read: it is no plain text.") from error


def _require_private(path: Path) -> None:
    descriptor = open_regular_file(path)
    try:
        mode = os.fstat(descriptor).st_mode
    finally:
        os.close(descriptor)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise NoToken(f"Others can read the access token {path}.", f"chmod 600 {path}")
