"""Repositories: those that are watched, and holding them back; or everything."""

from __future__ import annotations

from fastapi import APIRouter

from hostler.store.operator import ALL, project_scope
from hostler.web.desk import At, Desk
from hostler.web.refusals import NotHere
from hostler.web.shapes import Name, Object, Reason, why_of

router = APIRouter(tags=["repositories"])


@router.get("/repositories")
def list_repositories(desk: At) -> Object:
    """Watched repositories: paused or not, and what goes on in each."""
    return {"repositories": [one.as_json() for one in desk.lookout.look().repositories]}


@router.post("/repositories/{project}/pause")
def pause(desk: At, project: Name, reason: Reason | None = None) -> Object:
    """Start nothing new on it; agents at work go on."""
    return _pause(desk, project_scope(_watched(desk, project)), reason)


@router.post("/repositories/{project}/resume")
def resume(desk: At, project: Name) -> Object:
    """Let it go on; a pause in the settings stays."""
    return _resume(desk, project_scope(_watched(desk, project)))


@router.post("/pause")
def pause_all(desk: At, reason: Reason | None = None) -> Object:
    """Start nothing new anywhere; agents at work go on."""
    return _pause(desk, ALL, reason)


@router.post("/resume")
def resume_all(desk: At) -> Object:
    """Lift the pause of everything; pauses of single repositories stay."""
    return _resume(desk, ALL)


def _watched(desk: Desk, project: str) -> str:
    if project not in desk.settings.repo:
        raise NotHere(
            f"There is no repository {project!r}.", "`GET /api/v1/repositories` lists them."
        )
    return project


def _pause(desk: Desk, scope: str, reason: Reason | None) -> Object:
    found = desk.director.pause(scope, why_of(reason))
    held = found.held
    return {
        "scope": held.scope,
        "changed": found.changed,
        "since": held.since,
        "by": held.by,
        "why": held.why,
    }


def _resume(desk: Desk, scope: str) -> Object:
    changed, left = desk.director.unpause(scope)
    return {"scope": scope, "changed": changed, "still_paused": left}
