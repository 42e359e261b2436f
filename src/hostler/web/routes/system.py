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

router = APIRouter(tags=["system"])
metrics_router = APIRouter(tags=["system"])


@router.get("/health")
def health_check() -> dict[str, str]:
    """Return ok while the process responds. Needs no authentication."""
    return {"status": "ok"}


@router.get("/ready")
def ready(context: ContextDep) -> Response:
    """Return ready if the database works and a service starts tasks. No authentication."""
    with context.store.read() as tx:
        tx.now()
    found = read_presence(context.home)
    if not found.takes_tasks:
        return build_error_response(
            503,
            "The service is not running.",
            remedy="Start it with: hostler service",
            kind="service_not_running",
        )
    return Response('{"status":"ready"}', media_type="application/json")


@router.get("/version")
def version() -> Object:
    """Return the versions of Hostler and of what it uses."""
    return support_bundle.read_versions()


@router.get("/fingerprint")
def fingerprint(context: ContextDep) -> dict[str, str]:
    """Return a digest of version, home and settings, which callers compare with their own."""
    return {"fingerprint": build_fingerprint(context.home, context.settings)}


@router.get("/session")
def session(request: Request, context: ContextDep) -> Object:
    """Return the caller's name, and the CSRF token that browsers send with changes."""
    found = get_session(request.scope)
    return {"by": context.by, "csrf": found.csrf if found else None}


@router.get("/status")
def status(context: ContextDep) -> Object:
    """Return the snapshot: the state of everything at one time."""
    return context.snapshots.read().as_json()


@router.get("/projects")
def projects(context: ContextDep) -> Object:
    """Return projects that are watched or have work."""
    snapshot = context.snapshots.read()
    repos = {one.project: one for one in snapshot.repositories}
    at_work = Counter(one.run.project for one in snapshot.at_work)
    queued = Counter(one.task.project for one in snapshot.queue)
    needy = Counter(one.task.project for one in snapshot.needy)
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
    """Return the followed pull requests."""
    snapshot = context.snapshots.read().as_json()
    return {"pulls": snapshot["pulls"], "total": snapshot["pulls_total"]}


@router.get("/blocked")
def blocked(context: ContextDep) -> Object:
    """Return the tasks that need a person, and what to do."""
    snapshot = context.snapshots.read().as_json()
    return {"blocked": snapshot["needs_person"], "total": snapshot["needs_person_total"]}


@router.get("/config")
def config(context: ContextDep) -> Object:
    """Return the current settings, without secrets."""
    found: Object = context.settings.model_dump(mode="json")
    return found


@router.get("/doctor")
def doctor(context: ContextDep) -> Object:
    """Return the findings of `hostler doctor --quick`. Fixes nothing."""
    health.load_package_checks()
    config_path = os.environ.get("HOSTLER_CONFIG", "")
    check_context = health.CheckContext(
        context.home,
        find_settings_file(context.home, Path(config_path) if config_path else None),
        context.clock,
    )
    found = health.run_checks(check_context, quick=True)
    return {
        "exit_code": health.findings_exit_code(found),
        "findings": [asdict(one) for one in found],
    }


@metrics_router.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}}
)
def metrics_text() -> Response:
    """Return all metrics of this process in the Prometheus format."""
    return Response(redact(metrics.text()), media_type="text/plain; version=0.0.4; charset=utf-8")


events_router = APIRouter(tags=["events"])


@events_router.get("/events")
def events(context: ContextDep, task: Filter = "", event: Filter = "", limit: Limit = 50) -> Object:
    """Return log events, oldest first, optionally of one task or with one name."""
    return {"events": read_newest_events(context.home / "logs", limit, task=task, event=event)}
