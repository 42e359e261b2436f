"""Routes to read and post bus messages."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query

from hostler.bus.bus import Bus, BusLocation
from hostler.bus.errors import InvalidMessage
from hostler.bus.message import MessageSender, MessageType, is_id
from hostler.bus.reader import BusSnapshot
from hostler.bus.writer import BusOptions
from hostler.service.running.bus_messages import BusMessageDraft, BusPoster
from hostler.service.tasks.details import resolve_task
from hostler.telemetry.redaction import redact
from hostler.web.context import ContextDep, WebContext
from hostler.web.errors import ResourceNotFound
from hostler.web.schemas import (
    AddressedBusMessageBody,
    BusMessageBody,
    BusMessages,
    Limit,
    Name,
    Object,
)

router = APIRouter(tags=["buses"])
Types = Annotated[list[MessageType], Query(max_length=len(MessageType))]
After = Annotated[str, Query(max_length=40)]


@router.get("/tasks/{task}/bus")
def list_task_messages(
    context: ContextDep,
    task: Name,
    type: Types = [],  # noqa: B006
    after: After = "",
    limit: Limit = 50,
) -> BusMessages:
    """Return messages of a task's bus."""
    return _read(find_task_bus(context, task), type, after, limit)


@router.post("/tasks/{task}/bus", status_code=201)
def post_to_task(context: ContextDep, task: Name, body: BusMessageBody) -> Object:
    """Post a message on a task's bus. Agents read it with `hostler bus read`."""
    return _post(context, find_task_bus(context, task), body)


@router.get("/projects/{project}/bus")
def list_project_messages(
    context: ContextDep,
    project: Name,
    type: Types = [],  # noqa: B006
    after: After = "",
    limit: Limit = 50,
) -> BusMessages:
    """Return messages of a project's bus."""
    return _read(find_project_bus(context, project), type, after, limit)


@router.post("/projects/{project}/bus", status_code=201)
def post_to_project(context: ContextDep, project: Name, body: BusMessageBody) -> Object:
    """Post a message on a project's bus."""
    return _post(context, find_project_bus(context, project), body)


@router.post("/bus", status_code=201)
def post_to_bus(context: ContextDep, body: AddressedBusMessageBody) -> Object:
    """Post a message on the bus of a project or task, as `hostler bus post` does."""
    if not body.text.strip():
        raise InvalidMessage("The message is empty.", "Enter a text.")
    options = BusOptions.of(context.settings.tasks)
    poster = BusPoster(context.home, context.clock, options, MessageSender.person(context.by))
    kind = MessageType(body.type)
    draft = BusMessageDraft(body.project, body.task, kind, body.text, body.thread, body.create)
    return dict(poster.post(draft))


def find_task_bus(context: WebContext, task: str) -> BusLocation:
    """Return the location of a task's bus."""
    with context.store.read() as tx:
        found = resolve_task(tx, task)
    return BusLocation(context.home, found.project, found.id)


def find_project_bus(context: WebContext, project: str) -> BusLocation:
    """Return the location of a project's bus, which a watched project may not have yet."""
    location = BusLocation(context.home, project)
    if not location.exists and project not in context.settings.repo:
        raise ResourceNotFound(
            f"There is no project {project!r}.", "`GET /api/v1/projects` lists them."
        )
    return location


def check_message_id(after: str) -> str:
    """Return the message id; raise InvalidMessage if it is not valid."""
    if after and not is_id(after):
        raise InvalidMessage(f"Invalid message id {after[:40]!r}.", "Use the `id` of a message.")
    return after


def _read(location: BusLocation, types: list[MessageType], after: str, limit: int) -> BusMessages:
    def is_wanted(message: object) -> bool:
        return not types or getattr(message, "type", None) in types

    with BusSnapshot(location.path) as snapshot:
        if check_message_id(after):
            found = list(islice(filter(is_wanted, snapshot.read(after)), limit))
        else:
            found = snapshot.last(limit, is_wanted)
        return BusMessages(messages=[dict(one.stored()) for one in found], skipped=snapshot.skipped)


def _post(context: WebContext, location: BusLocation, body: BusMessageBody) -> Object:
    bus = Bus(location.path, context.clock, BusOptions.of(context.settings.tasks))
    if not body.text.strip():
        raise InvalidMessage("The message is empty.", "Enter a text.")
    sender = MessageSender.person(context.by)
    message = bus.create().post(
        MessageType(body.type), redact(body.text), sender, thread=check_message_id(body.thread)
    )
    return dict(message.stored())
