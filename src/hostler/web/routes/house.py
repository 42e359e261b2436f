"""The house as a whole: whether it answers, what goes on, what it is set to."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from fastapi import APIRouter, Request, Response

from hostler import health
from hostler.config import find
from hostler.service import support
from hostler.service.presence import presence
from hostler.telemetry.metrics import metrics
from hostler.telemetry.redact import redact
from hostler.web.desk import At
from hostler.web.guard import session_of
from hostler.web.likeness import likeness
from hostler.web.refusals import answer
from hostler.web.shapes import Object

router = APIRouter(tags=["house"])
top = APIRouter(tags=["house"])


@router.get("/health")
def answers() -> dict[str, str]:
    """Whether the process answers. Open to everybody."""
    return {"status": "ok"}


@router.get("/ready")
def ready(desk: At) -> Response:
    """Whether the database answers and a service takes tasks. Open to everybody."""
    with desk.store.read() as tx:
        tx.now()
    found = presence(desk.home)
    if not found.takes_tasks:
        return answer(503, "No service takes tasks.", remedy="hostler service", kind="no_service")
    return Response('{"status":"ready"}', media_type="application/json")


@router.get("/version")
def version() -> Object:
    """What runs here."""
    return support.versions()


@router.get("/likeness")
def like(desk: At) -> dict[str, str]:
    """A digest of version, home and settings: whoever has the same would do the same."""
    return {"likeness": likeness(desk.home, desk.settings)}


@router.get("/session")
def session(request: Request, desk: At) -> Object:
    """Who one is, and what a browser must send with whatever changes something."""
    found = session_of(request.scope)
    return {"by": desk.by, "csrf": found.csrf if found else None}


@router.get("/status")
def status(desk: At) -> Object:
    """The snapshot: everything at one moment."""
    return desk.lookout.look().as_json()


@router.get("/projects")
def projects(desk: At) -> Object:
    """Projects that are watched, or have work."""
    seen = desk.lookout.look()
    repos = {one.project: one for one in seen.repositories}
    at_work = Counter(one.run.project for one in seen.at_work)
    queued = Counter(one.task.project for one in seen.queue)
    needy = Counter(one.task.project for one in seen.needy)
    names = sorted({*repos, *at_work, *queued, *needy})
    return {
        "projects": [
            {
                "project": name,
                "repo": repos[name].repo if name in repos else None,
                "at_work": at_work[name],
                "queued": queued[name],
                "needs_person": needy[name],
            }
            for name in names
        ]
    }


@router.get("/pulls")
def pulls(desk: At) -> Object:
    """Pull requests that are followed."""
    seen = desk.lookout.look().as_json()
    return {"pulls": seen["pulls"], "total": seen["pulls_total"]}


@router.get("/blocked")
def blocked(desk: At) -> Object:
    """What needs a person, and what to do."""
    seen = desk.lookout.look().as_json()
    return {"blocked": seen["needs_person"], "total": seen["needs_person_total"]}


@router.get("/config")
def config(desk: At) -> Object:
    """The settings in force, without secrets."""
    found: Object = desk.settings.model_dump(mode="json")
    return found


@router.get("/doctor")
def doctor(desk: At) -> Object:
    """What `hostler doctor --quick` finds. Nothing is mended."""
    health.load_room_checks()
    named = os.environ.get("HOSTLER_CONFIG", "")
    where = health.Context(desk.home, find(desk.home, Path(named) if named else None), desk.clock)
    found = health.examine(where, quick=True)
    return {"exit_code": health.verdict(found), "findings": [asdict(one) for one in found]}


@top.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def numbers() -> Response:
    """All metrics of this process, for Prometheus."""
    return Response(redact(metrics.text()), media_type="text/plain; version=0.0.4; charset=utf-8")
