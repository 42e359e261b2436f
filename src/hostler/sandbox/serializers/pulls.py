"""The JSON of pull requests, reviews and review comments."""

from __future__ import annotations

from typing import Any

from hostler.sandbox.pulls import mergeability
from hostler.sandbox.pulls.entities import PullRequest, PushRecord, Review, ReviewComment
from hostler.sandbox.serializers.base import RenderContext, serialize, serializer, webhook_payload
from hostler.sandbox.serializers.issues import labels_of, reaction_counts
from hostler.sandbox.serializers.repos import node_id, page_url, repo_url, simple_user
from hostler.sandbox.state.clock import iso, iso_or_none
from hostler.sandbox.state.entities import Issue, Repo


@serializer(Issue, "pull", kept=False)
def serialize_short_pull(issue: Issue, frame: RenderContext) -> dict[str, Any]:
    """Return a pull request in a list."""
    pull = pull_of(issue, frame)
    base, page = repo_url(pull.repo_id, frame), page_url(pull.repo_id, frame)
    url, links = f"{base}/pulls/{pull.number}", _pull_urls(pull, base)
    return {
        "id": pull.id,
        "node_id": node_id("PullRequest", pull.id),
        "url": url,
        "html_url": f"{page}/pull/{pull.number}",
        "diff_url": f"{page}/pull/{pull.number}.diff",
        "patch_url": f"{page}/pull/{pull.number}.patch",
        **{f"{name}_url": link for name, link in links.items()},
        "_links": {
            "self": {"href": url},
            "html": {"href": f"{page}/pull/{pull.number}"},
            **{name: {"href": link} for name, link in links.items()},
        },
        "head": _pull_side(pull.head_owner, pull.head_ref, pull.head_sha, pull.repo_id, frame),
        "base": _pull_side(
            _pull_owner(pull, frame), pull.base_ref, pull.base_sha, pull.repo_id, frame
        ),
        "merge_commit_sha": pull.merge_sha,
        "merged_at": iso_or_none(pull.merged_at),
        "requested_reviewers": [simple_user(login, frame) for login in pull.reviewers],
        "requested_teams": [],
        "auto_merge": None,
        **_issue_fields(issue, frame),
    }


@serializer(Issue, "pull_full", kept=False)
def serialize_pull(issue: Issue, frame: RenderContext) -> dict[str, Any]:
    """Return a pull request on its own."""
    pull = pull_of(issue, frame)
    opened = issue.state == "open"
    return {
        **serialize_short_pull(issue, frame),
        "merged": pull.merged_at is not None,
        "mergeable": pull.mergeable if opened else None,
        "rebaseable": pull.mergeable if opened else None,
        "mergeable_state": mergeability.mergeable_state(frame.tables, issue, pull),
        "merged_by": simple_user(pull.merged_by, frame) if pull.merged_by else None,
        "comments": issue.comments,
        "review_comments": pull.review_comments,
        "maintainer_can_modify": pull.maintainer_can_modify,
        "commits": pull.size.commits,
        "additions": pull.size.additions,
        "deletions": pull.size.deletions,
        "changed_files": pull.size.files,
    }


def pull_of(issue: Issue, frame: RenderContext) -> PullRequest:
    """Return the pull request that an issue is."""
    pull = frame.tables.find(PullRequest, "issue", issue.id)
    assert pull is not None, "an issue says that it is a pull request, and is none"
    return pull


def _issue_fields(issue: Issue, frame: RenderContext) -> dict[str, Any]:
    assignees = [simple_user(login, frame) for login in issue.assignees]
    return {
        "number": issue.number,
        "title": issue.title,
        "body": issue.body,
        "state": issue.state,
        "locked": issue.locked,
        "active_lock_reason": issue.lock_reason,
        "draft": bool(issue.pull and issue.pull.draft),
        "user": simple_user(issue.user, frame),
        "labels": labels_of(issue, frame),
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees,
        "milestone": None,
        "author_association": issue.association,
        "created_at": iso(issue.created_at),
        "updated_at": iso(issue.updated_at),
        "closed_at": iso_or_none(issue.closed_at),
    }


def _pull_urls(pull: PullRequest, base: str) -> dict[str, str]:
    url = f"{base}/pulls/{pull.number}"
    return {
        "issue": f"{base}/issues/{pull.number}",
        "comments": f"{base}/issues/{pull.number}/comments",
        "review_comments": f"{url}/comments",
        "review_comment": base + "/pulls/comments{/number}",
        "commits": f"{url}/commits",
        "statuses": f"{base}/statuses/{pull.head_sha}",
    }


