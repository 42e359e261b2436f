"""The FastAPI application: routers, error handlers and authentication."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from hostler import __version__
from hostler.errors import HostlerError
from hostler.telemetry import names
from hostler.web import pages
from hostler.web.auth import AuthPolicy, SessionStore
from hostler.web.context import WebContext
from hostler.web.errors import NOTHING_CHANGED, ErrorBody, build_error_response, build_response_for
from hostler.web.middleware import AuthMiddleware
from hostler.web.redaction import RedactedJSONResponse
from hostler.web.routes import (
    bus,
    live,
    pools,
    repositories,
    runs,
    system,
    task_batches,
    tasks,
)

API_PREFIX = "/api/v1"
_ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "Refused; nothing was changed"},
    "5XX": {"model": ErrorBody, "description": "Temporarily not possible, or an internal error"},
    422: {"model": ErrorBody, "description": "Invalid request"},
}
_KIND_BY_STATUS = {400: "bad_request", 404: "not_found", 405: "method_not_allowed"}


def build_app(
    context: WebContext, policy: AuthPolicy, sessions: SessionStore | None = None
) -> ASGIApp:
    """Build the application with authentication."""
    return add_authentication(build_api(), context, policy, sessions or SessionStore(context.clock))


def add_authentication(
    app: FastAPI, context: WebContext, policy: AuthPolicy, sessions: SessionStore
) -> ASGIApp:
    """Wrap the routes in authentication, and give them their context."""
    app.state.context, app.state.policy, app.state.sessions = context, policy, sessions
    return AuthMiddleware(app, policy, sessions)


def build_api() -> FastAPI:
    """Build the routes without authentication.

    The interactive API pages are off, because they load scripts from other hosts.
    """
    app = FastAPI(
        title="Hostler",
        version=__version__,
        description="Read the state of a Hostler installation, and control it.",
        openapi_url=f"{API_PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=RedactedJSONResponse,
        separate_input_output_schemas=False,
    )
    api = APIRouter(prefix=API_PREFIX, responses=_ERROR_RESPONSES)
    for router in (
        system.router,
        tasks.router,
        task_batches.router,
        runs.router,
        bus.router,
        pools.router,
        pools.history_router,
        repositories.router,
        system.events_router,
        live.router,
    ):
        api.include_router(router)
    app.include_router(api)
    app.include_router(system.metrics_router, responses=_ERROR_RESPONSES)
    app.include_router(pages.login_router)
    app.include_router(pages.static_router)
    app.add_exception_handler(HostlerError, _handle_hostler_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_http_error)
    app.add_exception_handler(Exception, _handle_unexpected_error)
    return app


async def _handle_hostler_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HostlerError)
    return build_response_for(error)


async def _handle_validation_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    # Do not repeat the input: it may be long, or contain a secret.
    location = ".".join(str(part) for part in first["loc"])
    return build_error_response(
        422, f"{location}: {first['msg']}.", NOTHING_CHANGED, kind="bad_request"
    )


async def _handle_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = _KIND_BY_STATUS.get(error.status_code, "refused")
    texts = {
        "bad_request": "The body is not valid JSON.",
        "not_found": "No such path.",
        "method_not_allowed": f"Method {request.method} is not allowed for this path.",
    }
    what = texts.get(kind, error.detail)
    return build_error_response(
        error.status_code, what, NOTHING_CHANGED, "See docs/reference/api.md.", kind, error.headers
    )


async def _handle_unexpected_error(request: Request, error: Exception) -> Response:
    log = request.app.state.context.log
    if log is not None:
        log.event(names.WEB_FAILED, error=error, method=request.method, path=request.url.path)
    return build_error_response(
        500,
        "Internal error in Hostler.",
        "Stored data is consistent.",
        "See the log for details, and please report this error.",
        "internal_error",
    )
