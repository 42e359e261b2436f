"""Routes for health, status, projects, configuration, metrics and log events."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from fastapi import APIRouter, Request, Response

from hostler import health
from hostler.config.loader import find_settings_file
from hostler.service import support_bundle
from hostler.service.context import read_presence
from hostler.service.run_output import read_newest_events
from hostler.telemetry.metrics import metrics
from hostler.telemetry.redaction import redact
from hostler.web.context import ContextDep
from hostler.web.discovery import build_fingerprint
from hostler.web.errors import build_error_response
from hostler.web.middleware import get_session
from hostler.web.schemas import Filter, Limit, Object

router = APIRouter(tags=["house"])
top = APIRouter(tags=["house"])


@router.get("/health")
def answers() -> dict[str, str]:
    """Whether the process answers. Open to everybody."""
    return {"status": "ok"}


@router.get("/ready")
def ready(context: ContextDep) -> Response:
    """Whether the database answers and a service takes tasks. Open to everybody."""
    with context.store.read() as tx:
        tx.now()
    found = read_presence(context.home)
    if not found.takes_tasks:
        return build_error_response(
            503, "No service takes tasks.", remedy="hostler service", kind="no_service"
        )
    return Response('{"status":"ready"}', media_type="application/json")


@router.get("/version")
def version() -> Object:
    """What runs here."""
    return support_bundle.read_versions()


@router.get("/likeness")
def like(context: ContextDep) -> dict[str, str]:
    """A digest of version, home and settings: whoever has the same would do the same."""
    return {"likeness": build_fingerprint(context.home, context.settings)}


@router.get("/session")
def session(request: Request, context: ContextDep) -> Object:
    """Who one is, and what a browser must send with whatever changes something."""
    found = get_session(request.scope)
    return {"by": context.by, "csrf": found.csrf if found else None}


@router.get("/status")
def status(context: ContextDep) -> Object:
    """The snapshot: everything at one moment."""
    return context.lookout.look().as_json()


@router.get("/projects")
def projects(context: ContextDep) -> Object:
    """Projects that are watched, or have work."""
    seen = context.lookout.look()
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
def pulls(context: ContextDep) -> Object:
    """Pull requests that are followed."""
    seen = context.lookout.look().as_json()
    return {"pulls": seen["pulls"], "total": seen["pulls_total"]}


@router.get("/blocked")
def blocked(context: ContextDep) -> Object:
    """What needs a person, and what to do."""
    seen = context.lookout.look().as_json()
    return {"blocked": seen["needs_person"], "total": seen["needs_person_total"]}


@router.get("/config")
def config(context: ContextDep) -> Object:
    """The settings in force, without secrets."""
    found: Object = context.settings.model_dump(mode="json")
    return found


@router.get("/doctor")
def doctor(context: ContextDep) -> Object:
    """What `hostler doctor --quick` finds. Nothing is mended."""
    health.load_package_checks()
    named = os.environ.get("HOSTLER_CONFIG", "")
    where = health.CheckContext(
        context.home,
        find_settings_file(context.home, Path(named) if named else None),
        context.clock,
    )
    found = health.run_checks(where, quick=True)
    return {
        "exit_code": health.findings_exit_code(found),
        "findings": [asdict(one) for one in found],
    }


@top.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def numbers() -> Response:
    """All metrics of this process, for Prometheus."""
    return Response(redact(metrics.text()), media_type="text/plain; version=0.0.4; charset=utf-8")


events_router = APIRouter(tags=["events"])


@events_router.get("/events")
def events(context: ContextDep, task: Filter = "", event: Filter = "", limit: Limit = 50) -> Object:
    """Log events, oldest first; of one task, or of one name."""
    return {"events": read_newest_events(context.home / "logs", limit, task=task, event=event)}