def _pull_owner(pull: PullRequest, frame: RenderContext) -> str:
    repo = frame.tables.get(Repo, pull.repo_id)
    return repo.owner if repo else "ghost"


def _pull_side(
    owner: str, ref: str, sha: str, repo_id: int, frame: RenderContext
) -> dict[str, Any]:
    repo = frame.tables.get(Repo, repo_id)
    return {
        "label": f"{owner}:{ref}",
        "ref": ref,
        "sha": sha,
        "user": simple_user(owner, frame),
        "repo": serialize(repo, frame) if repo else None,
    }


@serializer(PullRequest, "minimal", kept=False)
def minimal_pull(pull: PullRequest, frame: RenderContext) -> dict[str, Any]:
    """Return a pull request inside a check or workflow run."""
    base = repo_url(pull.repo_id, frame)
    repo = frame.tables.get(Repo, pull.repo_id)
    where = {"id": pull.repo_id, "url": base, "name": repo.name if repo else "ghost"}
    return {
        "id": pull.id,
        "number": pull.number,
        "url": f"{base}/pulls/{pull.number}",
        "head": {"ref": pull.head_ref, "sha": pull.head_sha, "repo": where},
        "base": {"ref": pull.base_ref, "sha": pull.base_sha, "repo": where},
    }


@webhook_payload("pull_request")
def _pull_request(item: PullRequest, _action: str, frame: RenderContext) -> dict[str, Any]:
    issue = frame.tables.get(Issue, item.issue_id)
    return {"number": item.number, "pull_request": serialize_pull(issue, frame) if issue else None}


@webhook_payload("push")
def _push(item: PushRecord, _action: str, frame: RenderContext) -> dict[str, Any]:
    page = page_url(item.repo_id, frame)
    commits = [
        {"id": sha, "message": message, "url": f"{page}/commit/{sha}", "distinct": True}
        for sha, message in item.commits
    ]
    return {
        "ref": item.ref,
        "before": item.before,
        "after": item.after,
        "created": set(item.before) == {"0"},
        "deleted": set(item.after) == {"0"},
        "forced": item.forced,
        "base_ref": None,
        "compare": f"{page}/compare/{item.before[:12]}...{item.after[:12]}",
        "commits": commits,
        "head_commit": commits[-1] if commits else None,
        "pusher": {"name": item.pusher},
    }


@webhook_payload("create")
@webhook_payload("delete")
def _ref_event(item: PushRecord, _action: str, _frame: RenderContext) -> dict[str, Any]:
    _, kind, name = item.ref.split("/", 2)
    return {"ref": name, "ref_type": "tag" if kind == "tags" else "branch", "pusher_type": "user"}


@serializer(Review)
def serialize_review(item: Review, frame: RenderContext) -> dict[str, Any]:
    """Return a review. It has no `updated_at`; a pending one has no `submitted_at` either."""
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


@serializer(ReviewComment)
def serialize_review_comment(item: ReviewComment, frame: RenderContext) -> dict[str, Any]:
    """Return a review comment; `line` and `position` are null once its line is gone."""
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
        "reactions": reaction_counts((), url),
        **_position_fields(item),
    }
    if item.in_reply_to is not None:
        shown["in_reply_to_id"] = item.in_reply_to
    return shown


def _position_fields(item: ReviewComment) -> dict[str, Any]:
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


@webhook_payload("pull_request_review")
def _review_payload(item: Review, _action: str, frame: RenderContext) -> dict[str, Any]:
    return {
        "review": serialize_review(item, frame),
        "pull_request": _payload_pull(item.pull_id, frame),
    }


@webhook_payload("pull_request_review_comment")
def _review_comment_payload(
    item: ReviewComment, _action: str, frame: RenderContext
) -> dict[str, Any]:
    return {
        "comment": serialize_review_comment(item, frame),
        "pull_request": _payload_pull(item.pull_id, frame),
    }


def _payload_pull(pull_id: int, frame: RenderContext) -> dict[str, Any] | None:
    pull = frame.tables.get(PullRequest, pull_id)
    issue = frame.tables.get(Issue, pull.issue_id) if pull else None
    return serialize_short_pull(issue, frame) if issue else None
