"""Making review comments: reading where they stand, and putting them into the world."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hostler.sandbox import review_spots
from hostler.sandbox.call import Call
from hostler.sandbox.entities import Issue
from hostler.sandbox.errors import ApiError, invalid, unprocessable
from hostler.sandbox.fields import Fields
from hostler.sandbox.git import compare, names, refs
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.pull_entities import Pull, Review, ReviewComment, Spot
from hostler.sandbox.review_spots import Found

RESOURCE = "PullRequestReviewComment"
SIDES = ("LEFT", "RIGHT")


@dataclass(frozen=True, slots=True)
class Remark:
    """A comment that is ready to be put into the world."""

    body: str
    path: str
    commit_id: str
    found: Found
    side: str = "RIGHT"
    start_side: str | None = None
    subject: str = "line"
    in_reply_to: int | None = None


async def read_remark(git: Repository, pull: Pull, fields: Fields) -> Remark:
    """What a JSON body wants to say, and where; 422 where the diff does not show the place."""
    body = fields.body(required=True)
    path = fields.text("path", required=True)
    assert body is not None and path is not None
    commit = await read_commit(git, pull, fields)
    patch = await _patch(git, pull, commit, path)
    subject = fields.choice("subject_type", ("line", "file")) or "line"
    if subject == "file":
        return Remark(body, path, commit, Found(Spot(), ""), subject=subject)
    found, side, start_side = _place(fields, patch or "")
    return Remark(body, path, commit, found, side, start_side)


async def read_commit(git: Repository, pull: Pull, fields: Fields) -> str:
    """The commit that is spoken of: the head, or another one of the pull request."""
    commit = fields.text("commit_id") or pull.head_sha
    known = names.is_sha(commit) and await refs.object_kind(git, commit) == "commit"
    if not known or not await refs.contains(git, pull.head_sha, commit):
        raise invalid(fields.resource, "commit_id", "invalid")
    return commit


async def _patch(git: Repository, pull: Pull, commit: str, path: str) -> str | None:
    files = await compare.new_files(git, pull.base_sha, commit)
    found = next((file for file in files if file.path == path), None)
    if found is None:
        raise _misplaced("path", "is invalid")
    return found.patch


def _place(fields: Fields, patch: str) -> tuple[Found, str, str | None]:
    position, line = fields.number("position"), fields.number("line")
    if line is None and position is not None:
        by_position = review_spots.find_position(patch, position)
        if by_position is None:
            raise _misplaced("position", "is invalid")
        return by_position[0], by_position[1], None
    if line is None:
        raise invalid(RESOURCE, "line", "missing_field")
    side = fields.choice("side", SIDES) or "RIGHT"
    start = fields.number("start_line")
    start_side = fields.choice("start_side", SIDES) or side
    if start is not None and start >= line and start_side == side:
        raise _misplaced("start_line", "must precede the end line.")
    found = review_spots.find(patch, line, side, start, start_side)
    if found is None:
        raise _misplaced("line", "must be part of the diff")
    return found, side, start_side if start is not None else None


def _misplaced(field: str, problem: str) -> ApiError:
    name = f"pull_request_review_thread.{field}"
    detail = {"resource": RESOURCE, "code": "custom", "field": name}
    return unprocessable("Validation Failed", [{**detail, "message": f"{name} {problem}"}])


def reply_remark(parent: ReviewComment, body: str) -> Remark:
    """An answer, at the place of what it answers."""
    return Remark(
        body,
        parent.path,
        parent.commit_id,
        Found(parent.spot, parent.diff_hunk),
        parent.side,
        parent.start_side,
        parent.subject,
        parent.id,
    )


def put_remark(call: Call, review: Review, remark: Remark) -> ReviewComment:
    """Put a comment into the world as part of a review."""
    now = call.world.now()
    made = ReviewComment(
        id=call.world.new_id("review_comment"),
        repo_id=review.repo_id,
        pull_id=review.pull_id,
        number=review.number,
        review_id=review.id,
        user=review.user,
        body=remark.body,
        path=remark.path,
        diff_hunk=remark.found.hunk,
        commit_id=remark.commit_id,
        original_commit_id=remark.commit_id,
        spot=remark.found.spot,
        original=remark.found.spot,
        created_at=now,
        updated_at=now,
        side=remark.side,
        start_side=remark.start_side,
        subject=remark.subject,
        in_reply_to=remark.in_reply_to,
        association=review.association,
        pending=review.pending,
    )
    call.world.put(made)
    if not made.pending:
        count_comments(call, made.pull_id, 1)
        call.world.tell("pull_request_review_comment", made, "created", call.actor)
    return made


def put_review(call: Call, pull: Pull, state: str, body: str, commit: str) -> Review:
    """Put a review into the world; a submitted one moves the pull request's `updated_at`."""
    pending = state == "PENDING"
    review = call.world.put(
        Review(
            id=call.world.new_id("review"),
            repo_id=pull.repo_id,
            pull_id=pull.id,
            number=pull.number,
            user=call.actor,
            body=body,
            state=state,
            commit_id=commit,
            submitted_at=None if pending else call.world.now(),
            association=call.association(),
        )
    )
    if not pending:
        touch_pull(call, pull.id)
    return review


def touch_pull(call: Call, pull_id: int) -> None:
    """Move a pull request's `updated_at`."""
    pull = call.world.truth.get(Pull, pull_id)
    issue = call.world.truth.get(Issue, pull.issue_id) if pull else None
    if issue is not None:
        call.world.put(replace(issue, updated_at=call.world.now()))


def count_comments(call: Call, pull_id: int, change: int) -> None:
    """Keep the pull request's number of review comments."""
    pull = call.world.truth.get(Pull, pull_id)
    if pull is not None:
        call.world.put(replace(pull, review_comments=pull.review_comments + change))


def object_fields(value: Any, resource: str) -> Fields:
    """An object inside a body, with its own complaints."""
    if not isinstance(value, dict):
        raise invalid(resource, "comments", "invalid")
    return Fields(resource, value)
