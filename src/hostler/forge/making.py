"""How each deed is done on GitHub. One request each; refusals that mean "it is so" are success."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never
from urllib.parse import quote

from hostler.errors import Invalid, NotFound, ServerFailed, Unclear
from hostler.forge import payloads
from hostler.forge.deeds import (
    CloseIssue,
    Comment,
    CreateLabel,
    Deed,
    EditComment,
    Label,
    OpenIssue,
    OpenPull,
    Reply,
    RerunFailedJobs,
    Unlabel,
    UpdatePull,
)
from hostler.forge.finding import find_label, find_pull, find_rerun
from hostler.forge.markers import marked, titled
from hostler.forge.port import Made

if TYPE_CHECKING:
    from hostler.forge.github import GitHub


def make(hub: GitHub, deed: Deed, key: str) -> Made:
    """Do it; `key` is its token."""
    match deed:
        case OpenPull():
            return _open_pull(hub, deed, key)
        case CreateLabel():
            return _create_label(hub, deed)
        case Unlabel():
            return _unlabel(hub, deed)
        case RerunFailedJobs():
            return _rerun(hub, deed)
        case _:
            return _send(hub, *_request(deed, key))


def _request(
    deed: Comment | Reply | EditComment | OpenIssue | UpdatePull | CloseIssue | Label, key: str
) -> tuple[str, str, Any]:
    """Method, path and body of a deed that is one plain request."""
    match deed:
        case Comment():
            return "POST", f"issues/{deed.number}/comments", {"body": marked(deed.body, key)}
        case Reply():
            path = f"pulls/{deed.number}/comments/{deed.to_comment}/replies"
            return "POST", path, {"body": marked(deed.body, key)}
        case EditComment():
            path = f"issues/comments/{deed.comment_id}"
            return "PATCH", path, {"body": marked(deed.body, key)}
        case OpenIssue():
            fields = {"title": titled(deed.title), "body": marked(deed.body, key)}
            return "POST", "issues", {**fields, "labels": list(deed.labels)}
        case UpdatePull():
            return "PATCH", f"pulls/{deed.number}", _changes(deed, key)
        case CloseIssue():
            fields = {"state": "closed", "state_reason": deed.reason}
            return "PATCH", f"issues/{deed.number}", fields
        case Label():
            return "POST", f"issues/{deed.number}/labels", {"labels": list(deed.labels)}
        case _:
            assert_never(deed)


def _changes(deed: UpdatePull, key: str) -> dict[str, str]:
    given = {
        "title": None if deed.title is None else titled(deed.title),
        "body": None if deed.body is None else marked(deed.body, key),
        "state": deed.state,
    }
    return {name: value for name, value in given.items() if value is not None}


def _open_pull(hub: GitHub, deed: OpenPull, key: str) -> Made:
    fields = {
        "title": titled(deed.title),
        "body": marked(deed.body, key),
        "head": deed.head,
        "base": deed.base,
        "draft": deed.draft,
    }
    try:
        return _send(hub, "POST", "pulls", fields)
    except Invalid:
        # There is one of this branch already: then it is the one.
        found = find_pull(hub, deed, key)
        if found is None:
            raise
        return found


def _create_label(hub: GitHub, deed: CreateLabel) -> Made:
    fields = {"name": deed.name, "color": deed.color, "description": deed.description}
    try:
        return _send(hub, "POST", "labels", fields)
    except Invalid as error:
        found = find_label(hub, deed)
        if found is None and not _already_exists(error):
            raise
        return found or Made()


def _already_exists(error: Invalid) -> bool:
    """Return whether GitHub refused a name that is taken. It may not show yet what has it."""
    return any(code == "already_exists" for _, code, _ in error.fields)


def _unlabel(hub: GitHub, deed: Unlabel) -> Made:
    try:
        return _send(
            hub, "DELETE", f"issues/{deed.number}/labels/{quote(deed.label, safe='')}", None
        )
    except NotFound:
        # The issue has no such label, unless there is no such issue.
        hub.issue(deed.number)
        return Made()


def _rerun(hub: GitHub, deed: RerunFailedJobs) -> Made:
    """Once: a run that has gone on since its failure is not repeated again."""
    found = find_rerun(hub, deed)
    if found is not None:
        return found
    _send(hub, "POST", f"actions/runs/{deed.run_id}/rerun-failed-jobs", None)
    return Made(id=deed.run_id)


def _send(hub: GitHub, method: str, path: str, body: Any) -> Made:
    answer = hub.client.write(method, hub.client.path(path), body)
    try:
        return payloads.made(answer.data if isinstance(answer.data, dict) else {})
    except ServerFailed as error:
        # It was done: an answer that cannot be read must not lead to doing it again.
        raise Unclear(f"{method} {path}", "the answer has an unknown shape") from error
