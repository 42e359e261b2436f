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
from hostler.forge.events import content_as, item_result
from hostler.forge.github import payloads
from hostler.forge.port import ActionResult, Item, ItemKind, Pull, SurfaceFeed, WorkflowRun

if TYPE_CHECKING:
    from hostler.forge.github.client.repository import GitHubRepository


def find_action(
    repo: GitHubRepository, action: Action, token: str, since: datetime
) -> ActionResult | None:
    """Return the result of an earlier attempt, if it can be found."""
    match action:
        case CreateComment():
            return _find_marked(repo, repo.comments(action.number, since), token)
        case ReplyToReviewComment():
            return _find_marked(repo, repo.review_comments(action.number, since), token)
        case EditComment():
            found = repo.get_comment(ItemKind.ISSUE_COMMENT, action.comment_id)
            return _find_marked(repo, [found] if found else [], token)
        case OpenIssue():
            return _find_marked(repo, repo.changes(SurfaceFeed.ISSUES, since).items, token)
        case OpenPull():
            return find_pull(repo, action, token)
        case UpdatePull():
            return _is_updated(repo, action, token)
        case CreateLabel():
            return find_label(repo, action)
        case RerunFailedJobs():
            return find_rerun(repo, action)
        case CloseIssue() | AddLabel() | RemoveLabel():
            return _is_as_wanted(repo, action)
        case _:
            assert_never(action)


def is_own_item(author: str, body: str, own_login: str, token: str) -> bool:
    """Return whether this is the text that we wrote with this token."""
    return author.lower() == own_login.lower() and token in find_tokens(body)


def find_pull(repo: GitHubRepository, action: OpenPull, token: str) -> ActionResult | None:
    """Return the pull request of a branch: the one with our marker, else an open one."""
    pulls, own_login = repo.list_pulls_of_branch(action.head), repo.own_login()
    for pull in pulls:
        if is_own_item(
            payloads.parse_author(pull), payloads.parse_text(pull, "body"), own_login, token
        ):
            return payloads.parse_made(pull)
    for pull in pulls:
        if (
            payloads.parse_text(pull, "state") == "open"
            and payloads.parse_pull(pull).base == action.base
        ):
            return payloads.parse_made(pull)
    return None


def find_label(repo: GitHubRepository, action: CreateLabel) -> ActionResult | None:
    """Return the repository's label with that name."""
    path = repo.session.path(f"labels/{quote(action.name, safe='')}")
    try:
        return payloads.parse_made(repo.session.read(path).data)
    except NotFound:
        return None


def find_rerun(repo: GitHubRepository, action: RerunFailedJobs) -> ActionResult | None:
    """Return the run, if another attempt than the failed one has started."""
    found = repo.workflow_run(action.run_id)
    if found is None:
        raise NotFound(f"GET actions/runs/{action.run_id}", 404, "Not Found")
    return (
        ActionResult(id=found.id)
        if content_as(found, WorkflowRun).attempt > action.attempt
        else None
    )


def _find_marked(repo: GitHubRepository, items: Iterable[Item], token: str) -> ActionResult | None:
    own_login = repo.own_login()
    for item in items:
        if is_own_item(item.author, item.body, own_login, token):
            return item_result(item)
    return None


def _is_updated(repo: GitHubRepository, action: UpdatePull, token: str) -> ActionResult | None:
    item = repo.pull(action.number)
    pull = content_as(item, Pull)
    same = (
        action.title in (None, pull.title) or format_title(action.title or "") == pull.title,
        action.body is None or token in find_tokens(pull.body),
        action.state in (None, pull.state),
    )
    return item_result(item) if all(same) else None


def _is_as_wanted(
    repo: GitHubRepository, action: CloseIssue | AddLabel | RemoveLabel
) -> ActionResult | None:
    issue = repo.issue(action.number)
    there = {label.lower() for label in issue.labels}
    match action:
        case CloseIssue():
            done = issue.state == "closed"
        case AddLabel():
            done = {label.lower() for label in action.labels} <= there
        case RemoveLabel():
            done = action.label.lower() not in there
    return ActionResult(number=issue.number, url=issue.url) if done else None


