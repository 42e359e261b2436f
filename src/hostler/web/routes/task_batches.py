"""Routes that change several tasks at once, all or none."""

from __future__ import annotations

from fastapi import APIRouter

from hostler.web.context import ContextDep
from hostler.web.schemas import (
    ChangedTasks,
    NamedAnswerBody,
    TaskBatchBody,
    build_changed_tasks,
    get_reason,
)

router = APIRouter(prefix="/tasks", tags=["tasks"])


@router.post("/stop")
def stop(context: ContextDep, batch: TaskBatchBody) -> ChangedTasks:
    """Stop tasks, their children and their agents."""
    return build_changed_tasks(context.controller.stop(batch.tasks, get_reason(batch)))


@router.post("/cancel")
def cancel(context: ContextDep, batch: TaskBatchBody) -> ChangedTasks:
    """Stop tasks permanently. They can only be retried from scratch."""
    return build_changed_tasks(context.controller.cancel(batch.tasks, get_reason(batch)))


@router.post("/resume")
def resume(context: ContextDep, batch: TaskBatchBody) -> ChangedTasks:
    """Resume tasks where they were."""
    return build_changed_tasks(context.controller.resume(batch.tasks, get_reason(batch)))


@router.post("/retry")
def retry(context: ContextDep, batch: TaskBatchBody) -> ChangedTasks:
    """Retry tasks from scratch."""
    return build_changed_tasks(context.controller.retry(batch.tasks, get_reason(batch)))


@router.post("/answer")
def answer(context: ContextDep, body: NamedAnswerBody) -> ChangedTasks:
    """Answer the question of a manual task."""
    return build_changed_tasks([context.controller.answer(body.task, body.text)])
