"""The application: routes, one shape for errors, and the doors before all of it."""

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
from hostler.web import dashboard, pages
from hostler.web.desk import Desk
from hostler.web.doors import Locks
from hostler.web.guard import Guard
from hostler.web.hiding import Answer
from hostler.web.refusals import SAFE, ErrorBody, answer, refused
from hostler.web.routes import (
    bus,
    events,
    house,
    live,
    named,
    pools,
    records,
    repositories,
    runs,
    tasks,
)
from hostler.web.sessions import Sessions

PREFIX = "/api/v1"
_REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "Refused; nothing was changed"},
    "5XX": {"model": ErrorBody, "description": "It could not be done now"},
    422: {"model": ErrorBody, "description": "The request cannot be understood"},
}
_KINDS = {400: "not_understood", 404: "not_found", 405: "not_allowed"}


def make_app(desk: Desk, locks: Locks, sessions: Sessions | None = None) -> ASGIApp:
    """Everything behind the doors."""
    return behind(make_api(), desk, locks, sessions or Sessions(desk.clock))


def behind(app: FastAPI, desk: Desk, locks: Locks, sessions: Sessions) -> ASGIApp:
    """The doors, and behind them the routes, at this desk."""
    app.state.desk, app.state.locks, app.state.sessions = desk, locks, sessions
    return Guard(app, locks, sessions)


def make_api() -> FastAPI:
    """The routes alone. Pages about them would load scripts from elsewhere: there are none."""
    app = FastAPI(
        title="Hostler",
        version=__version__,
        description="What goes on in a home of Hostler, and commands for it.",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=Answer,
        separate_input_output_schemas=False,
    )
    whole = APIRouter(prefix=PREFIX, responses=_REFUSALS)
    for part in (house, tasks, named, runs, bus, pools, records, repositories, events, live):
        whole.include_router(part.router)
    app.include_router(whole)
    app.include_router(house.top, responses=_REFUSALS)
    app.include_router(pages.router)
    app.include_router(dashboard.router)
    app.add_exception_handler(HostlerError, _refused)
    app.add_exception_handler(RequestValidationError, _misunderstood)
    app.add_exception_handler(HTTPException, _not_here)
    app.add_exception_handler(Exception, _broken)
    return app


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HostlerError)
    return refused(error)


async def _misunderstood(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    # What was sent may be long, or a secret in the wrong place: only where and why are told.
    place = ".".join(str(part) for part in first["loc"])
    return answer(422, f"{place}: {first['msg']}.", SAFE, kind="not_understood")


async def _not_here(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = _KINDS.get(error.status_code, "refused")
    said = {
        "not_understood": "The body cannot be read as JSON.",
        "not_found": "There is nothing at this address.",
        "not_allowed": f"{request.method} is not for this address.",
    }
    what = said.get(kind, error.detail)
    return answer(error.status_code, what, SAFE, "See docs/api.md.", kind, error.headers)


async def _broken(request: Request, error: Exception) -> Response:
    log = request.app.state.desk.log
    if log is not None:
        log.event(names.WEB_FAILED, error=error, method=request.method, path=request.url.path)
    return answer(
        500,
        "Something is wrong in Hostler itself.",
        "What was stored is whole.",
        "The log says more; please report it.",
        "defect",
    )
