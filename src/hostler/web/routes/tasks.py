"""Tasks: submit, list, show, why, and what people do with them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.encoders import jsonable_encoder

from hostler.flows.submitting import NotSubmitted
from hostler.service.naming import task_meant
from hostler.service.ordering import Wish
from hostler.service.portrait import brief, portrait
from hostler.service.presence import presence
from hostler.service.submission import Context, HandQueue
from hostler.service.why import why
from hostler.store.tasks import task_page
from hostler.web.desk import At
from hostler.web.shapes import (
    NAME,
    Answer,
    ChangedTasks,
    Filter,
    Limit,
    Name,
    Object,
    Reason,
    States,
    Submission,
    TaskPage,
    changed_tasks,
    why_of,
)

router = APIRouter(prefix="/tasks", tags=["tasks"])


@router.get("")
def list_tasks(
    desk: At,
    state: States = [],  # noqa: B006
    project: Filter = "",
    parent: Filter = "",
    before: Annotated[str, Query(max_length=100, pattern=f"^$|{NAME}")] = "",
    limit: Limit = 50,
) -> TaskPage:
    """Tasks, newest first, a page at a time."""
    with desk.store.read() as tx:
        found = task_page(
            tx, limit + 1, before=before, states=state, project=project, parent=parent
        )
    shown = found[:limit]
    return TaskPage.model_validate(
        {
            "tasks": [brief(task) for task in shown],
            "next": shown[-1].id if len(found) > limit else None,
        }
    )


@router.post("", status_code=201)
def submit(desk: At, asked: Submission) -> Object:
    """Queue a task by hand, on a repository or in a folder."""
    wish = Wish(
        prompt=asked.prompt,
        author=desk.by,
        here="",
        project=asked.project,
        cwd=_folder(asked),
        repo=asked.repo,
        agent=asked.agent,
        env=tuple(asked.env),
        wall_limit_minutes=asked.wall_limit_minutes,
        max_restarts=asked.max_restarts,
        title=asked.title,
    )
    at = Context(desk.home, desk.settings, presence=presence(desk.home))
    return asdict(HandQueue(desk.store, at).submit(wish, asked.depends_on))


@router.get("/{task}")
def show(desk: At, task: Name) -> Object:
    """Everything about one task."""
    with desk.store.read() as tx:
        found = portrait(tx, desk.home, desk.settings, task_meant(tx, task))
    shown: Object = jsonable_encoder(found.as_json())
    return shown


@router.get("/{task}/why")
def explain(desk: At, task: Name) -> Object:
    """Which gate holds it, since when, and what to do."""
    inquiry = desk.lookout.inquiry()
    with desk.store.read() as tx:
        return why(tx, inquiry, task_meant(tx, task)).as_json()


@router.post("/{task}/stop")
def stop(desk: At, task: Name, reason: Reason | None = None) -> ChangedTasks:
    """Stop it and what came from it; agents are ended."""
    return changed_tasks(desk.director.stop([task], why_of(reason)))


@router.post("/{task}/cancel")
def cancel(desk: At, task: Name, reason: Reason | None = None) -> ChangedTasks:
    """Stop it for good: only a retry brings it back."""
    return changed_tasks(desk.director.cancel([task], why_of(reason)))


@router.post("/{task}/resume")
def resume(desk: At, task: Name, reason: Reason | None = None) -> ChangedTasks:
    """Let it go on where it was."""
    return changed_tasks(desk.director.resume([task], why_of(reason)))


@router.post("/{task}/retry")
def retry(desk: At, task: Name, reason: Reason | None = None) -> ChangedTasks:
    """Begin anew."""
    return changed_tasks(desk.director.retry([task], why_of(reason)))


@router.post("/{task}/answer")
def answer(desk: At, task: Name, said: Answer) -> ChangedTasks:
    """Answer the question of a task by hand."""
    return changed_tasks([desk.director.answer(task, said.text)])


def _folder(asked: Submission) -> str:
    """A folder that there is, by its whole name; empty where a repository is named."""
    if not asked.cwd:
        if not asked.repo:
            raise NotSubmitted("A task works somewhere.", "Name a `repo`, or a folder as `cwd`.")
        return ""
    found = Path(asked.cwd)
    if "\0" in asked.cwd or not found.is_absolute() or not found.is_dir():
        raise NotSubmitted(f"There is no folder {asked.cwd[:200]!r}.", "Name it from / on.")
    return str(found)
