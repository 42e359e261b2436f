"""Review comments: remarks on lines of a diff, and the answers to them."""

from __future__ import annotations

from dataclasses import replace

from hostler.sandbox.call import Call
from hostler.sandbox.errors import forbidden, invalid, not_found
from hostler.sandbox.http import Response, no_content
from hostler.sandbox.pull_entities import Pull, ReviewComment
from hostler.sandbox.review_writing import (
    RESOURCE,
    Remark,
    count_comments,
    put_remark,
    put_review,
    read_remark,
    reply_remark,
    touch_pull,
)
from hostler.sandbox.router import REPO, Router
from hostler.sandbox.routes.comments import check_lock
from hostler.sandbox.routes.pulls import find_pull
from hostler.sandbox.shapes import reviews as _shapes  # noqa: F401 - registers the shapes

router = Router()
OF_PULL = REPO + "/pulls/{number}/comments"
ONE = REPO + "/pulls/comments/{comment_id}"
SORTS = ("created", "updated")


@router.route("GET", REPO + "/pulls/comments")
def list_for_repo(call: Call) -> Response:
    """All remarks of a repository, by id unless sorted."""
    return call.feed(call.tables.group(ReviewComment, "repo", call.repo.id), sorts=SORTS)


@router.route("GET", OF_PULL)
def list_for_pull(call: Call) -> Response:
    """One pull request's remarks, by id unless sorted."""
    return call.feed(call.tables.group(ReviewComment, "pull", find_pull(call).id), sorts=SORTS)


@router.route("POST", OF_PULL, creates=True)
async def create(call: Call) -> Response:
    """Remark on a line, or answer a remark."""
    pull, fields = _writable(call), call.fields(RESOURCE)
    answered = fields.number("in_reply_to")
    if answered is not None:
        body = fields.body(required=True)
        parent = _parent(call, pull, answered)
        return _made(call, pull, reply_remark(parent, body or ""))
    if fields.text("commit_id") is None:
        raise invalid(RESOURCE, "commit_id", "missing_field")
    return _made(call, pull, await read_remark(call.git(), pull, fields))


@router.route("POST", OF_PULL + "/{comment_id}/replies", creates=True)
def reply(call: Call) -> Response:
    """Answer a remark. Answers to answers are not supported."""
    pull = _writable(call)
    parent = _parent(call, pull, call.number("comment_id"))
    body = call.fields(RESOURCE).body(required=True)
    return _made(call, pull, reply_remark(parent, body or ""))


@router.route("GET", ONE)
def get(call: Call) -> Response:
    """One remark."""
    return call.one(_comment(call))


@router.route("PATCH", ONE)
def edit(call: Call) -> Response:
    """Say it differently."""
    comment = _own(call)
    body = call.fields(RESOURCE).body(required=True)
    after = call.world.put(replace(comment, body=body or "", updated_at=call.world.now()))
    touch_pull(call, after.pull_id)
    call.world.tell("pull_request_review_comment", after, "edited", call.actor)
    return call.one(after)


@router.route("DELETE", ONE)
def delete(call: Call) -> Response:
    """Take it back. Nothing's `updated_at` moves."""
    comment = _own(call)
    call.world.remove(comment)
    if not comment.pending:
        count_comments(call, comment.pull_id, -1)
        call.world.tell("pull_request_review_comment", comment, "deleted", call.actor)
    return no_content()


def _made(call: Call, pull: Pull, remark: Remark) -> Response:
    # A single remark is a review of its own, without words.
    review = put_review(call, pull, "COMMENTED", "", remark.commit_id)
    made = put_remark(call, review, remark)
    url = f"{call.request.root}/repos/{call.repo.full_name}/pulls/comments/{made.id}"
    return call.one(made, 201, Location=url)


def _writable(call: Call) -> Pull:
    pull = find_pull(call)
    check_lock(call, call.issue())
    return pull


def _parent(call: Call, pull: Pull, comment_id: int) -> ReviewComment:
    found = call.tables.get(ReviewComment, comment_id)
    if found is None or found.pull_id != pull.id or found.pending:
        raise not_found()
    if found.in_reply_to is not None:
        raise invalid(RESOURCE, "in_reply_to", "invalid")
    return found


def _comment(call: Call) -> ReviewComment:
    found = call.tables.get(ReviewComment, call.number("comment_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    if found.pending and found.user.lower() != call.actor.lower():
        raise not_found()
    return found


def _own(call: Call) -> ReviewComment:
    comment = _comment(call)
    if comment.user.lower() != call.actor.lower() and not call.can("write"):
        raise forbidden()
    return comment
