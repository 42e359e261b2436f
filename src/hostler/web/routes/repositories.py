"""Routes to list repositories, and to pause or resume one or all."""

from __future__ import annotations

from fastapi import APIRouter

from hostler.store.operator import ALL, project_scope
from hostler.web.context import ContextDep, WebContext
from hostler.web.errors import ResourceNotFound
from hostler.web.schemas import Name, Object, ReasonBody, get_reason

router = APIRouter(tags=["repositories"])


@router.get("/repositories")
def list_repositories(context: ContextDep) -> Object:
    """Return the watched repositories, their pauses and their activity."""
    return {"repositories": [one.as_json() for one in context.snapshots.read().repositories]}


@router.post("/repositories/{project}/pause")
def pause(context: ContextDep, project: Name, reason: ReasonBody | None = None) -> Object:
    """Pause a repository: start no new task. Running agents continue."""
    return _pause(context, project_scope(_require_watched(context, project)), reason)


@router.post("/repositories/{project}/resume")
def resume(context: ContextDep, project: Name) -> Object:
    """Unpause a repository. A pause in the settings stays."""
    return _resume(context, project_scope(_require_watched(context, project)))


@router.post("/pause")
def pause_all(context: ContextDep, reason: ReasonBody | None = None) -> Object:
    """Pause everything: start no new task. Running agents continue."""
    return _pause(context, ALL, reason)


@router.post("/resume")
def resume_all(context: ContextDep) -> Object:
    """End the pause of everything. Pauses of single repositories stay."""
    return _resume(context, ALL)


def _require_watched(context: WebContext, project: str) -> str:
    if project not in context.settings.repo:
        raise ResourceNotFound(
            f"There is no repository {project!r}.", "`GET /api/v1/repositories` lists them."
        )
    return project


def _pause(context: WebContext, scope: str, reason: ReasonBody | None) -> Object:
    result = context.controller.pause(scope, get_reason(reason))
    pause = result.held
    return {
        "scope": pause.scope,
        "changed": result.changed,
        "since": pause.since,
        "by": pause.by,
        "why": pause.why,
    }


def _resume(context: WebContext, scope: str) -> Object:
    changed, left = context.controller.unpause(scope)
    return {"scope": scope, "changed": changed, "still_paused": left}
