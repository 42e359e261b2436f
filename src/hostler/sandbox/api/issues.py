"""Issues, labels, dependencies between issues, and issue events."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from hostler.sandbox.http.call import ApiCall
from hostler.sandbox.http.errors import forbidden, invalid, not_found, unprocessable
from hostler.sandbox.http.pagination import PageableList
from hostler.sandbox.http.requests import JsonFields, SandboxResponse, json_response, no_content
from hostler.sandbox.http.router import REPO, ApiRouter
from hostler.sandbox.issues import (
    IssueChange,
    change_issue,
    check_change,
    label_names,
    open_issue,
    touch_issue,
)
from hostler.sandbox.pulls.changes import check_reopening
from hostler.sandbox.serializers import issues as _shapes  # noqa: F401 - registers the shapes
from hostler.sandbox.serializers.base import serialize
from hostler.sandbox.state.entities import Comment, Issue, Label, Repo, TimelineEvent

router = ApiRouter()


@dataclass(frozen=True)
class IssueFilter:
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
def list_issues(call: ApiCall) -> SandboxResponse:
    """Issues and pull requests; open ones, newest first, unless asked otherwise."""
    return call.feed(
        call.tables.group(Issue, "repo", call.repo.id),
        sorts=("created", "updated", "comments"),
        default="created",
        descending=True,
        where=_issue_filter(call),
    )


def _issue_filter(call: ApiCall) -> IssueFilter | None:
    query = call.request.query
    state = query.get("state", "open")
    names = [name.strip() for name in query.get("labels", "").split(",") if name.strip()]
    found = [call.tables.find(Label, call.repo.id, name.lower()) for name in names]
    # A label that does not exist matches nothing.
    ids = frozenset(label.id if label else -1 for label in found) if names else None
    creator, assignee = query.get("creator"), query.get("assignee")
    wanted = IssueFilter(
        state if state in ("open", "closed", "all") else "open",
        ids,
        creator.lower() if creator else None,
        assignee.lower() if assignee else None,
    )
    return None if wanted == IssueFilter("all", None, None, None) else wanted


@router.route("POST", REPO + "/issues", issues=True, creates=True)
def create_issue(call: ApiCall) -> SandboxResponse:
    """Create an issue; labels and assignees of callers without triage are dropped silently."""
    fields = call.fields("Issue")
    title = fields.text("title", required=True, limit=256)
    body, change = fields.body(), IssueChange()
    if call.can("triage"):
        change = IssueChange.read(fields, only=("labels", "assignees"))
    check_change(call, change)
    issue = change_issue(call, open_issue(call, title or "", body), change)
    call.world.publish("issues", issue, "opened", call.actor)
    url = f"{call.request.root}/repos/{call.repo.full_name}/issues/{issue.number}"
    return call.one(issue, 201, Location=url)


@router.route("GET", REPO + "/issues/{number}")
def get_issue(call: ApiCall) -> SandboxResponse:
    """Return one issue."""
    return call.one(call.issue())


@router.route("PATCH", REPO + "/issues/{number}")
async def edit_issue(call: ApiCall) -> SandboxResponse:
    """Change an issue: the author may edit and close it, the rest needs triage."""
    issue = call.issue()
    author = issue.user.lower() == call.actor.lower()
    if not (author or call.can("triage")):
        raise forbidden()
    change = IssueChange.read(call.fields("Issue"))
    if not call.can("triage"):
        change = replace(change, labels=None, assignees=None)
    check_change(call, change, issue)
    if issue.pull and change.state == "open" and issue.state == "closed":
        await check_reopening(call, issue)
        issue = call.issue()
    return call.one(change_issue(call, issue, change))


@router.route("PUT", REPO + "/issues/{number}/lock", access="write")
def lock_issue(call: ApiCall) -> SandboxResponse:
    """Lock a conversation."""
    reasons = ("off-topic", "too heated", "resolved", "spam")
    reason = call.fields("Issue").choice("lock_reason", reasons)
    issue = call.issue()
    now = call.world.now()
    call.world.put(replace(issue, locked=True, lock_reason=reason, updated_at=now))
    call.world.add_issue_event(
        issue, "locked", call.actor, **({"reason": reason} if reason else {})
    )
    return no_content()


@router.route("DELETE", REPO + "/issues/{number}/lock", access="write")
def unlock_issue(call: ApiCall) -> SandboxResponse:
    """Unlock a conversation."""
    issue = call.issue()
    now = call.world.now()
    call.world.put(replace(issue, locked=False, lock_reason=None, updated_at=now))
    call.world.add_issue_event(issue, "unlocked", call.actor)
    return no_content()


LABEL = REPO + "/labels/{name}"
ISSUE_LABELS = REPO + "/issues/{number}/labels"
_COLOR = re.compile(r"[0-9a-fA-F]{6}")


@router.route("GET", REPO + "/labels")
def list_labels(call: ApiCall) -> SandboxResponse:
    """Return all labels."""
    return call.page(call.tables.group(Label, "repo", call.repo.id).select())


@router.route("POST", REPO + "/labels", access="triage", creates=True)
def create_label(call: ApiCall) -> SandboxResponse:
    """Create a label."""
    fields = call.fields("Label")
    name = _free_name(call, fields, "name", None)
    label = Label(call.world.new_id("label"), call.repo.id, name)
    return call.one(call.world.put(_with_fields(label, fields)), 201)


@router.route("GET", LABEL)
def get_label(call: ApiCall) -> SandboxResponse:
    """Return one label."""
    return call.one(_find_label(call))


@router.route("PATCH", LABEL, access="triage")
def edit_label(call: ApiCall) -> SandboxResponse:
    """Change a label's name, color or description."""
    label, fields = _find_label(call), call.fields("Label")
    if "new_name" in fields:
        label = replace(label, name=_free_name(call, fields, "new_name", label))
    return call.one(call.world.put(_with_fields(label, fields)))


