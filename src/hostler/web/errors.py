"""Errors of the API, the HTTP status of each error, and the JSON body they are returned in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from hostler.bus.errors import BusError, BusMissing, InvalidBusRequest
from hostler.errors import ConfigError, HostlerError, StoreConflict, StoreError
from hostler.planner.dependencies import DependencyError
from hostler.service.tasks.details import NoSuchTask
from hostler.web.auth import AuthFailure
from hostler.web.redaction import RedactedJSONResponse
from hostler.workflows.commands import CommandRefused
from hostler.workflows.manual_tasks import NotSubmitted

NOTHING_CHANGED = "Nothing was changed."


class ApiFault(BaseModel):
    """What happened, what is safe, and what to do next. `kind` is for programs.

    `exit_code` is that of the same failed command, or null if the API itself refused the request.
    """

    what: str
    safe: str
    remedy: str
    kind: str
    exit_code: int | None


class ErrorBody(BaseModel):
    """The body of every error response."""

    error: ApiFault


class WebError(HostlerError):
    """A request that the API itself refuses."""

    status = 400

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, safe=NOTHING_CHANGED, remedy=remedy)


class InvalidRange(WebError):
    """The requested range is not in the output."""

    status = 416


class ResourceNotFound(WebError):
    """The run, pool, project or repository does not exist."""

    status = 404


class RunAlreadyEnded(WebError):
    """The run has ended and cannot be stopped."""

    status = 409


class InvalidValue(WebError):
    """The request is well formed but has an invalid value."""

    status = 422


class TooManyClients(WebError):
    """The limit of live clients is reached."""

    status = 429


# Most specific first: the first match counts.
STATUS_BY_ERROR: tuple[tuple[type[HostlerError], int], ...] = (
    (NoSuchTask, 404),
    (BusMissing, 404),
    (CommandRefused, 409),
    (StoreConflict, 409),
    (NotSubmitted, 422),
    (DependencyError, 422),
    (InvalidBusRequest, 422),
    (BusError, 503),
    (StoreError, 503),
    (ConfigError, 503),
    (HostlerError, 400),
)

_DENIALS: Mapping[AuthFailure, tuple[int, str, str]] = {
    AuthFailure.HOST: (
        421,
        "This host name is not allowed.",
        "Use the URL that `hostler web url` prints, or add the name to `[web] hosts`.",
    ),
    AuthFailure.ORIGIN: (
        403,
        "Requests from other web pages are not allowed.",
        "Use the dashboard, or a program that sends the token.",
    ),
    AuthFailure.TOKEN: (
        401,
        "The access token is missing or wrong.",
        "Send it as `Authorization: Bearer TOKEN`. `hostler web token` prints it.",
    ),
    AuthFailure.NAME: (
        403,
        "A browser session cannot act in another name.",
        "Omit `X-Hostler-By`, or send the access token.",
    ),
    AuthFailure.CSRF: (
        403,
        "The CSRF token is missing or wrong.",
        "Send the `csrf` value of `GET /api/v1/session` as `X-CSRF-Token`.",
    ),
}


def get_status(error: HostlerError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, WebError):
        return error.status
    return next(status for kind, status in STATUS_BY_ERROR if isinstance(error, kind))


def get_error_kind(error: HostlerError) -> str:
    """Return the error class name in snake case: `no_such_task` for `NoSuchTask`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()


def build_response_for(error: HostlerError) -> RedactedJSONResponse:
    """Return the response for an error."""
    what, *more = error.lines()
    # Settings errors have several lines between what and remedy.
    found = " ".join([what, *(line for line in more if line not in (error.safe, error.remedy))])
    # A command that gets no exit code runs without the service, and shows settings errors itself.
    is_api_error = isinstance(error, WebError | ConfigError)
    code = None if is_api_error else error.exit_code
    return build_error_response(
        get_status(error), found, error.safe, error.remedy, get_error_kind(error), exit_code=code
    )


def build_denial(failure: AuthFailure) -> RedactedJSONResponse:
    """Return the response for a request that failed authentication."""
    status, what, remedy = _DENIALS[failure]
    more = {"WWW-Authenticate": 'Bearer realm="hostler"'} if status == 401 else {}
    return build_error_response(status, what, NOTHING_CHANGED, remedy, failure.value, more)


def build_error_response(
    status: int,
    what: str,
    safe: str = NOTHING_CHANGED,
    remedy: str = "",
    kind: str = "refused",
    headers: Mapping[str, str] | None = None,
    exit_code: int | None = None,
) -> RedactedJSONResponse:
    """Return an error response."""
    body: dict[str, Any] = {"what": what, "safe": safe, "remedy": remedy, "kind": kind}
    return RedactedJSONResponse(
        {"error": {**body, "exit_code": exit_code}}, status, dict(headers or {})
    )
