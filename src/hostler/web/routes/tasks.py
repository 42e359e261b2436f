"""Routes to submit, list, show, explain and control tasks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.encoders import jsonable_encoder

from hostler.service.context import read_presence
from hostler.service.scheduling.explain import explain_task
from hostler.service.tasks.details import brief_json, read_task_details, resolve_task
from hostler.service.tasks.submission import LocalTaskQueue, SubmissionContext, TaskRequest
from hostler.store.tasks import task_page
from hostler.web.context import ContextDep
from hostler.web.schemas import (
    NAME_PATTERN,
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
    build_changed_tasks,
    get_reason,
)
from hostler.workflows.manual_tasks import NotSubmitted

router = APIRouter(prefix="/tasks", tags=["tasks"])


@router.get("")
def list_tasks(
    context: ContextDep,
    state: States = [],  # noqa: B006
    project: Filter = "",
    parent: Filter = "",
    before: Annotated[str, Query(max_length=100, pattern=f"^$|{NAME_PATTERN}")] = "",
    limit: Limit = 50,
) -> TaskPage:
    """Tasks, newest first, a page at a time."""
    with context.store.read() as tx:
        found = task_page(
            tx, limit + 1, before=before, states=state, project=project, parent=parent
        )
    shown = found[:limit]
    return TaskPage.model_validate(
        {
            "tasks": [brief_json(task) for task in shown],
            "next": shown[-1].id if len(found) > limit else None,
        }
    )


@router.post("", status_code=201)
def submit(context: ContextDep, asked: Submission) -> Object:
    """Queue a task by hand, on a repository or in a folder."""
    wish = TaskRequest(
        prompt=asked.prompt,
        author=context.by,
        here="",
        project=asked.project,
        cwd=_check_folder(asked),
        repo=asked.repo,
        agent=asked.agent,
        env=tuple(asked.env),
        wall_limit_minutes=asked.wall_limit_minutes,
        max_restarts=asked.max_restarts,
        title=asked.title,
    )
    at = SubmissionContext(context.home, context.settings, presence=read_presence(context.home))
    return asdict(LocalTaskQueue(context.store, at).submit(wish, asked.depends_on))


@router.get("/{task}")
def show(context: ContextDep, task: Name) -> Object:
    """Everything about one task."""
    with context.store.read() as tx:
        found = read_task_details(tx, context.home, context.settings, resolve_task(tx, task))
    shown: Object = jsonable_encoder(found.as_json())
    return shown


@router.get("/{task}/why")
def explain(context: ContextDep, task: Name) -> Object:
    """Which gate holds it, since when, and what to do."""
    inquiry = context.lookout.inquiry()
    with context.store.read() as tx:
        return explain_task(tx, inquiry, resolve_task(tx, task)).as_json()


@router.post("/{task}/stop")
def stop(context: ContextDep, task: Name, reason: Reason | None = None) -> ChangedTasks:
    """Stop it and what came from it; agents are ended."""
    return build_changed_tasks(context.director.stop([task], get_reason(reason)))


@router.post("/{task}/cancel")
def cancel(context: ContextDep, task: Name, reason: Reason | None = None) -> ChangedTasks:
    """Stop it for good: only a retry brings it back."""
    return build_changed_tasks(context.director.cancel([task], get_reason(reason)))


@router.post("/{task}/resume")
def resume(context: ContextDep, task: Name, reason: Reason | None = None) -> ChangedTasks:
    """Let it go on where it was."""
    return build_changed_tasks(context.director.resume([task], get_reason(reason)))


@router.post("/{task}/retry")
def retry(context: ContextDep, task: Name, reason: Reason | None = None) -> ChangedTasks:
    """Begin anew."""
    return build_changed_tasks(context.director.retry([task], get_reason(reason)))


@router.post("/{task}/answer")
def answer(context: ContextDep, task: Name, said: Answer) -> ChangedTasks:
    """Answer the question of a task by hand."""
    return build_changed_tasks([context.director.answer(task, said.text)])


def _check_folder(asked: Submission) -> str:
    """A folder that there is, by its whole name; empty where a repository is named."""
    if not asked.cwd:
        if not asked.repo:
            raise NotSubmitted("A task works somewhere.", "Name a `repo`, or a folder as `cwd`.")
        return ""
    found = Path(asked.cwd)
    if "\0" in asked.cwd or not found.is_absolute() or not found.is_dir():
        raise NotSubmitted(f"There is no folder {asked.cwd[:200]!r}.", "Name it from / on.")
    return str(found)