@router.route("DELETE", LABEL, access="triage")
def delete_label(call: ApiCall) -> SandboxResponse:
    """Delete a label and remove it from all issues."""
    label = _find_label(call)
    for issue in call.tables.group(Issue, "repo", call.repo.id).select():
        if label.id in issue.labels:
            kept = tuple(known for known in issue.labels if known != label.id)
            call.world.put(replace(issue, labels=kept))
    call.world.remove(label)
    return no_content()


@router.route("GET", ISSUE_LABELS)
def list_issue_labels(call: ApiCall) -> SandboxResponse:
    """Return an issue's labels."""
    return call.page(_labels_of(call, call.issue()))


@router.route("POST", ISSUE_LABELS, access="triage")
def add_issue_labels(call: ApiCall) -> SandboxResponse:
    """Add labels to an issue."""
    issue = call.issue()
    return _set_labels(call, issue, [*_names_of(call, issue), *_wanted_labels(call)])


@router.route("PUT", ISSUE_LABELS, access="triage")
def set_issue_labels(call: ApiCall) -> SandboxResponse:
    """Replace an issue's labels."""
    return _set_labels(call, call.issue(), _wanted_labels(call))


@router.route("DELETE", ISSUE_LABELS, access="triage")
def clear_issue_labels(call: ApiCall) -> SandboxResponse:
    """Remove all labels from an issue."""
    change_issue(call, call.issue(), IssueChange(labels=[]))
    return no_content()


@router.route("DELETE", ISSUE_LABELS + "/{name}", access="triage")
def remove_issue_label(call: ApiCall) -> SandboxResponse:
    """Remove one label from an issue; 404 if the issue does not have it."""
    issue, name = call.issue(), call.params["name"].lower()
    names = _names_of(call, issue)
    kept = [known for known in names if known.lower() != name]
    if len(kept) == len(names):
        raise not_found()
    return _set_labels(call, issue, kept)


def _set_labels(call: ApiCall, issue: Issue, names: list[str]) -> SandboxResponse:
    return call.page(_labels_of(call, change_issue(call, issue, IssueChange(labels=names))))


def _wanted_labels(call: ApiCall) -> list[str]:
    value = call.request.json_value()
    fields = JsonFields("Label", value if isinstance(value, dict) else {"labels": value})
    names = label_names(fields)
    if names is None:
        raise invalid("Label", "labels", "missing_field")
    return names


def _labels_of(call: ApiCall, issue: Issue) -> list[Label]:
    found = (call.tables.get(Label, label_id) for label_id in issue.labels)
    return [label for label in found if label is not None]


def _names_of(call: ApiCall, issue: Issue) -> list[str]:
    return [label.name for label in _labels_of(call, issue)]


def _find_label(call: ApiCall) -> Label:
    found = call.tables.find(Label, call.repo.id, call.params["name"].lower())
    if found is None:
        raise not_found()
    return found


def _free_name(call: ApiCall, fields: JsonFields, field: str, own: Label | None) -> str:
    name = fields.text(field, required=True, limit=50)
    assert name is not None
    other = call.tables.find(Label, call.repo.id, name.strip().lower())
    if other is not None and (own is None or other.id != own.id):
        raise invalid("Label", "name", "already_exists")
    return name.strip()


