"""Comments in the conversations of issues and pull requests."""

from __future__ import annotations

from dataclasses import replace

from hostler.sandbox.call import Call
from hostler.sandbox.entities import Comment, Issue
from hostler.sandbox.errors import forbidden, not_found
from hostler.sandbox.http import Response, no_content
from hostler.sandbox.issuing import touch
from hostler.sandbox.router import REPO, Router

router = Router()
ONE = REPO + "/issues/comments/{comment_id}"


@router.route("GET", REPO + "/issues/comments")
def list_for_repo(call: Call) -> Response:
    """All conversations' comments, by id unless sorted."""
    comments = call.tables.group(Comment, "repo", call.repo.id)
    return call.feed(comments, sorts=("created", "updated"))


@router.route("GET", REPO + "/issues/{number}/comments")
def list_for_issue(call: Call) -> Response:
    """One conversation's comments, by id."""
    return call.feed(call.tables.group(Comment, "issue", call.issue().id))


@router.route("POST", REPO + "/issues/{number}/comments", creates=True)
def create(call: Call) -> Response:
    """Say something. The conversation's `updated_at` moves."""
    issue = call.issue()
    check_lock(call, issue)
    body = call.fields("IssueComment").body(required=True)
    assert body is not None
    now = call.world.now()
    comment = Comment(
        id=call.world.new_id("comment"),
        repo_id=call.repo.id,
        issue_id=issue.id,
        number=issue.number,
        user=call.actor,
        body=body,
        created_at=now,
        updated_at=now,
        association=call.association(),
        app_id=call.viewer.app_id,
    )
    call.world.put(comment)
    touch(call, issue, comments=issue.comments + 1)
    call.world.tell("issue_comment", comment, "created", call.actor)
    url = f"{call.request.root}/repos/{call.repo.full_name}/issues/comments/{comment.id}"
    return call.one(comment, 201, Location=url)


@router.route("GET", ONE)
def get(call: Call) -> Response:
    """One comment."""
    return call.one(_comment(call))


@router.route("PATCH", ONE)
def edit(call: Call) -> Response:
    """Say it differently."""
    comment = _own(call)
    body = call.fields("IssueComment").body(required=True)
    assert body is not None
    changes = {"body": {"from": comment.body}}
    comment = call.world.put(replace(comment, body=body, updated_at=call.world.now()))
    issue = call.world.truth.get(Issue, comment.issue_id)
    if issue is not None:
        touch(call, issue)
    call.world.tell("issue_comment", comment, "edited", call.actor, changes=changes)
    return call.one(comment)


@router.route("DELETE", ONE)
def delete(call: Call) -> Response:
    """Take it back. Nothing's `updated_at` moves."""
    comment = _own(call)
    call.world.remove(comment)
    issue = call.world.truth.get(Issue, comment.issue_id)
    if issue is not None:
        call.world.put(replace(issue, comments=issue.comments - 1))
    call.world.tell("issue_comment", comment, "deleted", call.actor)
    return no_content()


def check_lock(call: Call, issue: Issue) -> None:
    """Refuse strangers in a locked conversation."""
    if issue.locked and not call.can("write"):
        raise forbidden("Unable to create comment because issue is locked.")


def _comment(call: Call) -> Comment:
    found = call.tables.get(Comment, call.number("comment_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    return found


def _own(call: Call) -> Comment:
    comment = _comment(call)
    if comment.user.lower() != call.actor.lower() and not call.can("write"):
        raise forbidden("Must have admin rights to Repository.")
    return comment
