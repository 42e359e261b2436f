"""Runs: one of them, what its agent printed, and its end."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response
from fastapi.encoders import jsonable_encoder

from hostler.agents.lines import Stream
from hostler.service.portrait import run_json
from hostler.store.runs import LIVE, Run, RunState, find_run
from hostler.web.desk import At, Desk
from hostler.web.outputs import LARGEST, read_shown, size_of, span_of
from hostler.web.refusals import NotHere, RunOver
from hostler.web.shapes import ChangedTasks, Name, Object, Reason, changed_tasks, why_of

router = APIRouter(prefix="/runs", tags=["runs"])


@router.get("/{run}")
def show(desk: At, run: Name) -> Object:
    """One run: how far it is, what it used, how it ended."""
    found = the_run(desk, run)
    with desk.store.read() as tx:
        shown = run_json(found, desk.home, tx.now())
    sizes = {name.value: size_of(desk.home / found.folder / name) for name in Stream}
    whole: Object = jsonable_encoder(
        {**shown, "task": found.task_id, "project": found.project, "pool": found.pool}
        | {"output_bytes": sizes}
    )
    return whole


@router.get(
    "/{run}/output",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, 206: {"content": {"text/plain": {}}}},
)
def output(
    desk: At,
    run: Name,
    stream: Stream = Stream.STDOUT,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=LARGEST)] = LARGEST,
    asked: Annotated[str, Header(alias="Range", max_length=100)] = "",
) -> Response:
    """What its agent printed, by bytes: from `offset` on, or by `Range`; secrets are covered."""
    found = the_run(desk, run)
    path = desk.home / found.folder / stream
    size = size_of(path)
    span = span_of(size, asked, offset, limit)
    over = found.state not in LIVE
    data = read_shown(path, span, over=over)
    headers = {
        "X-Hostler-Offset": str(span.start),
        "X-Hostler-End": str(span.start + len(data)),
        "X-Hostler-Size": str(size),
        "X-Hostler-Over": "1" if over else "0",
        "Accept-Ranges": "bytes",
    }
    if asked:
        end = span.start + max(len(data), 1) - 1
        headers["Content-Range"] = f"bytes {span.start}-{end}/{size}"
    return Response(data, 206 if asked else 200, headers, media_type="text/plain; charset=utf-8")


@router.post("/{run}/stop")
def stop(desk: At, run: Name, reason: Reason | None = None) -> ChangedTasks:
    """End its agent, and stop its task: nothing starts again by itself."""
    found = the_run(desk, run)
    if found.state is RunState.ENDED:
        raise RunOver(f"The run {run} has ended.", "Stop its task, if it is to go on no more.")
    changed = desk.director.stop([found.task_id], why_of(reason))
    return changed_tasks(changed)


def the_run(desk: Desk, name: str) -> Run:
    """A run by its name."""
    with desk.store.read() as tx:
        found = find_run(tx, name)
    if found is None:
        raise NotHere(f"There is no run {name!r}.", "`GET /api/v1/tasks/{task}` lists its runs.")
    return found
