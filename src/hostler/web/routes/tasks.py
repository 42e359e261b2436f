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
    AnswerBody,
    ChangedTasks,
    Filter,
    Limit,
    Name,
    Object,
    ReasonBody,
    States,
    TaskPage,
    TaskSubmissionBody,
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
    """Return a page of tasks, newest first."""
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
def submit(context: ContextDep, body: TaskSubmissionBody) -> Object:
    """Queue a manual task in a repository or folder."""
    request = TaskRequest(
        prompt=body.prompt,
        author=context.by,
        here="",
        project=body.project,
        cwd=_check_folder(body),
        repo=body.repo,
        agent=body.agent,
        env=tuple(body.env),
        wall_limit_minutes=body.wall_limit_minutes,
        max_restarts=body.max_restarts,
        title=body.title,
    )
    submission = SubmissionContext(
        context.home, context.settings, presence=read_presence(context.home)
    )
    return asdict(LocalTaskQueue(context.store, submission).submit(request, body.depends_on))


@router.get("/{task}")
def show(context: ContextDep, task: Name) -> Object:
    """Return all details of a task."""
    with context.store.read() as tx:
        found = read_task_details(tx, context.home, context.settings, resolve_task(tx, task))
    shown: Object = jsonable_encoder(found.as_json())
    return shown


@router.get("/{task}/why")
def explain(context: ContextDep, task: Name) -> Object:
    """Explain which gate denies the task, since when, and what to do."""
    inputs = context.snapshots.read_inputs()
    with context.store.read() as tx:
        return explain_task(tx, inputs, resolve_task(tx, task)).as_json()


@router.post("/{task}/stop")
def stop(context: ContextDep, task: Name, reason: ReasonBody | None = None) -> ChangedTasks:
    """Stop a task, its children and their agents."""
    return build_changed_tasks(context.controller.stop([task], get_reason(reason)))


@router.post("/{task}/cancel")
def cancel(context: ContextDep, task: Name, reason: ReasonBody | None = None) -> ChangedTasks:
    """Stop a task permanently. It can only be retried from scratch."""
    return build_changed_tasks(context.controller.cancel([task], get_reason(reason)))


@router.post("/{task}/resume")
def resume(context: ContextDep, task: Name, reason: ReasonBody | None = None) -> ChangedTasks:
    """Resume a task where it was."""
    return build_changed_tasks(context.controller.resume([task], get_reason(reason)))


@router.post("/{task}/retry")
def retry(context: ContextDep, task: Name, reason: ReasonBody | None = None) -> ChangedTasks:
    """Retry a task from scratch."""
    return build_changed_tasks(context.controller.retry([task], get_reason(reason)))


@router.post("/{task}/answer")
def answer(context: ContextDep, task: Name, body: AnswerBody) -> ChangedTasks:
    """Answer the question of a manual task."""
    return build_changed_tasks([context.controller.answer(task, body.text)])


def _check_folder(body: TaskSubmissionBody) -> str:
    """Return the existing folder, or an empty text if a repository is named."""
    if not body.cwd:
        if not body.repo:
            raise NotSubmitted("No repository or folder given.", "Set `repo` or `cwd`.")
        return ""
    folder = Path(body.cwd)
    if "\0" in body.cwd or not folder.is_absolute() or not folder.is_dir():
        raise NotSubmitted(
            f"There is no folder {body.cwd[:200]!r}.",
            "Give the absolute path of an existing folder.",
        )
    return str(folder)
