"""The rule of doors: who is let in. Touches nothing."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address

from hostler.web.sessions import Session

# These change nothing, by the meaning of HTTP.
LOOKING = frozenset({"GET", "HEAD", "OPTIONS"})
LOGIN = "/login"
API = "/api/"
OPEN_PATHS = frozenset({LOGIN, "/api/v1/health", "/api/v1/ready"})
STATIC = "/static/"


class Door(StrEnum):
    """What refused somebody."""

    HOST = "foreign_host"
    ORIGIN = "foreign_origin"
    TOKEN = "not_known"  # noqa: S105
    CSRF = "no_csrf"
    NAME = "no_name"


@dataclass(frozen=True, slots=True)
class Knock:
    """What a request says of itself. Empty: it does not."""

    method: str
    path: str
    host: str = ""
    origin: str = ""
    bearer: str = ""
    csrf: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Locks:
    """What is compared with. `wide`: other machines may come, by addresses or these names."""

    token: str = field(repr=False)
    wide: bool = False
    names: frozenset[str] = frozenset()


def judge(knock: Knock, locks: Locks, session: Session | None) -> Door | None:
    """The first door that refuses; None lets in."""
    changes = knock.method not in LOOKING
    if not is_ours(knock.host, locks):
        return Door.HOST
    # Looking too: a page of another port could not read the answer, but hold on to live places.
    if knock.origin and not same_origin(knock.origin, knock.host):
        return Door.ORIGIN
    if is_open(knock.path):
        return None
    if knock.bearer:
        return None if same(knock.bearer, locks.token) else Door.TOKEN
    if session is None:
        return Door.TOKEN
    if changes and not same(knock.csrf, session.csrf):
        return Door.CSRF
    # A page that was tampered with must not speak for others.
    return Door.NAME if knock.by else None


def is_open(path: str) -> bool:
    """Whether a path answers everybody."""
    return path in OPEN_PATHS or path.startswith(STATIC)


def is_ours(host: str, locks: Locks) -> bool:
    """Whether a `Host` can be meant for us. Names of others lead here only by a trick."""
    name = bare_name(host)
    if name == "localhost" or (locks.wide and name in locks.names):
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    return locks.wide or address.is_loopback


def bare_name(host: str) -> str:
    """A host without its port and brackets, in small letters; empty where it is none."""
    text = host.strip().lower()
    if text.startswith("["):
        name, closed, rest = text[1:].partition("]")
        return name if closed and (not rest or _is_port(rest)) else ""
    name, colon, port = text.partition(":")
    return name if not colon or _is_port(f":{port}") else ""


def same_origin(origin: str, host: str) -> bool:
    """Whether a page is ours: it came from the very host and port that are asked."""
    scheme, _, rest = origin.strip().lower().partition("://")
    return scheme in ("http", "https") and rest == host.strip().lower()


def same(given: str, wanted: str) -> bool:
    """Whether two secrets are one, in the same time whatever is given."""
    return secrets.compare_digest(
        given.encode("utf-8", "surrogateescape"), wanted.encode("utf-8", "surrogateescape")
    )


def _is_port(text: str) -> bool:
    return text[1:].isascii() and text[1:].isdigit() and text.startswith(":") and len(text) <= 6