def perform_action(repo: GitHubRepository, action: Action, token: str) -> ActionResult:
    """Perform an action; `token` is its action token."""
    match action:
        case OpenPull():
            return _open_pull(repo, action, token)
        case CreateLabel():
            return _create_label(repo, action)
        case RemoveLabel():
            return _unlabel(repo, action)
        case RerunFailedJobs():
            return _rerun(repo, action)
        case _:
            return _send_request(repo, *_action_request(action, token))


def _action_request(
    action: CreateComment
    | ReplyToReviewComment
    | EditComment
    | OpenIssue
    | UpdatePull
    | CloseIssue
    | AddLabel,
    token: str,
) -> tuple[str, str, Any]:
    """Return method, path and body of an action that is one plain request."""
    match action:
        case CreateComment():
            return (
                "POST",
                f"issues/{action.number}/comments",
                {"body": add_marker(action.body, token)},
            )
        case ReplyToReviewComment():
            path = f"pulls/{action.number}/comments/{action.to_comment}/replies"
            return "POST", path, {"body": add_marker(action.body, token)}
        case EditComment():
            path = f"issues/comments/{action.comment_id}"
            return "PATCH", path, {"body": add_marker(action.body, token)}
        case OpenIssue():
            fields = {"title": format_title(action.title), "body": add_marker(action.body, token)}
            return "POST", "issues", {**fields, "labels": list(action.labels)}
        case UpdatePull():
            return "PATCH", f"pulls/{action.number}", _pull_changes(action, token)
        case CloseIssue():
            fields = {"state": "closed", "state_reason": action.reason}
            return "PATCH", f"issues/{action.number}", fields
        case AddLabel():
            return "POST", f"issues/{action.number}/labels", {"labels": list(action.labels)}
        case _:
            assert_never(action)


def _pull_changes(action: UpdatePull, token: str) -> dict[str, str]:
    given = {
        "title": None if action.title is None else format_title(action.title),
        "body": None if action.body is None else add_marker(action.body, token),
        "state": action.state,
    }
    return {name: value for name, value in given.items() if value is not None}


def _open_pull(repo: GitHubRepository, action: OpenPull, token: str) -> ActionResult:
    fields = {
        "title": format_title(action.title),
        "body": add_marker(action.body, token),
        "head": action.head,
        "base": action.base,
        "draft": action.draft,
    }
    try:
        return _send_request(repo, "POST", "pulls", fields)
    except Invalid:
        # A pull request of this branch exists already: use it.
        found = find_pull(repo, action, token)
        if found is None:
            raise
        return found


def _create_label(repo: GitHubRepository, action: CreateLabel) -> ActionResult:
    fields = {"name": action.name, "color": action.color, "description": action.description}
    try:
        return _send_request(repo, "POST", "labels", fields)
    except Invalid as error:
        found = find_label(repo, action)
        if found is None and not _already_exists(error):
            raise
        return found or ActionResult()


def _already_exists(error: Invalid) -> bool:
    """Return whether GitHub rejected a name that is taken. It may not be visible yet."""
    return any(code == "already_exists" for _, code, _ in error.fields)


def _unlabel(repo: GitHubRepository, action: RemoveLabel) -> ActionResult:
    try:
        return _send_request(
            repo, "DELETE", f"issues/{action.number}/labels/{quote(action.label, safe='')}", None
        )
    except NotFound:
        # The issue has no such label, unless the issue does not exist.
        repo.issue(action.number)
        return ActionResult()


def _rerun(repo: GitHubRepository, action: RerunFailedJobs) -> ActionResult:
    """Rerun once: a run that has a newer attempt is not repeated again."""
    found = find_rerun(repo, action)
    if found is not None:
        return found
    _send_request(repo, "POST", f"actions/runs/{action.run_id}/rerun-failed-jobs", None)
    return ActionResult(id=action.run_id)


def _send_request(repo: GitHubRepository, method: str, path: str, body: Any) -> ActionResult:
    answer = repo.session.write(method, repo.session.path(path), body)
    try:
        return payloads.parse_made(answer.data if isinstance(answer.data, dict) else {})
    except ServerFailed as error:
        # The write was done: an unreadable answer must not lead to a repetition.
        raise Unclear(f"{method} {path}", "the answer has an unknown shape") from error
