"""One shape for everything that is refused or fails, and which error is which status."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from hostler.bus.errors import BadRequest, BusError, BusMissing
from hostler.errors import ConfigError, HostlerError, StoreConflict, StoreError
from hostler.flows.commands import CommandRefused
from hostler.flows.submitting import NotSubmitted
from hostler.planner import DependencyError
from hostler.service.naming import NoSuchTask
from hostler.web.doors import Door
from hostler.web.hiding import Answer

SAFE = "Nothing was changed."


class Fault(BaseModel):
    """What happened, what is safe, what to do next. `kind` is for programs.

    `exit_code`: how a command ends that is told the same; none where the API itself refuses.
    """

    what: str
    safe: str
    remedy: str
    kind: str
    exit_code: int | None


class ErrorBody(BaseModel):
    """Every answer that is no success."""

    error: Fault


class WebError(HostlerError):
    """A refusal of the API's own."""

    status = 400

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, safe=SAFE, remedy=remedy)


class BadRange(WebError):
    """There is no such part of an output."""

    status = 416


class NotHere(WebError):
    """There is no such thing."""

    status = 404


class RunOver(WebError):
    """A run that is over cannot be stopped."""

    status = 409


class Unusable(WebError):
    """The request is well formed and asks for nothing that there is."""

    status = 422


class TooMany(WebError):
    """Too many follow what happens."""

    status = 429


# From the special to the general: the first that fits.
STATUSES: tuple[tuple[type[HostlerError], int], ...] = (
    (NoSuchTask, 404),
    (BusMissing, 404),
    (CommandRefused, 409),
    (StoreConflict, 409),
    (NotSubmitted, 422),
    (DependencyError, 422),
    (BadRequest, 422),
    (BusError, 503),
    (StoreError, 503),
    (ConfigError, 503),
    (HostlerError, 400),
)

_DOORS: Mapping[Door, tuple[int, str, str]] = {
    Door.HOST: (
        421,
        "This address is not one of ours.",
        "Use the address that `hostler web url` prints, or name it in `[web] hosts`.",
    ),
    Door.ORIGIN: (403, "Another page asks for this.", "Ask from our own pages, or by a program."),
    Door.TOKEN: (
        401,
        "The access token is missing or wrong.",
        "Send it as `Authorization: Bearer`; `hostler web token` prints it.",
    ),
    Door.NAME: (
        403,
        "A session acts in the name of whoever holds the token.",
        "Leave `X-Hostler-By` out, or send the token itself.",
    ),
    Door.CSRF: (
        403,
        "The request does not come from our pages.",
        "Send the `X-CSRF-Token` that `GET /api/v1/session` tells.",
    ),
}


def status_of(error: HostlerError) -> int:
    """The status of an error."""
    if isinstance(error, WebError):
        return error.status
    return next(status for kind, status in STATUSES if isinstance(error, kind))


def kind_of(error: HostlerError) -> str:
    """`NoSuchTask` as `no_such_task`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()


def refused(error: HostlerError) -> Answer:
    """An error of ours as an answer."""
    what, *more = error.lines()
    # Mistakes in settings are several lines between what and remedy.
    found = " ".join([what, *(line for line in more if line not in (error.safe, error.remedy))])
    # Several lines are told best by who reads that file itself.
    ours = isinstance(error, WebError | ConfigError)
    code = None if ours else error.exit_code
    return answer(status_of(error), found, error.safe, error.remedy, kind_of(error), exit_code=code)


def shut(door: Door) -> Answer:
    """The answer of a door."""
    status, what, remedy = _DOORS[door]
    more = {"WWW-Authenticate": 'Bearer realm="hostler"'} if status == 401 else {}
    return answer(status, what, SAFE, remedy, door.value, more)


def answer(
    status: int,
    what: str,
    safe: str = SAFE,
    remedy: str = "",
    kind: str = "refused",
    headers: Mapping[str, str] | None = None,
    exit_code: int | None = None,
) -> Answer:
    """The one shape."""
    body: dict[str, Any] = {"what": what, "safe": safe, "remedy": remedy, "kind": kind}
    return Answer({"error": {**body, "exit_code": exit_code}}, status, dict(headers or {}))
