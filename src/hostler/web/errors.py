"""Errors of the API, the HTTP status of each error, and the JSON body they are returned in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from hostler.bus.errors import BadRequest, BusError, BusMissing
from hostler.errors import ConfigError, HostlerError, StoreConflict, StoreError
from hostler.planner.dependencies import DependencyError
from hostler.service.tasks.details import NoSuchTask
from hostler.web.auth import AuthFailure
from hostler.web.redaction import RedactedJSONResponse
from hostler.workflows.commands import CommandRefused
from hostler.workflows.manual_tasks import NotSubmitted

NOTHING_CHANGED = "Nothing was changed."


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
        super().__init__(what, safe=NOTHING_CHANGED, remedy=remedy)


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
STATUS_BY_ERROR: tuple[tuple[type[HostlerError], int], ...] = (
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

_DENIALS: Mapping[AuthFailure, tuple[int, str, str]] = {
    AuthFailure.HOST: (
        421,
        "This address is not one of ours.",
        "Use the address that `hostler web url` prints, or name it in `[web] hosts`.",
    ),
    AuthFailure.ORIGIN: (
        403,
        "Another page asks for this.",
        "Ask from our own pages, or by a program.",
    ),
    AuthFailure.TOKEN: (
        401,
        "The access token is missing or wrong.",
        "Send it as `Authorization: Bearer`; `hostler web token` prints it.",
    ),
    AuthFailure.NAME: (
        403,
        "A session acts in the name of whoever holds the token.",
        "Leave `X-Hostler-By` out, or send the token itself.",
    ),
    AuthFailure.CSRF: (
        403,
        "The request does not come from our pages.",
        "Send the `X-CSRF-Token` that `GET /api/v1/session` tells.",
    ),
}


def get_status(error: HostlerError) -> int:
    """The status of an error."""
    if isinstance(error, WebError):
        return error.status
    return next(status for kind, status in STATUS_BY_ERROR if isinstance(error, kind))


def get_error_kind(error: HostlerError) -> str:
    """`NoSuchTask` as `no_such_task`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()


def build_response_for(error: HostlerError) -> RedactedJSONResponse:
    """An error of ours as an answer."""
    what, *more = error.lines()
    # Mistakes in settings are several lines between what and remedy.
    found = " ".join([what, *(line for line in more if line not in (error.safe, error.remedy))])
    # Several lines are told best by who reads that file itself.
    ours = isinstance(error, WebError | ConfigError)
    code = None if ours else error.exit_code
    return build_error_response(
        get_status(error), found, error.safe, error.remedy, get_error_kind(error), exit_code=code
    )


def build_denial(door: AuthFailure) -> RedactedJSONResponse:
    """The answer of a door."""
    status, what, remedy = _DENIALS[door]
    more = {"WWW-Authenticate": 'Bearer realm="hostler"'} if status == 401 else {}
    return build_error_response(status, what, NOTHING_CHANGED, remedy, door.value, more)


def build_error_response(
    status: int,
    what: str,
    safe: str = NOTHING_CHANGED,
    remedy: str = "",
    kind: str = "refused",
    headers: Mapping[str, str] | None = None,
    exit_code: int | None = None,
) -> RedactedJSONResponse:
    """The one shape."""
    body: dict[str, Any] = {"what": what, "safe": safe, "remedy": remedy, "kind": kind}
    return RedactedJSONResponse(
        {"error": {**body, "exit_code": exit_code}}, status, dict(headers or {})
    )
