"""Which issues block which."""

from __future__ import annotations

from hostler.sandbox.call import Call
from hostler.sandbox.entities import Issue, Repo
from hostler.sandbox.errors import invalid, not_found, unprocessable
from hostler.sandbox.http import Response
from hostler.sandbox.issuing import touch
from hostler.sandbox.router import REPO, Router

router = Router()
BLOCKED = REPO + "/issues/{number}/dependencies/blocked_by"


@router.route("GET", BLOCKED)
def list_blockers(call: Call) -> Response:
    """What an issue waits for."""
    found = (call.tables.get(Issue, issue_id) for issue_id in call.issue().blocked_by)
    return call.page([issue for issue in found if issue is not None and _may_see(call, issue)])


@router.route("GET", REPO + "/issues/{number}/dependencies/blocking")
def list_blocked(call: Call) -> Response:
    """What waits for an issue."""
    waiting = call.tables.group(Issue, "blocker", call.issue().id).select()
    return call.page([issue for issue in waiting if _may_see(call, issue)])


@router.route("POST", BLOCKED, access="triage", creates=True)
def add(call: Call) -> Response:
    """Let an issue wait for another, named by its id (not its number)."""
    issue = call.issue()
    wanted = call.fields("IssueDependency").number("issue_id", required=True)
    blocker = call.tables.get(Issue, wanted or 0)
    if blocker is None or not _may_see(call, blocker):
        raise not_found()
    if blocker.id == issue.id:
        raise unprocessable("An issue cannot be blocked by itself.")
    if blocker.id in issue.blocked_by:
        raise invalid("IssueDependency", "issue_id", "already_exists")
    if issue.id in blocker.blocked_by:
        raise unprocessable("The two issues would block each other.")
    issue = touch(call, issue, blocked_by=(*issue.blocked_by, blocker.id))
    call.world.note(issue, "blocked_by_added", call.actor, blocker=str(blocker.id))
    return call.one(issue, 201)


@router.route("DELETE", BLOCKED + "/{issue_id}", access="triage")
def remove(call: Call) -> Response:
    """Let an issue wait no longer."""
    issue, wanted = call.issue(), call.number("issue_id")
    if wanted not in issue.blocked_by:
        raise not_found()
    kept = tuple(known for known in issue.blocked_by if known != wanted)
    issue = touch(call, issue, blocked_by=kept)
    call.world.note(issue, "blocked_by_removed", call.actor, blocker=str(wanted))
    return call.one(issue)


def _may_see(call: Call, issue: Issue) -> bool:
    repo = call.tables.get(Repo, issue.repo_id)
    return repo is not None and call.viewer.can(call.tables, repo, "read")
