"""Who may read or write over git. Pure rules; the core looks up names and tokens."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, quote

_PATH = re.compile(r"/([^/]+)/([^/]+?)(?:\.git)?/(info/refs|git-upload-pack|git-receive-pack)")

FETCH = "git-upload-pack"
PUSH = "git-receive-pack"


@dataclass(frozen=True, slots=True)
class Call:
    """What a git client asks for."""

    owner: str
    name: str
    service: str
    action: str

    @property
    def writes(self) -> bool:
        return self.service == PUSH

    @property
    def query(self) -> str:
        return f"service={self.service}" if self.action == "info/refs" else ""


@dataclass(frozen=True, slots=True)
class Standing:
    """How the caller stands to the repository that was named.

    `number` is None where there is no such repository. `moved_to` is its present
    `owner/name` where it was found under an old one. `bad_credentials` says that a token
    was given and not accepted.
    """

    number: int | None
    login: str | None = None
    can_read: bool = False
    can_write: bool = False
    bad_credentials: bool = False
    moved_to: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer in place of git's own."""

    status: int
    text: str
    headers: tuple[tuple[str, str], ...] = ()


Lookup = Callable[[Call, str | None], Standing]
"""Tells from the call and the token given (if any) how the caller stands."""

_ASK = Refusal(
    401, "Authentication required.", (("www-authenticate", 'Basic realm="GitHub Sandbox"'),)
)


def read_call(method: str, path: str, query: str) -> Call | None:
    """The git request behind a URL; None where it is none."""
    found = _PATH.fullmatch(path)
    if not found:
        return None
    owner, name, action = found.groups()
    if action != "info/refs":
        return Call(owner, name, action, action) if method == "POST" else None
    service = parse_qs(query).get("service", [""])[0]
    wanted = method == "GET" and service in {FETCH, PUSH}
    return Call(owner, name, service, action) if wanted else None


def token_of(authorization: str | None) -> str | None:
    """The token in an Authorization header: Bearer, token, or Basic with it as password."""
    scheme, _, value = (authorization or "").strip().partition(" ")
    if scheme.lower() in {"bearer", "token"}:
        return value.strip() or None
    if scheme.lower() != "basic":
        return None
    try:
        user, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return user if password in {"", "x-oauth-basic"} else password


def refuse(call: Call, standing: Standing) -> Refusal | None:
    """Why this call is not let through; None where it is."""
    if standing.bad_credentials:
        return _ASK
    if standing.number is None or not standing.can_read:
        # A stranger cannot tell a private repository from none at all.
        return _ASK if standing.login is None else Refusal(404, "Repository not found.")
    if standing.moved_to:
        return _redirect(call, standing.moved_to)
    if not call.writes or standing.can_write:
        return None
    if standing.login is None:
        return _ASK
    where = f"{call.owner}/{call.name}.git"
    return Refusal(403, f"Permission to {where} denied to {standing.login}.")


def _redirect(call: Call, name: str) -> Refusal:
    query = f"?{call.query}" if call.query else ""
    location = f"/{quote(name)}.git/{call.action}{query}"
    status = 301 if call.action == "info/refs" else 307
    return Refusal(status, "Moved.", (("location", location),))
