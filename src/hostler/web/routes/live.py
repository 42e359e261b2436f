"""Routes of the live streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from hostler.agents.agent_files import OutputStream
from hostler.bus.bus import BusLocation
from hostler.service.run_output import has_event_stream
from hostler.telemetry import names
from hostler.web.context import ContextDep, WebContext
from hostler.web.errors import InvalidValue, TooManyClients
from hostler.web.live.streams import (
    EventStream,
    stream_bus_messages,
    stream_readable_output,
    stream_run_output,
    stream_task_events,
)
from hostler.web.middleware import get_access_check
from hostler.web.routes.bus import check_message_id, find_project_bus, find_task_bus
from hostler.web.routes.runs import require_run
from hostler.web.schemas import Name

_EVENT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}, "description": "Server-Sent Events"}
}
router = APIRouter(prefix="/live", tags=["live"])
After = Annotated[str, Query(max_length=64)]
_LastId = Annotated[str, Header(alias="Last-Event-ID", max_length=64)]


@router.get("/tasks", response_class=Response, responses=_EVENT_RESPONSES)
async def tasks(
    request: Request, context: ContextDep, after: After = "", last: _LastId = ""
) -> Response:
    """Stream tasks as they change."""
    _check_client_limit(context)
    return _stream(request, context, stream_task_events(context.live, last or after))


@router.get("/runs/{run}", response_class=Response, responses=_EVENT_RESPONSES)
async def run(
    request: Request,
    context: ContextDep,
    run: Name,
    stream: OutputStream = OutputStream.STDOUT,
    readable: bool = False,
    after: After = "",
    last: _LastId = "",
) -> Response:
    """Stream a run's output. `readable`: as text if the agent prints JSON events."""
    _check_client_limit(context)
    found = await run_in_threadpool(require_run, context, run)
    offset = _parse_offset(last or after)
    if readable and stream is OutputStream.STDOUT and has_event_stream(found.agent_kind):
        return _stream(
            request,
            context,
            stream_readable_output(context.live, context.store, context.home, found, offset),
        )
    source = stream_run_output(context.live, context.store, context.home, found, stream, offset)
    return _stream(request, context, source)


@router.get("/tasks/{task}/bus", response_class=Response, responses=_EVENT_RESPONSES)
async def task_bus(
    request: Request, context: ContextDep, task: Name, after: After = "", last: _LastId = ""
) -> Response:
    """Stream messages of a task's bus."""
    return _stream_bus(
        request, context, await run_in_threadpool(find_task_bus, context, task), last or after
    )


@router.get("/projects/{project}/bus", response_class=Response, responses=_EVENT_RESPONSES)
async def project_bus(
    request: Request, context: ContextDep, project: Name, after: After = "", last: _LastId = ""
) -> Response:
    """Stream messages of a project's bus."""
    return _stream_bus(
        request, context, await run_in_threadpool(find_project_bus, context, project), last or after
    )


def _stream_bus(
    request: Request, context: WebContext, location: BusLocation, after: str
) -> Response:
    _check_client_limit(context)
    return _stream(
        request, context, stream_bus_messages(context.live, location.path, check_message_id(after))
    )


def _stream(request: Request, context: WebContext, source: AsyncIterator[bytes]) -> Response:
    def log_dropped() -> None:
        if context.log is not None:
            context.log.event(names.LIVE_CLIENT_DROPPED, path=request.url.path)

    return EventStream(source, on_dropped=log_dropped, has_access=get_access_check(request.scope))


def _check_client_limit(context: WebContext) -> None:
    """Raise TooManyClients before the response starts, while its status can still be set."""
    if context.live.is_full:
        raise TooManyClients("The limit of live clients is reached.", "Close some and try again.")


def _parse_offset(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InvalidValue(f"Invalid output offset {text[:40]!r}.", "Send the id of an event.")
    return int(text)
