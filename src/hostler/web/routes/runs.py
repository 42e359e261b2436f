"""Routes to show a run, read its output and stop it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response
from fastapi.encoders import jsonable_encoder

from hostler.agents.agent_files import OutputStream
from hostler.service.tasks.details import run_json
from hostler.store.runs import LIVE, Run, RunState, find_run
from hostler.web.context import ContextDep, WebContext
from hostler.web.errors import ResourceNotFound, RunAlreadyEnded
from hostler.web.run_output import MAX_OUTPUT_BYTES, get_size, parse_range, read_masked
from hostler.web.schemas import (
    ChangedTasks,
    Name,
    Object,
    ReasonBody,
    build_changed_tasks,
    get_reason,
)

router = APIRouter(prefix="/runs", tags=["runs"])


@router.get("/{run}")
def show(context: ContextDep, run: Name) -> Object:
    """Return one run: state, usage and outcome."""
    found = require_run(context, run)
    with context.store.read() as tx:
        shown = run_json(found, context.home, tx.now())
    sizes = {name.value: get_size(context.home / found.folder / name) for name in OutputStream}
    encoded: Object = jsonable_encoder(
        {**shown, "task": found.task_id, "project": found.project, "pool": found.pool}
        | {"output_bytes": sizes}
    )
    return encoded


@router.get(
    "/{run}/output",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, 206: {"content": {"text/plain": {}}}},
)
def output(
    context: ContextDep,
    run: Name,
    stream: OutputStream = OutputStream.STDOUT,
    offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_OUTPUT_BYTES)] = MAX_OUTPUT_BYTES,
    byte_range: Annotated[str, Header(alias="Range", max_length=100)] = "",
) -> Response:
    """Return the run's output from `offset` or by `Range`, with secrets masked."""
    found = require_run(context, run)
    path = context.home / found.folder / stream
    size = get_size(path)
    span = parse_range(size, byte_range, offset, limit)
    complete = found.state not in LIVE
    data = read_masked(path, span, complete=complete)
    headers = {
        "X-Hostler-Offset": str(span.start),
        "X-Hostler-End": str(span.start + len(data)),
        "X-Hostler-Size": str(size),
        "X-Hostler-Complete": "1" if complete else "0",
        "Accept-Ranges": "bytes",
    }
    if byte_range:
        end = span.start + max(len(data), 1) - 1
        headers["Content-Range"] = f"bytes {span.start}-{end}/{size}"
    return Response(
        data, 206 if byte_range else 200, headers, media_type="text/plain; charset=utf-8"
    )


@router.post("/{run}/stop")
def stop(context: ContextDep, run: Name, reason: ReasonBody | None = None) -> ChangedTasks:
    """Stop the agent and its task. Neither restarts automatically."""
    found = require_run(context, run)
    if found.state is RunState.ENDED:
        raise RunAlreadyEnded(
            f"The run {run} has ended.", "To prevent further runs, stop its task."
        )
    changed = context.controller.stop([found.task_id], get_reason(reason))
    return build_changed_tasks(changed)


def require_run(context: WebContext, name: str) -> Run:
    """Return a run; raise ResourceNotFound if there is none."""
    with context.store.read() as tx:
        found = find_run(tx, name)
    if found is None:
        raise ResourceNotFound(
            f"There is no run {name!r}.", "`GET /api/v1/tasks/{task}` lists its runs."
        )
    return found
