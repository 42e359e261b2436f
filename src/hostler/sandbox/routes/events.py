"""What happened to issues, and their timelines."""

from __future__ import annotations

from typing import Any

from hostler.sandbox.call import Call
from hostler.sandbox.entities import Comment, Event, Issue
from hostler.sandbox.errors import not_found
from hostler.sandbox.http import Response, json_response
from hostler.sandbox.paging import Listed
from hostler.sandbox.render import shaped
from hostler.sandbox.router import REPO, Router

router = Router()


@router.route("GET", REPO + "/issues/events")
def list_for_repo(call: Call) -> Response:
    """All issues' events, newest first."""
    return call.page(call.tables.group(Event, "repo", call.repo.id).select("id", descending=True))


@router.route("GET", REPO + "/issues/events/{event_id}")
def get(call: Call) -> Response:
    """One event."""
    found = call.tables.get(Event, call.number("event_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    return call.one(found)


@router.route("GET", REPO + "/issues/{number}/events")
def list_for_issue(call: Call) -> Response:
    """One issue's events, oldest first."""
    return call.page(call.tables.group(Event, "issue", call.issue().id).select(), "bare")


@router.route("GET", REPO + "/issues/{number}/timeline")
def timeline(call: Call) -> Response:
    """Events and comments together, oldest first."""
    issue = call.issue()
    items = [*_all(call, Event, issue), *_all(call, Comment, issue)]
    items.sort(key=lambda item: (item.created_at, item.kind, item.id))
    chosen, headers = call.cut(Listed(items))
    response = json_response([_entry(call, item) for item in chosen])
    response.headers.update(headers)
    return response


def _all(call: Call, kind: type[Any], issue: Issue) -> list[Any]:
    return list(call.tables.group(kind, "issue", issue.id).select())


def _entry(call: Call, item: Event | Comment) -> dict[str, Any]:
    if isinstance(item, Event):
        return shaped(item, call.frame, "bare")
    comment = shaped(item, call.frame)
    return {**comment, "event": "commented", "actor": comment["user"]}
