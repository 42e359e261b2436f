"""The one table from GitHub's refusing answers to our errors."""

from __future__ import annotations

import re
from typing import Any

from hostler.errors import (
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    Moved,
    NotFound,
    Refused,
    Unauthorized,
)

_TABLE: dict[int, tuple[type[Refused], str]] = {
    401: (Unauthorized, "Give Hostler a valid token: `hostler doctor` shows which one it uses."),
    403: (Forbidden, "Look at the rights of the token or App on this repository."),
    404: (NotFound, "Look at the name, and whether the token may see it."),
    405: (Conflict, ""),
    409: (Conflict, ""),
    410: (Gone, ""),
    451: (Forbidden, "The repository was closed for legal reasons."),
}
_REPOSITORY = re.compile(r"/repositories/(\d{1,18})(?:/|$|\?)")


def refusal(request: str, status: int, data: Any) -> Refused:
    """The error for an answer of 3xx or 4xx that is not a limit's."""
    message = said(data)
    if status in _TABLE:
        kind, remedy = _TABLE[status]
        return kind(request, status, message, remedy=remedy)
    return Invalid(request, status, message, _fields(data))


def moved(request: str, status: int, location: str) -> Moved:
    """The error for a redirect that we do not follow."""
    return Moved(request, status, location, repository_of(location) or 0)


def repository_of(url: str) -> int | None:
    """The number of the repository that an address names, if it names it by number."""
    found = _REPOSITORY.search(url)
    return int(found[1]) if found else None


def said(data: Any) -> str:
    """GitHub's own words."""
    message = data.get("message") if isinstance(data, dict) else None
    return message[:500] if isinstance(message, str) and message else "no reason given"


def _fields(data: Any) -> tuple[tuple[str, str, str], ...]:
    errors = data.get("errors") if isinstance(data, dict) else None
    return tuple(_field(error) for error in errors) if isinstance(errors, list) else ()


def _field(error: Any) -> tuple[str, str, str]:
    if not isinstance(error, dict):
        return ("", "custom", str(error)[:500])
    field, code, message = (error.get(name) or "" for name in ("field", "code", "message"))
    return (str(field), str(code), str(message)[:500])
