"""Issues: list, make, read, change, lock."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hostler.sandbox.call import Call
from hostler.sandbox.entities import Issue, Label
from hostler.sandbox.errors import forbidden
from hostler.sandbox.http import Response, no_content
from hostler.sandbox.issuing import Change, change_issue, check, open_issue
from hostler.sandbox.pull_editing import allow_reopening
from hostler.sandbox.router import REPO, Router
from hostler.sandbox.shapes import issues as _shapes  # noqa: F401 - registers the shapes

router = Router()


@dataclass(frozen=True)
class Filter:
    """What the query of an issue list asks for."""

    state: str
    labels: frozenset[int] | None
    creator: str | None
    assignee: str | None

    def __call__(self, issue: Issue) -> bool:
        if self.state != "all" and issue.state != self.state:
            return False
        if self.labels is not None and not self.labels <= set(issue.labels):
            return False
        if self.creator is not None and issue.user.lower() != self.creator:
            return False
        return self._assigned(issue)

    def _assigned(self, issue: Issue) -> bool:
        if self.assignee in (None, "*"):
            return self.assignee is None or bool(issue.assignees)
        if self.assignee == "none":
            return not issue.assignees
        return self.assignee in {login.lower() for login in issue.assignees}


@router.route("GET", REPO + "/issues", issues=True)
def list_issues(call: Call) -> Response:
    """Issues and pull requests; open ones, newest first, unless asked otherwise."""
    return call.feed(
        call.tables.group(Issue, "repo", call.repo.id),
        sorts=("created", "updated", "comments"),
        default="created",
        descending=True,
        where=_filter(call),
    )


def _filter(call: Call) -> Filter | None:
    query = call.request.query
    state = query.get("state", "open")
    names = [name.strip() for name in query.get("labels", "").split(",") if name.strip()]
    found = [call.tables.find(Label, call.repo.id, name.lower()) for name in names]
    # A label that does not exist matches nothing.
    ids = frozenset(label.id if label else -1 for label in found) if names else None
    creator, assignee = query.get("creator"), query.get("assignee")
    wanted = Filter(
        state if state in ("open", "closed", "all") else "open",
        ids,
        creator.lower() if creator else None,
        assignee.lower() if assignee else None,
    )
    return None if wanted == Filter("all", None, None, None) else wanted


@router.route("POST", REPO + "/issues", issues=True, creates=True)
def create_issue(call: Call) -> Response:
    """A new issue; labels and assignees of callers without triage are dropped silently."""
    fields = call.fields("Issue")
    title = fields.text("title", required=True, limit=256)
    body, change = fields.body(), Change()
    if call.can("triage"):
        change = Change.read(fields, only=("labels", "assignees"))
    check(call, change)
    issue = change_issue(call, open_issue(call, title or "", body), change)
    call.world.tell("issues", issue, "opened", call.actor)
    url = f"{call.request.root}/repos/{call.repo.full_name}/issues/{issue.number}"
    return call.one(issue, 201, Location=url)


@router.route("GET", REPO + "/issues/{number}")
def get_issue(call: Call) -> Response:
    """One issue."""
    return call.one(call.issue())


@router.route("PATCH", REPO + "/issues/{number}")
async def edit_issue(call: Call) -> Response:
    """Change an issue: the author may edit and close it, the rest needs triage."""
    issue = call.issue()
    author = issue.user.lower() == call.actor.lower()
    if not (author or call.can("triage")):
        raise forbidden()
    change = Change.read(call.fields("Issue"))
    if not call.can("triage"):
        change = replace(change, labels=None, assignees=None)
    check(call, change, issue)
    if issue.pull and change.state == "open" and issue.state == "closed":
        await allow_reopening(call, issue)
        issue = call.issue()
    return call.one(change_issue(call, issue, change))


@router.route("PUT", REPO + "/issues/{number}/lock", access="write")
def lock(call: Call) -> Response:
    """Close the conversation to strangers."""
    reasons = ("off-topic", "too heated", "resolved", "spam")
    reason = call.fields("Issue").choice("lock_reason", reasons)
    issue = call.issue()
    now = call.world.now()
    call.world.put(replace(issue, locked=True, lock_reason=reason, updated_at=now))
    call.world.note(issue, "locked", call.actor, **({"reason": reason} if reason else {}))
    return no_content()


@router.route("DELETE", REPO + "/issues/{number}/lock", access="write")
def unlock(call: Call) -> Response:
    """Open the conversation again."""
    issue = call.issue()
    now = call.world.now()
    call.world.put(replace(issue, locked=False, lock_reason=None, updated_at=now))
    call.world.note(issue, "unlocked", call.actor)
    return no_content()
