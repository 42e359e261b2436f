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
    "5XX": {"model": ErrorBody, "description": "It could not be done now"},
    422: {"model": ErrorBody, "description": "The request cannot be understood"},
}
_KIND_BY_STATUS = {400: "not_understood", 404: "not_found", 405: "not_allowed"}


def build_app(
    context: WebContext, policy: AuthPolicy, sessions: SessionStore | None = None
) -> ASGIApp:
    """Everything behind the doors."""
    return add_authentication(build_api(), context, policy, sessions or SessionStore(context.clock))


def add_authentication(
    app: FastAPI, context: WebContext, policy: AuthPolicy, sessions: SessionStore
) -> ASGIApp:
    """The doors, and behind them the routes, at this desk."""
    app.state.context, app.state.policy, app.state.sessions = context, policy, sessions
    return AuthMiddleware(app, policy, sessions)


def build_api() -> FastAPI:
    """The routes alone. Pages about them would load scripts from elsewhere: there are none."""
    app = FastAPI(
        title="Hostler",
        version=__version__,
        description="What goes on in a home of Hostler, and commands for it.",
        openapi_url=f"{API_PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=RedactedJSONResponse,
        separate_input_output_schemas=False,
    )
    whole = APIRouter(prefix=API_PREFIX, responses=_ERROR_RESPONSES)
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
        whole.include_router(router)
    app.include_router(whole)
    app.include_router(system.top, responses=_ERROR_RESPONSES)
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
    # What was sent may be long, or a secret in the wrong place: only where and why are told.
    place = ".".join(str(part) for part in first["loc"])
    return build_error_response(
        422, f"{place}: {first['msg']}.", NOTHING_CHANGED, kind="not_understood"
    )


async def _handle_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = _KIND_BY_STATUS.get(error.status_code, "refused")
    said = {
        "not_understood": "The body cannot be read as JSON.",
        "not_found": "There is nothing at this address.",
        "not_allowed": f"{request.method} is not for this address.",
    }
    what = said.get(kind, error.detail)
    return build_error_response(
        error.status_code, what, NOTHING_CHANGED, "See docs/reference/api.md.", kind, error.headers
    )


async def _handle_unexpected_error(request: Request, error: Exception) -> Response:
    log = request.app.state.context.log
    if log is not None:
        log.event(names.WEB_FAILED, error=error, method=request.method, path=request.url.path)
    return build_error_response(
        500,
        "Something is wrong in Hostler itself.",
        "What was stored is whole.",
        "The log says more; please report it.",
        "defect",
    )
