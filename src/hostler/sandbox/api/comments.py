"""Comments in the conversations of issues and pull requests, and reactions to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hostler.sandbox.http.call import ApiCall
from hostler.sandbox.http.errors import forbidden, invalid, not_found
from hostler.sandbox.http.pagination import PageableList
from hostler.sandbox.http.requests import SandboxResponse, json_response, no_content
from hostler.sandbox.http.router import REPO, ApiRouter
from hostler.sandbox.issues import touch_issue
from hostler.sandbox.serializers.issues import REACTIONS
from hostler.sandbox.serializers.repos import node_id, simple_user
from hostler.sandbox.state.clock import iso
from hostler.sandbox.state.entities import Comment, Issue

router = ApiRouter()
COMMENT = REPO + "/issues/comments/{comment_id}"


@router.route("GET", REPO + "/issues/comments")
def list_repo_comments(call: ApiCall) -> SandboxResponse:
    """Return all conversations' comments, by id unless sorted."""
    comments = call.tables.group(Comment, "repo", call.repo.id)
    return call.feed(comments, sorts=("created", "updated"))


@router.route("GET", REPO + "/issues/{number}/comments")
def list_issue_comments(call: ApiCall) -> SandboxResponse:
    """Return one conversation's comments, by id."""
    return call.feed(call.tables.group(Comment, "issue", call.issue().id))


@router.route("POST", REPO + "/issues/{number}/comments", creates=True)
def create_comment(call: ApiCall) -> SandboxResponse:
    """Add a comment and update the issue's `updated_at`."""
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
    touch_issue(call, issue, comments=issue.comments + 1)
    call.world.publish("issue_comment", comment, "created", call.actor)
    url = f"{call.request.root}/repos/{call.repo.full_name}/issues/comments/{comment.id}"
    return call.one(comment, 201, Location=url)


@router.route("GET", COMMENT)
def get_comment(call: ApiCall) -> SandboxResponse:
    """Return one comment."""
    return call.one(_find_comment(call))


@router.route("PATCH", COMMENT)
def edit_comment(call: ApiCall) -> SandboxResponse:
    """Change a comment's text."""
    comment = _own_comment(call)
    body = call.fields("IssueComment").body(required=True)
    assert body is not None
    changes = {"body": {"from": comment.body}}
    comment = call.world.put(replace(comment, body=body, updated_at=call.world.now()))
    issue = call.world.truth.get(Issue, comment.issue_id)
    if issue is not None:
        touch_issue(call, issue)
    call.world.publish("issue_comment", comment, "edited", call.actor, changes=changes)
    return call.one(comment)


@router.route("DELETE", COMMENT)
def delete_comment(call: ApiCall) -> SandboxResponse:
    """Delete a comment. No `updated_at` changes."""
    comment = _own_comment(call)
    call.world.remove(comment)
    issue = call.world.truth.get(Issue, comment.issue_id)
    if issue is not None:
        call.world.put(replace(issue, comments=issue.comments - 1))
    call.world.publish("issue_comment", comment, "deleted", call.actor)
    return no_content()


def check_lock(call: ApiCall, issue: Issue) -> None:
    """Raise 403 if the conversation is locked and the caller may not write."""
    if issue.locked and not call.can("write"):
        raise forbidden("Unable to create comment because issue is locked.")


def _find_comment(call: ApiCall) -> Comment:
    found = call.tables.get(Comment, call.number("comment_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    return found


def _own_comment(call: ApiCall) -> Comment:
    comment = _find_comment(call)
    if comment.user.lower() != call.actor.lower() and not call.can("write"):
        raise forbidden("Must have admin rights to Repository.")
    return comment


COMMENT_REACTIONS = REPO + "/issues/comments/{comment_id}/reactions"
Reaction = tuple[int, str, str]


@router.route("GET", COMMENT_REACTIONS)
def list_reactions(call: ApiCall) -> SandboxResponse:
    """Return the reactions to a comment."""
    comment = _find_comment(call)
    content = call.request.query.get("content")
    wanted = [given for given in comment.reactions if content in (None, given[2])]
    chosen, headers = call.cut(PageableList(wanted))
    response = json_response([_serialize_reaction(call, comment, given) for given in chosen])
    response.headers.update(headers)
    return response


@router.route("POST", COMMENT_REACTIONS, creates=True)
def add_reaction(call: ApiCall) -> SandboxResponse:
    """React; the same reaction a second time is answered 200. No `updated_at` moves."""
    comment = _find_comment(call)
    content = call.fields("Reaction").choice("content", REACTIONS)
    if content is None:
        raise invalid("Reaction", "content", "missing_field")
    for given in comment.reactions:
        if given[1:] == (call.actor, content):
            return json_response(_serialize_reaction(call, comment, given))
    made = (call.world.new_id("reaction"), call.actor, content)
    call.world.put(replace(comment, reactions=(*comment.reactions, made)))
    return json_response(_serialize_reaction(call, comment, made), 201)


@router.route("DELETE", COMMENT_REACTIONS + "/{reaction_id}")
def remove_reaction(call: ApiCall) -> SandboxResponse:
    """Take a reaction back."""
    comment, wanted = _find_comment(call), call.number("reaction_id")
    given = next((given for given in comment.reactions if given[0] == wanted), None)
    if given is None:
        raise not_found()
    if given[1].lower() != call.actor.lower():
        raise forbidden()
    kept = tuple(other for other in comment.reactions if other != given)
    call.world.put(replace(comment, reactions=kept))
    return no_content()


def _serialize_reaction(call: ApiCall, comment: Comment, given: Reaction) -> dict[str, Any]:
    return {
        "id": given[0],
        "node_id": node_id("Reaction", given[0]),
        "user": simple_user(given[1], call.frame),
        "content": given[2],
        "created_at": iso(comment.created_at),
    }
