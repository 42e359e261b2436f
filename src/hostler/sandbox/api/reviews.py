"""Reviews and review comments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hostler.sandbox.api.comments import check_lock
from hostler.sandbox.api.pulls import find_pull
from hostler.sandbox.http.call import ApiCall
from hostler.sandbox.http.errors import forbidden, invalid, not_found, unprocessable, wrong_type
from hostler.sandbox.http.requests import JsonFields, SandboxResponse, no_content
from hostler.sandbox.http.router import REPO, ApiRouter
from hostler.sandbox.pulls.entities import PullRequest, Review, ReviewComment
from hostler.sandbox.pulls.review_comments import (
    REVIEW_COMMENT,
    CommentDraft,
    add_review,
    add_review_comment,
    count_comments,
    draft_reply,
    inner_fields,
    read_commit,
    read_draft,
    touch_pull,
)
from hostler.sandbox.serializers import pulls as _shapes  # noqa: F401 - registers the shapes
from hostler.sandbox.state.entities import Issue

router = ApiRouter()
REVIEWS = REPO + "/pulls/{number}/reviews"
REVIEW = REVIEWS + "/{review_id}"
REVIEW_STATES = {
    "APPROVE": "APPROVED",
    "REQUEST_CHANGES": "CHANGES_REQUESTED",
    "COMMENT": "COMMENTED",
}


@dataclass(frozen=True)
class VisibleReviews:
    """Pending reviews are their author's own."""

    login: str

    def __call__(self, review: Review) -> bool:
        return not review.pending or review.user.lower() == self.login


@router.route("GET", REVIEWS)
def list_reviews(call: ApiCall) -> SandboxResponse:
    """In the order of their submission; neither `since` nor sorting."""
    reviews = call.tables.group(Review, "pull", find_pull(call).id)
    return call.page(reviews.select("submitted", where=VisibleReviews(call.actor.lower())))


@router.route("POST", REVIEWS, creates=True)
async def create_review(call: ApiCall) -> SandboxResponse:
    """Start a review, or submit it at once where an event is named."""
    pull, issue, fields = find_pull(call), call.issue(), call.fields("PullRequestReview")
    check_lock(call, issue)
    event, body = fields.choice("event", tuple(REVIEW_STATES)), fields.body()
    commit = await read_commit(call.git(), pull, fields)
    drafts = await _read_drafts(call, pull, fields, commit)
    _check_event(call, issue, event, body, bool(drafts))
    if event is None and _has_pending_review(call, pull):
        raise _refusal("User can only have one pending review per pull request")
    review = add_review(call, pull, REVIEW_STATES.get(event or "", "PENDING"), body or "", commit)
    for draft in drafts:
        add_review_comment(call, review, draft)
    if event is not None:
        _record_submission(call, review)
    return call.one(review)


async def _read_drafts(
    call: ApiCall, pull: PullRequest, fields: JsonFields, commit: str
) -> list[CommentDraft]:
    given = fields.values.get("comments") or []
    if not isinstance(given, list):
        raise wrong_type("comments", given, "an array")
    found = []
    for value in given:
        inner = inner_fields(value, REVIEW_COMMENT)
        inner.values.setdefault("commit_id", commit)
        found.append(await read_draft(call.git(), pull, inner))
    return found


def _check_event(
    call: ApiCall, issue: Issue, event: str | None, body: str | None, drafts: bool
) -> None:
    own = issue.user.lower() == call.actor.lower()
    if own and event == "APPROVE":
        raise _refusal("Can not approve your own pull request")
    if own and event == "REQUEST_CHANGES":
        raise _refusal("Can not request changes on your own pull request")
    wordless = not (body or "").strip()
    if event == "REQUEST_CHANGES" and wordless:
        raise _refusal("Body can't be blank")
    if event == "COMMENT" and wordless and not drafts:
        raise _refusal("Body can't be blank")


def _has_pending_review(call: ApiCall, pull: PullRequest) -> bool:
    reviews = call.tables.group(Review, "pull", pull.id).select()
    return any(r.pending and r.user.lower() == call.actor.lower() for r in reviews)


def _refusal(text: str) -> Exception:
    return unprocessable("Unprocessable Entity", [text])


