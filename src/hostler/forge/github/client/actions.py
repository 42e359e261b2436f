"""Perform actions on GitHub, one request each, and find those that were performed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, assert_never
from urllib.parse import quote

from hostler.errors import Invalid, NotFound, ServerFailed, Unclear
from hostler.forge.actions import (
    Action,
    AddLabel,
    CloseIssue,
    CreateComment,
    CreateLabel,
    EditComment,
    OpenIssue,
    OpenPull,
    RemoveLabel,
    ReplyToReviewComment,
    RerunFailedJobs,
    UpdatePull,
    add_marker,
    find_tokens,
    format_title,
)
from hostler.forge.github import payloads
from hostler.forge.port import ActionResult, Item, ItemKind, SurfaceFeed

if TYPE_CHECKING:
    from hostler.forge.github.client.repository import GitHubRepository


def find_action(
    hub: GitHubRepository, deed: Action, key: str, since: datetime
) -> ActionResult | None:
    """What an earlier attempt has made, if it can be seen."""
    match deed:
        case CreateComment():
            return _find_marked(hub, hub.comments(deed.number, since), key)
        case ReplyToReviewComment():
            return _find_marked(hub, hub.review_comments(deed.number, since), key)
        case EditComment():
            found = hub.remark(ItemKind.ISSUE_COMMENT, deed.comment_id)
            return _find_marked(hub, [found] if found else [], key)
        case OpenIssue():
            return _find_marked(hub, hub.changes(SurfaceFeed.ISSUES, since).items, key)
        case OpenPull():
            return find_pull(hub, deed, key)
        case UpdatePull():
            return _is_updated(hub, deed, key)
        case CreateLabel():
            return find_label(hub, deed)
        case RerunFailedJobs():
            return find_rerun(hub, deed)
        case CloseIssue() | AddLabel() | RemoveLabel():
            return _is_as_wanted(hub, deed)
        case _:
            assert_never(deed)


def is_own_item(author: str, body: str, me: str, key: str) -> bool:
    """Whether a text is the one that we wrote with this key."""
    return author.lower() == me.lower() and key in find_tokens(body)


def find_pull(hub: GitHubRepository, deed: OpenPull, key: str) -> ActionResult | None:
    """The pull request of a branch: the one that we marked, else an open one."""
    pulls, me = hub.pulls_of(deed.head), hub.myself()
    for pull in pulls:
        if is_own_item(payloads.parse_author(pull), payloads.parse_text(pull, "body"), me, key):
            return payloads.parse_made(pull)
    for pull in pulls:
        if (
            payloads.parse_text(pull, "state") == "open"
            and payloads.parse_pull(pull).base == deed.base
        ):
            return payloads.parse_made(pull)
    return None


def find_label(hub: GitHubRepository, deed: CreateLabel) -> ActionResult | None:
    """The repository's label of that name."""
    path = hub.client.path(f"labels/{quote(deed.name, safe='')}")
    try:
        return payloads.parse_made(hub.client.read(path).data)
    except NotFound:
        return None


def find_rerun(hub: GitHubRepository, deed: RerunFailedJobs) -> ActionResult | None:
    """The run, if it has begun another attempt than the one that failed."""
    found = hub.workflow_run(deed.run_id)
    if found is None:
        raise NotFound(f"GET actions/runs/{deed.run_id}", 404, "Not Found")
    return (
        ActionResult(id=found.id)
        if payloads.parse_run(found.payload).attempt > deed.attempt
        else None
    )


def _find_marked(hub: GitHubRepository, items: Iterable[Item], key: str) -> ActionResult | None:
    me = hub.myself()
    for item in items:
        if is_own_item(item.author, item.body, me, key):
            return payloads.parse_made(item.payload)
    return None


def _is_updated(hub: GitHubRepository, deed: UpdatePull, key: str) -> ActionResult | None:
    item = hub.pull(deed.number)
    pull = payloads.parse_pull(item.payload)
    same = (
        deed.title in (None, pull.title) or format_title(deed.title or "") == pull.title,
        deed.body is None or key in find_tokens(pull.body),
        deed.state in (None, pull.state),
    )
    return payloads.parse_made(item.payload) if all(same) else None


def _is_as_wanted(
    hub: GitHubRepository, deed: CloseIssue | AddLabel | RemoveLabel
) -> ActionResult | None:
    issue = hub.issue(deed.number)
    there = {label.lower() for label in issue.labels}
    match deed:
        case CloseIssue():
            done = issue.state == "closed"
        case AddLabel():
            done = {label.lower() for label in deed.labels} <= there
        case RemoveLabel():
            done = deed.label.lower() not in there
    return ActionResult(number=issue.number, url=issue.url) if done else None


