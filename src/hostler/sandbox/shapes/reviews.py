"""The JSON of reviews and review comments."""

from __future__ import annotations

from typing import Any

from hostler.sandbox.entities import Issue
from hostler.sandbox.moments import iso
from hostler.sandbox.payloads import payload
from hostler.sandbox.pull_entities import Pull, Review, ReviewComment
from hostler.sandbox.render import Frame, shape
from hostler.sandbox.shapes.commits import page_url
from hostler.sandbox.shapes.issues import reactions, repo_url
from hostler.sandbox.shapes.people import node_id, simple_user
from hostler.sandbox.shapes.pulls import short_pull


@shape(Review)
def review(item: Review, frame: Frame) -> dict[str, Any]:
    """A review. It has no `updated_at`; a pending one has no `submitted_at` either."""
    pull = f"{repo_url(item.repo_id, frame)}/pulls/{item.number}"
    page = f"{page_url(item.repo_id, frame)}/pull/{item.number}#pullrequestreview-{item.id}"
    shown = {
        "id": item.id,
        "node_id": node_id("PullRequestReview", item.id),
        "user": simple_user(item.user, frame),
        "body": item.body,
        "state": item.state,
        "html_url": page,
        "pull_request_url": pull,
        "author_association": item.association,
        "_links": {"html": {"href": page}, "pull_request": {"href": pull}},
        "commit_id": item.commit_id,
    }
    if item.submitted_at is not None:
        shown["submitted_at"] = iso(item.submitted_at)
    return shown


@shape(ReviewComment)
def review_comment(item: ReviewComment, frame: Frame) -> dict[str, Any]:
    """A remark on a line; `line` and `position` are null once the line is gone."""
    base = repo_url(item.repo_id, frame)
    url, pull = f"{base}/pulls/comments/{item.id}", f"{base}/pulls/{item.number}"
    page = f"{page_url(item.repo_id, frame)}/pull/{item.number}#discussion_r{item.id}"
    shown = {
        "id": item.id,
        "node_id": node_id("PullRequestReviewComment", item.id),
        "url": url,
        "html_url": page,
        "pull_request_url": pull,
        "_links": {"self": {"href": url}, "html": {"href": page}, "pull_request": {"href": pull}},
        "pull_request_review_id": item.review_id,
        "user": simple_user(item.user, frame),
        "body": item.body,
        "path": item.path,
        "diff_hunk": item.diff_hunk,
        "commit_id": item.commit_id,
        "original_commit_id": item.original_commit_id,
        "created_at": iso(item.created_at),
        "updated_at": iso(item.updated_at),
        "author_association": item.association,
        "reactions": reactions((), url),
        **_place(item),
    }
    if item.in_reply_to is not None:
        shown["in_reply_to_id"] = item.in_reply_to
    return shown


def _place(item: ReviewComment) -> dict[str, Any]:
    return {
        "subject_type": item.subject,
        "line": item.spot.line,
        "start_line": item.spot.start_line,
        "position": item.spot.position,
        "original_line": item.original.line,
        "original_start_line": item.original.start_line,
        "original_position": item.original.position,
        "side": item.side,
        "start_side": item.start_side,
    }


@payload("pull_request_review")
def _review(item: Review, _action: str, frame: Frame) -> dict[str, Any]:
    return {"review": review(item, frame), "pull_request": _pull(item.pull_id, frame)}


@payload("pull_request_review_comment")
def _comment(item: ReviewComment, _action: str, frame: Frame) -> dict[str, Any]:
    return {"comment": review_comment(item, frame), "pull_request": _pull(item.pull_id, frame)}


def _pull(pull_id: int, frame: Frame) -> dict[str, Any] | None:
    pull = frame.tables.get(Pull, pull_id)
    issue = frame.tables.get(Issue, pull.issue_id) if pull else None
    return short_pull(issue, frame) if issue else None