def _with_fields(label: Label, fields: JsonFields) -> Label:
    color = fields.text("color")
    if color is not None and not _COLOR.fullmatch(color):
        raise invalid("Label", "color", "invalid")
    description = fields.text("description", limit=100)
    return replace(
        label,
        color=(color or label.color).lower(),
        description=description if "description" in fields else label.description,
    )


BLOCKERS = REPO + "/issues/{number}/dependencies/blocked_by"


@router.route("GET", BLOCKERS)
def list_blockers(call: ApiCall) -> SandboxResponse:
    """Return the issues that block an issue."""
    found = (call.tables.get(Issue, issue_id) for issue_id in call.issue().blocked_by)
    return call.page([issue for issue in found if issue is not None and _can_see(call, issue)])


@router.route("GET", REPO + "/issues/{number}/dependencies/blocking")
def list_blocked(call: ApiCall) -> SandboxResponse:
    """Return the issues that an issue blocks."""
    waiting = call.tables.group(Issue, "blocker", call.issue().id).select()
    return call.page([issue for issue in waiting if _can_see(call, issue)])


@router.route("POST", BLOCKERS, access="triage", creates=True)
def add_blocker(call: ApiCall) -> SandboxResponse:
    """Add a blocker to an issue; the blocker is named by its id, not its number."""
    issue = call.issue()
    wanted = call.fields("IssueDependency").number("issue_id", required=True)
    blocker = call.tables.get(Issue, wanted or 0)
    if blocker is None or not _can_see(call, blocker):
        raise not_found()
    if blocker.id == issue.id:
        raise unprocessable("An issue cannot be blocked by itself.")
    if blocker.id in issue.blocked_by:
        raise invalid("IssueDependency", "issue_id", "already_exists")
    if issue.id in blocker.blocked_by:
        raise unprocessable("The two issues would block each other.")
    issue = touch_issue(call, issue, blocked_by=(*issue.blocked_by, blocker.id))
    call.world.add_issue_event(issue, "blocked_by_added", call.actor, blocker=str(blocker.id))
    return call.one(issue, 201)


@router.route("DELETE", BLOCKERS + "/{issue_id}", access="triage")
def remove_blocker(call: ApiCall) -> SandboxResponse:
    """Remove a blocker from an issue."""
    issue, wanted = call.issue(), call.number("issue_id")
    if wanted not in issue.blocked_by:
        raise not_found()
    kept = tuple(known for known in issue.blocked_by if known != wanted)
    issue = touch_issue(call, issue, blocked_by=kept)
    call.world.add_issue_event(issue, "blocked_by_removed", call.actor, blocker=str(wanted))
    return call.one(issue)


def _can_see(call: ApiCall, issue: Issue) -> bool:
    repo = call.tables.get(Repo, issue.repo_id)
    return repo is not None and call.viewer.can(call.tables, repo, "read")


@router.route("GET", REPO + "/issues/events")
def list_repo_events(call: ApiCall) -> SandboxResponse:
    """Return all issues' events, newest first."""
    return call.page(
        call.tables.group(TimelineEvent, "repo", call.repo.id).select("id", descending=True)
    )


@router.route("GET", REPO + "/issues/events/{event_id}")
def get_event(call: ApiCall) -> SandboxResponse:
    """Return one event."""
    found = call.tables.get(TimelineEvent, call.number("event_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    return call.one(found)


@router.route("GET", REPO + "/issues/{number}/events")
def list_issue_events(call: ApiCall) -> SandboxResponse:
    """Return one issue's events, oldest first."""
    return call.page(call.tables.group(TimelineEvent, "issue", call.issue().id).select(), "bare")


@router.route("GET", REPO + "/issues/{number}/timeline")
def get_timeline(call: ApiCall) -> SandboxResponse:
    """Events and comments together, oldest first."""
    issue = call.issue()
    items = [*_all_of_issue(call, TimelineEvent, issue), *_all_of_issue(call, Comment, issue)]
    items.sort(key=lambda item: (item.created_at, item.kind, item.id))
    chosen, headers = call.cut(PageableList(items))
    response = json_response([_timeline_entry(call, item) for item in chosen])
    response.headers.update(headers)
    return response


def _all_of_issue(call: ApiCall, kind: type[Any], issue: Issue) -> list[Any]:
    return list(call.tables.group(kind, "issue", issue.id).select())


def _timeline_entry(call: ApiCall, item: TimelineEvent | Comment) -> dict[str, Any]:
    if isinstance(item, TimelineEvent):
        return serialize(item, call.frame, "bare")
    comment = serialize(item, call.frame)
    return {**comment, "event": "commented", "actor": comment["user"]}
