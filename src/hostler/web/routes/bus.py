"""Buses: what was said about a task or in a project, and saying something."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query

from hostler.bus import Bus, MessageType, Sender, Terms
from hostler.bus.errors import BadMessage
from hostler.bus.ids import is_id
from hostler.bus.place import Place
from hostler.bus.reading import Look
from hostler.service.naming import task_meant
from hostler.service.posting import Letter, Postbox
from hostler.telemetry.redact import redact
from hostler.web.desk import At, Desk
from hostler.web.refusals import NotHere
from hostler.web.shapes import Limit, Messages, Name, Object, PlacedPost, Post

router = APIRouter(tags=["buses"])
Types = Annotated[list[MessageType], Query(max_length=len(MessageType))]
After = Annotated[str, Query(max_length=40)]


@router.get("/tasks/{task}/bus")
def of_task(
    desk: At,
    task: Name,
    type: Types = [],  # noqa: B006
    after: After = "",
    limit: Limit = 50,
) -> Messages:
    """Messages of a task's bus."""
    return _read(task_place(desk, task), type, after, limit)


@router.post("/tasks/{task}/bus", status_code=201)
def post_to_task(desk: At, task: Name, said: Post) -> Object:
    """Say something on a task's bus; its agents hear it."""
    return _post(desk, task_place(desk, task), said)


@router.get("/projects/{project}/bus")
def of_project(
    desk: At,
    project: Name,
    type: Types = [],  # noqa: B006
    after: After = "",
    limit: Limit = 50,
) -> Messages:
    """Messages of a project's bus."""
    return _read(project_place(desk, project), type, after, limit)


@router.post("/projects/{project}/bus", status_code=201)
def post_to_project(desk: At, project: Name, said: Post) -> Object:
    """Say something on a project's bus."""
    return _post(desk, project_place(desk, project), said)


@router.post("/bus", status_code=201)
def post_to_folder(desk: At, said: PlacedPost) -> Object:
    """Say something on the bus of a folder of the home, as `hostler bus post` does."""
    if not said.text.strip():
        raise BadMessage("The message is empty.", "Say something.")
    terms = Terms.of(desk.settings.tasks)
    box = Postbox(desk.home, desk.clock, terms, Sender.person(desk.by))
    kind = MessageType(said.type)
    letter = Letter(said.project, said.task, kind, said.text, said.thread, said.create)
    return dict(box.post(letter))


def task_place(desk: Desk, task: str) -> Place:
    """Where the bus of a task is."""
    with desk.store.read() as tx:
        found = task_meant(tx, task)
    return Place(desk.home, found.project, found.id)


def project_place(desk: Desk, project: str) -> Place:
    """Where the bus of a project is; one that is watched may have none yet."""
    place = Place(desk.home, project)
    if not place.exists and project not in desk.settings.repo:
        raise NotHere(f"There is no project {project!r}.", "`GET /api/v1/projects` lists them.")
    return place


def checked_after(after: str) -> str:
    """The id of a message, or none; nothing else."""
    if after and not is_id(after):
        raise BadMessage(f"{after[:40]!r} is no id of a message.", "Take one from a message.")
    return after


def _read(place: Place, types: list[MessageType], after: str, limit: int) -> Messages:
    def wanted(message: object) -> bool:
        return not types or getattr(message, "type", None) in types

    with Look(place.path) as look:
        if checked_after(after):
            found = list(islice(filter(wanted, look.read(after)), limit))
        else:
            found = look.last(limit, wanted)
        return Messages(messages=[dict(one.stored()) for one in found], skipped=look.skipped)


def _post(desk: Desk, place: Place, said: Post) -> Object:
    bus = Bus(place.path, desk.clock, Terms.of(desk.settings.tasks))
    if not said.text.strip():
        raise BadMessage("The message is empty.", "Say something.")
    sender = Sender.person(desk.by)
    message = bus.create().post(
        MessageType(said.type), redact(said.text), sender, thread=checked_after(said.thread)
    )
    return dict(message.stored())
