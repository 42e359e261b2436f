"""Routes that change several tasks at once, all or none."""

from __future__ import annotations

from fastapi import APIRouter

from hostler.web.context import ContextDep
from hostler.web.schemas import ChangedTasks, NamedAnswer, Several, build_changed_tasks, get_reason

router = APIRouter(prefix="/tasks", tags=["tasks"])


@router.post("/stop")
def stop(context: ContextDep, several: Several) -> ChangedTasks:
    """Stop them and what came from them; agents are ended."""
    return build_changed_tasks(context.director.stop(several.tasks, get_reason(several)))


@router.post("/cancel")
def cancel(context: ContextDep, several: Several) -> ChangedTasks:
    """Stop them for good: only a retry brings them back."""
    return build_changed_tasks(context.director.cancel(several.tasks, get_reason(several)))


@router.post("/resume")
def resume(context: ContextDep, several: Several) -> ChangedTasks:
    """Let them go on where they were."""
    return build_changed_tasks(context.director.resume(several.tasks, get_reason(several)))


@router.post("/retry")
def retry(context: ContextDep, several: Several) -> ChangedTasks:
    """Begin them anew."""
    return build_changed_tasks(context.director.retry(several.tasks, get_reason(several)))


@router.post("/answer")
def answer(context: ContextDep, said: NamedAnswer) -> ChangedTasks:
    """Answer the question of a task by hand."""
    return build_changed_tasks([context.director.answer(said.task, said.text)])
