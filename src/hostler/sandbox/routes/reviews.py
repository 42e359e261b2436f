"""Reviews: a verdict with remarks, pending until it is submitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hostler.sandbox.call import Call
from hostler.sandbox.entities import Issue
from hostler.sandbox.errors import forbidden, invalid, not_found, unprocessable, wrong_type
from hostler.sandbox.fields import Fields
from hostler.sandbox.http import Response
from hostler.sandbox.pull_entities import Pull, Review, ReviewComment
from hostler.sandbox.review_writing import (
    RESOURCE,
    Remark,
    count_comments,
    object_fields,
    put_remark,
    put_review,
    read_commit,
    read_remark,
    touch_pull,
)
from hostler.sandbox.router import REPO, Router
from hostler.sandbox.routes.comments import check_lock
from hostler.sandbox.routes.pulls import find_pull

router = Router()
ALL = REPO + "/pulls/{number}/reviews"
ONE = ALL + "/{review_id}"
STATES = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}


@dataclass(frozen=True)
class Visible:
    """Pending reviews are their author's own."""

    login: str

    def __call__(self, review: Review) -> bool:
        return not review.pending or review.user.lower() == self.login


@router.route("GET", ALL)
def list_reviews(call: Call) -> Response:
    """In the order of their submission; neither `since` nor sorting."""
    reviews = call.tables.group(Review, "pull", find_pull(call).id)
    return call.page(reviews.select("submitted", where=Visible(call.actor.lower())))


@router.route("POST", ALL, creates=True)
async def create(call: Call) -> Response:
    """Start a review, or submit it at once where an event is named."""
    pull, issue, fields = find_pull(call), call.issue(), call.fields("PullRequestReview")
    check_lock(call, issue)
    event, body = fields.choice("event", tuple(STATES)), fields.body()
    commit = await read_commit(call.git(), pull, fields)
    remarks = await _remarks(call, pull, fields, commit)
    _check_event(call, issue, event, body, bool(remarks))
    if event is None and _pending(call, pull):
        raise _refused("User can only have one pending review per pull request")
    review = put_review(call, pull, STATES.get(event or "", "PENDING"), body or "", commit)
    for remark in remarks:
        put_remark(call, review, remark)
    if event is not None:
        _submitted(call, review)
    return call.one(review)


async def _remarks(call: Call, pull: Pull, fields: Fields, commit: str) -> list[Remark]:
    given = fields.values.get("comments") or []
    if not isinstance(given, list):
        raise wrong_type("comments", given, "an array")
    found = []
    for value in given:
        inner = object_fields(value, RESOURCE)
        inner.values.setdefault("commit_id", commit)
        found.append(await read_remark(call.git(), pull, inner))
    return found


def _check_event(
    call: Call, issue: Issue, event: str | None, body: str | None, remarks: bool
) -> None:
    own = issue.user.lower() == call.actor.lower()
    if own and event == "APPROVE":
        raise _refused("Can not approve your own pull request")
    if own and event == "REQUEST_CHANGES":
        raise _refused("Can not request changes on your own pull request")
    wordless = not (body or "").strip()
    if event == "REQUEST_CHANGES" and wordless:
        raise _refused("Body can't be blank")
    if event == "COMMENT" and wordless and not remarks:
        raise _refused("Body can't be blank")


def _pending(call: Call, pull: Pull) -> bool:
    reviews = call.tables.group(Review, "pull", pull.id).select()
    return any(r.pending and r.user.lower() == call.actor.lower() for r in reviews)


def _refused(text: str) -> Exception:
    return unprocessable("Unprocessable Entity", [text])


def _submitted(call: Call, review: Review) -> None:
    pull = call.world.truth.get(Pull, review.pull_id)
    if pull is not None:
        left = tuple(name for name in pull.reviewers if name.lower() != call.actor.lower())
        call.world.put(replace(pull, reviewers=left))
    call.world.tell("pull_request_review", review, "submitted", call.actor)


@router.route("GET", ONE)
def get(call: Call) -> Response:
    """One review."""
    return call.one(_review(call))


@router.route("PUT", ONE)
def edit(call: Call) -> Response:
    """Change a review's words."""
    review = _own(call)
    body = call.fields("PullRequestReview").body(required=True)
    after = call.world.put(replace(review, body=body or ""))
    touch_pull(call, after.pull_id)
    call.world.tell("pull_request_review", after, "edited", call.actor)
    return call.one(after)


@router.route("DELETE", ONE)
def delete(call: Call) -> Response:
    """Throw away a pending review."""
    review = _own(call)
    if not review.pending:
        raise unprocessable("Can not delete a non-pending pull request review")
    answer = call.one(review)
    for comment in list(call.tables.group(ReviewComment, "review", review.id).select()):
        call.world.remove(comment)
    call.world.remove(review)
    return answer


@router.route("GET", ONE + "/comments")
def comments(call: Call) -> Response:
    """A review's remarks."""
    return call.page(call.tables.group(ReviewComment, "review", _review(call).id).select())


@router.route("POST", ONE + "/events", creates=True)
def submit(call: Call) -> Response:
    """Submit a pending review; its remarks become visible."""
    review, issue, fields = _own(call), call.issue(), call.fields("PullRequestReview")
    event, body = fields.choice("event", tuple(STATES)), fields.body()
    if event is None:
        raise invalid("PullRequestReview", "event", "missing_field")
    if not review.pending:
        raise unprocessable("Can not submit a review that has already been submitted.")
    remarks = list(call.tables.group(ReviewComment, "review", review.id).select())
    _check_event(call, issue, event, body or review.body, bool(remarks))
    now = call.world.now()
    words: dict[str, Any] = {"body": body} if body is not None else {}
    after = call.world.put(replace(review, state=STATES[event], submitted_at=now, **words))
    for comment in remarks:
        shown = call.world.put(replace(comment, pending=False, created_at=now, updated_at=now))
        count_comments(call, shown.pull_id, 1)
        call.world.tell("pull_request_review_comment", shown, "created", call.actor)
    touch_pull(call, after.pull_id)
    _submitted(call, after)
    return call.one(after)


@router.route("PUT", ONE + "/dismissals", access="write")
def dismiss(call: Call) -> Response:
    """Take a verdict's weight away."""
    review = _review(call)
    call.fields("PullRequestReview").text("message", required=True)
    if review.state not in ("APPROVED", "CHANGES_REQUESTED"):
        raise unprocessable("Can not dismiss a commented pull request review")
    after = call.world.put(replace(review, state="DISMISSED"))
    call.world.note(call.issue(), "review_dismissed", call.actor)
    touch_pull(call, after.pull_id)
    call.world.tell("pull_request_review", after, "dismissed", call.actor)
    return call.one(after)


def _review(call: Call) -> Review:
    pull = find_pull(call)
    found = call.tables.get(Review, call.number("review_id"))
    if found is None or found.pull_id != pull.id or not Visible(call.actor.lower())(found):
        raise not_found()
    return found


def _own(call: Call) -> Review:
    review = _review(call)
    if review.user.lower() != call.actor.lower():
        raise forbidden("Must have admin rights to Repository.")
    return review
