"""Commands for tasks as people name them: several at once, all or none."""

from __future__ import annotations

from fastapi import APIRouter

from hostler.web.desk import At
from hostler.web.shapes import ChangedTasks, NamedAnswer, Several, changed_tasks, why_of

router = APIRouter(prefix="/tasks", tags=["tasks"])


@router.post("/stop")
def stop(desk: At, several: Several) -> ChangedTasks:
    """Stop them and what came from them; agents are ended."""
    return changed_tasks(desk.director.stop(several.tasks, why_of(several)))


@router.post("/cancel")
def cancel(desk: At, several: Several) -> ChangedTasks:
    """Stop them for good: only a retry brings them back."""
    return changed_tasks(desk.director.cancel(several.tasks, why_of(several)))


@router.post("/resume")
def resume(desk: At, several: Several) -> ChangedTasks:
    """Let them go on where they were."""
    return changed_tasks(desk.director.resume(several.tasks, why_of(several)))


@router.post("/retry")
def retry(desk: At, several: Several) -> ChangedTasks:
    """Begin them anew."""
    return changed_tasks(desk.director.retry(several.tasks, why_of(several)))


@router.post("/answer")
def answer(desk: At, said: NamedAnswer) -> ChangedTasks:
    """Answer the question of a task by hand."""
    return changed_tasks([desk.director.answer(said.task, said.text)])