def _record_submission(call: ApiCall, review: Review) -> None:
    pull = call.world.truth.get(PullRequest, review.pull_id)
    if pull is not None:
        left = tuple(name for name in pull.reviewers if name.lower() != call.actor.lower())
        call.world.put(replace(pull, reviewers=left))
    call.world.publish("pull_request_review", review, "submitted", call.actor)


@router.route("GET", REVIEW)
def get_review(call: ApiCall) -> SandboxResponse:
    """Return one review."""
    return call.one(_find_review(call))


@router.route("PUT", REVIEW)
def edit_review(call: ApiCall) -> SandboxResponse:
    """Change a review's text."""
    review = _own_review(call)
    body = call.fields("PullRequestReview").body(required=True)
    after = call.world.put(replace(review, body=body or ""))
    touch_pull(call, after.pull_id)
    call.world.publish("pull_request_review", after, "edited", call.actor)
    return call.one(after)


@router.route("DELETE", REVIEW)
def delete_review(call: ApiCall) -> SandboxResponse:
    """Delete a pending review."""
    review = _own_review(call)
    if not review.pending:
        raise unprocessable("Can not delete a non-pending pull request review")
    answer = call.one(review)
    for comment in list(call.tables.group(ReviewComment, "review", review.id).select()):
        call.world.remove(comment)
    call.world.remove(review)
    return answer


@router.route("GET", REVIEW + "/comments")
def list_comments_of_review(call: ApiCall) -> SandboxResponse:
    """Return a review's comments."""
    return call.page(call.tables.group(ReviewComment, "review", _find_review(call).id).select())


@router.route("POST", REVIEW + "/events", creates=True)
def submit_review(call: ApiCall) -> SandboxResponse:
    """Submit a pending review; its comments become visible."""
    review, issue, fields = _own_review(call), call.issue(), call.fields("PullRequestReview")
    event, body = fields.choice("event", tuple(REVIEW_STATES)), fields.body()
    if event is None:
        raise invalid("PullRequestReview", "event", "missing_field")
    if not review.pending:
        raise unprocessable("Can not submit a review that has already been submitted.")
    drafts = list(call.tables.group(ReviewComment, "review", review.id).select())
    _check_event(call, issue, event, body or review.body, bool(drafts))
    now = call.world.now()
    words: dict[str, Any] = {"body": body} if body is not None else {}
    after = call.world.put(replace(review, state=REVIEW_STATES[event], submitted_at=now, **words))
    for comment in drafts:
        shown = call.world.put(replace(comment, pending=False, created_at=now, updated_at=now))
        count_comments(call, shown.pull_id, 1)
        call.world.publish("pull_request_review_comment", shown, "created", call.actor)
    touch_pull(call, after.pull_id)
    _record_submission(call, after)
    return call.one(after)


@router.route("PUT", REVIEW + "/dismissals", access="write")
def dismiss_review(call: ApiCall) -> SandboxResponse:
    """Dismiss a review."""
    review = _find_review(call)
    call.fields("PullRequestReview").text("message", required=True)
    if review.state not in ("APPROVED", "CHANGES_REQUESTED"):
        raise unprocessable("Can not dismiss a commented pull request review")
    after = call.world.put(replace(review, state="DISMISSED"))
    call.world.add_issue_event(call.issue(), "review_dismissed", call.actor)
    touch_pull(call, after.pull_id)
    call.world.publish("pull_request_review", after, "dismissed", call.actor)
    return call.one(after)


def _find_review(call: ApiCall) -> Review:
    pull = find_pull(call)
    found = call.tables.get(Review, call.number("review_id"))
    if found is None or found.pull_id != pull.id or not VisibleReviews(call.actor.lower())(found):
        raise not_found()
    return found


def _own_review(call: ApiCall) -> Review:
    review = _find_review(call)
    if review.user.lower() != call.actor.lower():
        raise forbidden("Must have admin rights to Repository.")
    return review


PULL_COMMENTS = REPO + "/pulls/{number}/comments"
PULL_COMMENT = REPO + "/pulls/comments/{comment_id}"
COMMENT_SORTS = ("created", "updated")


