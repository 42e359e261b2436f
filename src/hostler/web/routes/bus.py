"""Routes to read and post bus messages."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query

from hostler.bus.bus import Bus, BusLocation
from hostler.bus.errors import BadMessage
from hostler.bus.message import MessageSender, MessageType, is_id
from hostler.bus.reader import BusSnapshot
from hostler.bus.writer import BusOptions
from hostler.service.running.bus_messages import BusMessageDraft, BusPoster
from hostler.service.tasks.details import resolve_task
from hostler.telemetry.redaction import redact
from hostler.web.context import ContextDep, WebContext
from hostler.web.errors import NotHere
from hostler.web.schemas import Limit, Messages, Name, Object, PlacedPost, Post

router = APIRouter(tags=["buses"])
Types = Annotated[list[MessageType], Query(max_length=len(MessageType))]
After = Annotated[str, Query(max_length=40)]


@router.get("/tasks/{task}/bus")
def of_task(
    context: ContextDep,
    task: Name,
    type: Types = [],  # noqa: B006
    after: After = "",
    limit: Limit = 50,
) -> Messages:
    """Messages of a task's bus."""
    return _read(find_task_bus(context, task), type, after, limit)


@router.post("/tasks/{task}/bus", status_code=201)
def post_to_task(context: ContextDep, task: Name, said: Post) -> Object:
    """Say something on a task's bus; its agents hear it."""
    return _post(context, find_task_bus(context, task), said)


@router.get("/projects/{project}/bus")
def of_project(
    context: ContextDep,
    project: Name,
    type: Types = [],  # noqa: B006
    after: After = "",
    limit: Limit = 50,
) -> Messages:
    """Messages of a project's bus."""
    return _read(find_project_bus(context, project), type, after, limit)


@router.post("/projects/{project}/bus", status_code=201)
def post_to_project(context: ContextDep, project: Name, said: Post) -> Object:
    """Say something on a project's bus."""
    return _post(context, find_project_bus(context, project), said)


@router.post("/bus", status_code=201)
def post_to_folder(context: ContextDep, said: PlacedPost) -> Object:
    """Say something on the bus of a folder of the home, as `hostler bus post` does."""
    if not said.text.strip():
        raise BadMessage("The message is empty.", "Say something.")
    terms = BusOptions.of(context.settings.tasks)
    box = BusPoster(context.home, context.clock, terms, MessageSender.person(context.by))
    kind = MessageType(said.type)
    letter = BusMessageDraft(said.project, said.task, kind, said.text, said.thread, said.create)
    return dict(box.post(letter))


def find_task_bus(context: WebContext, task: str) -> BusLocation:
    """Where the bus of a task is."""
    with context.store.read() as tx:
        found = resolve_task(tx, task)
    return BusLocation(context.home, found.project, found.id)


def find_project_bus(context: WebContext, project: str) -> BusLocation:
    """Where the bus of a project is; one that is watched may have none yet."""
    place = BusLocation(context.home, project)
    if not place.exists and project not in context.settings.repo:
        raise NotHere(f"There is no project {project!r}.", "`GET /api/v1/projects` lists them.")
    return place


def check_message_id(after: str) -> str:
    """The id of a message, or none; nothing else."""
    if after and not is_id(after):
        raise BadMessage(f"{after[:40]!r} is no id of a message.", "Take one from a message.")
    return after


def _read(place: BusLocation, types: list[MessageType], after: str, limit: int) -> Messages:
    def wanted(message: object) -> bool:
        return not types or getattr(message, "type", None) in types

    with BusSnapshot(place.path) as look:
        if check_message_id(after):
            found = list(islice(filter(wanted, look.read(after)), limit))
        else:
            found = look.last(limit, wanted)
        return Messages(messages=[dict(one.stored()) for one in found], skipped=look.skipped)


def _post(context: WebContext, place: BusLocation, said: Post) -> Object:
    bus = Bus(place.path, context.clock, BusOptions.of(context.settings.tasks))
    if not said.text.strip():
        raise BadMessage("The message is empty.", "Say something.")
    sender = MessageSender.person(context.by)
    message = bus.create().post(
        MessageType(said.type), redact(said.text), sender, thread=check_message_id(said.thread)
    )
    return dict(message.stored())
