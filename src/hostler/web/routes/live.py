"""Live streams, as Server-Sent Events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from hostler.agents.lines import Stream
from hostler.bus.place import Place
from hostler.service.readable import has_stream
from hostler.telemetry import names
from hostler.web.desk import At, Desk
from hostler.web.guard import lasts_of
from hostler.web.live.sources import bus_messages, run_output, task_events
from hostler.web.live.sse import EventStream
from hostler.web.live.telling import told_output
from hostler.web.refusals import TooMany, Unusable
from hostler.web.routes.bus import checked_after, project_place, task_place
from hostler.web.routes.runs import the_run
from hostler.web.shapes import Name

EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {}}, "description": "Server-Sent Events"}
}
router = APIRouter(prefix="/live", tags=["live"])
After = Annotated[str, Query(max_length=64)]
LastId = Annotated[str, Header(alias="Last-Event-ID", max_length=64)]


@router.get("/tasks", response_class=Response, responses=EVENTS)
async def tasks(request: Request, desk: At, after: After = "", last: LastId = "") -> Response:
    """Tasks as they change."""
    _require_room(desk)
    return _stream(request, desk, task_events(desk.live, last or after))


@router.get("/runs/{run}", response_class=Response, responses=EVENTS)
async def run(
    request: Request,
    desk: At,
    run: Name,
    stream: Stream = Stream.STDOUT,
    told: bool = False,
    after: After = "",
    last: LastId = "",
) -> Response:
    """What a run's agent prints; `told`: in words, where it speaks in events."""
    _require_room(desk)
    found = await run_in_threadpool(the_run, desk, run)
    offset = _offset(last or after)
    if told and stream is Stream.STDOUT and has_stream(found.agent_kind):
        return _stream(request, desk, told_output(desk.live, desk.store, desk.home, found, offset))
    source = run_output(desk.live, desk.store, desk.home, found, stream, offset)
    return _stream(request, desk, source)


@router.get("/tasks/{task}/bus", response_class=Response, responses=EVENTS)
async def task_bus(
    request: Request, desk: At, task: Name, after: After = "", last: LastId = ""
) -> Response:
    """Messages of a task's bus."""
    return _bus(request, desk, await run_in_threadpool(task_place, desk, task), last or after)


@router.get("/projects/{project}/bus", response_class=Response, responses=EVENTS)
async def project_bus(
    request: Request, desk: At, project: Name, after: After = "", last: LastId = ""
) -> Response:
    """Messages of a project's bus."""
    return _bus(request, desk, await run_in_threadpool(project_place, desk, project), last or after)


def _bus(request: Request, desk: Desk, place: Place, after: str) -> Response:
    _require_room(desk)
    return _stream(request, desk, bus_messages(desk.live, place.path, checked_after(after)))


def _stream(request: Request, desk: Desk, source: AsyncIterator[bytes]) -> Response:
    def dropped() -> None:
        if desk.log is not None:
            desk.log.event(names.LIVE_CLIENT_DROPPED, path=request.url.path)

    return EventStream(source, dropped=dropped, lasts=lasts_of(request.scope))


def _require_room(desk: Desk) -> None:
    """Before the answer begins: afterwards, no status can be told any more."""
    if desk.live.full:
        raise TooMany("Too many clients follow already.", "Close some, and try again.")


def _offset(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise Unusable(f"{text[:40]!r} is no place in an output.", "Send the id of an event.")
    return int(text)