@router.route("GET", REPO + "/pulls/comments")
def list_repo_review_comments(call: ApiCall) -> SandboxResponse:
    """Return all review comments of a repository, by id unless sorted."""
    return call.feed(call.tables.group(ReviewComment, "repo", call.repo.id), sorts=COMMENT_SORTS)


@router.route("GET", PULL_COMMENTS)
def list_pull_review_comments(call: ApiCall) -> SandboxResponse:
    """Return one pull request's review comments, by id unless sorted."""
    return call.feed(
        call.tables.group(ReviewComment, "pull", find_pull(call).id), sorts=COMMENT_SORTS
    )


@router.route("POST", PULL_COMMENTS, creates=True)
async def create_review_comment(call: ApiCall) -> SandboxResponse:
    """Create a review comment on a line, or a reply."""
    pull, fields = _commentable_pull(call), call.fields(REVIEW_COMMENT)
    answered = fields.number("in_reply_to")
    if answered is not None:
        body = fields.body(required=True)
        parent = _find_parent(call, pull, answered)
        return _add_single_comment(call, pull, draft_reply(parent, body or ""))
    if fields.text("commit_id") is None:
        raise invalid(REVIEW_COMMENT, "commit_id", "missing_field")
    return _add_single_comment(call, pull, await read_draft(call.git(), pull, fields))


@router.route("POST", PULL_COMMENTS + "/{comment_id}/replies", creates=True)
def reply_to_review_comment(call: ApiCall) -> SandboxResponse:
    """Reply to a review comment. Replies to replies are not supported."""
    pull = _commentable_pull(call)
    parent = _find_parent(call, pull, call.number("comment_id"))
    body = call.fields(REVIEW_COMMENT).body(required=True)
    return _add_single_comment(call, pull, draft_reply(parent, body or ""))


@router.route("GET", PULL_COMMENT)
def get_review_comment(call: ApiCall) -> SandboxResponse:
    """Return one review comment."""
    return call.one(_find_comment(call))


@router.route("PATCH", PULL_COMMENT)
def edit_review_comment(call: ApiCall) -> SandboxResponse:
    """Change a comment's text."""
    comment = _own_comment(call)
    body = call.fields(REVIEW_COMMENT).body(required=True)
    after = call.world.put(replace(comment, body=body or "", updated_at=call.world.now()))
    touch_pull(call, after.pull_id)
    call.world.publish("pull_request_review_comment", after, "edited", call.actor)
    return call.one(after)


@router.route("DELETE", PULL_COMMENT)
def delete_review_comment(call: ApiCall) -> SandboxResponse:
    """Delete a comment. No `updated_at` changes."""
    comment = _own_comment(call)
    call.world.remove(comment)
    if not comment.pending:
        count_comments(call, comment.pull_id, -1)
        call.world.publish("pull_request_review_comment", comment, "deleted", call.actor)
    return no_content()


def _add_single_comment(call: ApiCall, pull: PullRequest, draft: CommentDraft) -> SandboxResponse:
    # A single remark is a review of its own, without words.
    review = add_review(call, pull, "COMMENTED", "", draft.commit_id)
    made = add_review_comment(call, review, draft)
    url = f"{call.request.root}/repos/{call.repo.full_name}/pulls/comments/{made.id}"
    return call.one(made, 201, Location=url)


def _commentable_pull(call: ApiCall) -> PullRequest:
    pull = find_pull(call)
    check_lock(call, call.issue())
    return pull


def _find_parent(call: ApiCall, pull: PullRequest, comment_id: int) -> ReviewComment:
    found = call.tables.get(ReviewComment, comment_id)
    if found is None or found.pull_id != pull.id or found.pending:
        raise not_found()
    if found.in_reply_to is not None:
        raise invalid(REVIEW_COMMENT, "in_reply_to", "invalid")
    return found


def _find_comment(call: ApiCall) -> ReviewComment:
    found = call.tables.get(ReviewComment, call.number("comment_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    if found.pending and found.user.lower() != call.actor.lower():
        raise not_found()
    return found


def _own_comment(call: ApiCall) -> ReviewComment:
    comment = _find_comment(call)
    if comment.user.lower() != call.actor.lower() and not call.can("write"):
        raise forbidden()
    return comment
