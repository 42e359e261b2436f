"""The newest events of the log, which has what happened and no secret."""

from __future__ import annotations

from fastapi import APIRouter

from hostler.service.log_events import newest_events
from hostler.web.desk import At
from hostler.web.shapes import Filter, Limit, Object

router = APIRouter(tags=["events"])


@router.get("/events")
def events(desk: At, task: Filter = "", event: Filter = "", limit: Limit = 50) -> Object:
    """Log events, oldest first; of one task, or of one name."""
    return {"events": newest_events(desk.home / "logs", limit, task=task, event=event)}