def perform_action(hub: GitHubRepository, deed: Action, key: str) -> ActionResult:
    """Do it; `key` is its token."""
    match deed:
        case OpenPull():
            return _open_pull(hub, deed, key)
        case CreateLabel():
            return _create_label(hub, deed)
        case RemoveLabel():
            return _unlabel(hub, deed)
        case RerunFailedJobs():
            return _rerun(hub, deed)
        case _:
            return _send_request(hub, *_action_request(deed, key))


def _action_request(
    deed: CreateComment
    | ReplyToReviewComment
    | EditComment
    | OpenIssue
    | UpdatePull
    | CloseIssue
    | AddLabel,
    key: str,
) -> tuple[str, str, Any]:
    """Method, path and body of a deed that is one plain request."""
    match deed:
        case CreateComment():
            return "POST", f"issues/{deed.number}/comments", {"body": add_marker(deed.body, key)}
        case ReplyToReviewComment():
            path = f"pulls/{deed.number}/comments/{deed.to_comment}/replies"
            return "POST", path, {"body": add_marker(deed.body, key)}
        case EditComment():
            path = f"issues/comments/{deed.comment_id}"
            return "PATCH", path, {"body": add_marker(deed.body, key)}
        case OpenIssue():
            fields = {"title": format_title(deed.title), "body": add_marker(deed.body, key)}
            return "POST", "issues", {**fields, "labels": list(deed.labels)}
        case UpdatePull():
            return "PATCH", f"pulls/{deed.number}", _pull_changes(deed, key)
        case CloseIssue():
            fields = {"state": "closed", "state_reason": deed.reason}
            return "PATCH", f"issues/{deed.number}", fields
        case AddLabel():
            return "POST", f"issues/{deed.number}/labels", {"labels": list(deed.labels)}
        case _:
            assert_never(deed)


def _pull_changes(deed: UpdatePull, key: str) -> dict[str, str]:
    given = {
        "title": None if deed.title is None else format_title(deed.title),
        "body": None if deed.body is None else add_marker(deed.body, key),
        "state": deed.state,
    }
    return {name: value for name, value in given.items() if value is not None}


def _open_pull(hub: GitHubRepository, deed: OpenPull, key: str) -> ActionResult:
    fields = {
        "title": format_title(deed.title),
        "body": add_marker(deed.body, key),
        "head": deed.head,
        "base": deed.base,
        "draft": deed.draft,
    }
    try:
        return _send_request(hub, "POST", "pulls", fields)
    except Invalid:
        # There is one of this branch already: then it is the one.
        found = find_pull(hub, deed, key)
        if found is None:
            raise
        return found


def _create_label(hub: GitHubRepository, deed: CreateLabel) -> ActionResult:
    fields = {"name": deed.name, "color": deed.color, "description": deed.description}
    try:
        return _send_request(hub, "POST", "labels", fields)
    except Invalid as error:
        found = find_label(hub, deed)
        if found is None and not _already_exists(error):
            raise
        return found or ActionResult()


def _already_exists(error: Invalid) -> bool:
    """Return whether GitHub refused a name that is taken. It may not show yet what has it."""
    return any(code == "already_exists" for _, code, _ in error.fields)


def _unlabel(hub: GitHubRepository, deed: RemoveLabel) -> ActionResult:
    try:
        return _send_request(
            hub, "DELETE", f"issues/{deed.number}/labels/{quote(deed.label, safe='')}", None
        )
    except NotFound:
        # The issue has no such label, unless there is no such issue.
        hub.issue(deed.number)
        return ActionResult()


def _rerun(hub: GitHubRepository, deed: RerunFailedJobs) -> ActionResult:
    """Once: a run that has gone on since its failure is not repeated again."""
    found = find_rerun(hub, deed)
    if found is not None:
        return found
    _send_request(hub, "POST", f"actions/runs/{deed.run_id}/rerun-failed-jobs", None)
    return ActionResult(id=deed.run_id)


def _send_request(hub: GitHubRepository, method: str, path: str, body: Any) -> ActionResult:
    answer = hub.client.write(method, hub.client.path(path), body)
    try:
        return payloads.parse_made(answer.data if isinstance(answer.data, dict) else {})
    except ServerFailed as error:
        # It was done: an answer that cannot be read must not lead to doing it again.
        raise Unclear(f"{method} {path}", "the answer has an unknown shape") from error
