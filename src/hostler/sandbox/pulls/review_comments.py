"""Make review comments, find their lines in a diff, and move them along with pushes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hostler.sandbox.git import commits, diffs, names, refs
from hostler.sandbox.git.diffs import FileChange
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.http.call import ApiCall
from hostler.sandbox.http.errors import ApiError, invalid, unprocessable
from hostler.sandbox.http.requests import JsonFields
from hostler.sandbox.pulls.entities import DiffPosition, PullRequest, Review, ReviewComment
from hostler.sandbox.state.entities import Issue
from hostler.sandbox.state.world import World


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A place in a diff with the lines that lead to it."""

    spot: DiffPosition
    hunk: str


def _find_in_patch(
    patch: str, line: int, side: str, start: int | None, start_side: str
) -> FoundLine | None:
    """Return the position of a line (or range) in a patch; None if the patch does not show it."""
    last = diffs.find_line(patch, line, side)
    if last is None:
        return None
    if start is not None:
        first = diffs.find_line(patch, start, start_side)
        if first is None or first.hunk != last.hunk or first.position > last.position:
            return None
    return FoundLine(DiffPosition(line, start, last.position), diffs.hunk_excerpt(patch, last))


def _find_by_position(patch: str, position: int) -> tuple[FoundLine, str] | None:
    """Return the line at a distance from the first hunk header, with its side."""
    shown = diffs.line_at_position(patch, position)
    if shown is None:
        return None
    side = "LEFT" if shown.new is None else "RIGHT"
    return FoundLine(
        DiffPosition(shown.number(side), None, position), diffs.hunk_excerpt(patch, shown)
    ), side


async def move_review_comments(
    world: World, git: Repository, before: PullRequest, after: PullRequest
) -> None:
    """Move a pull request's comments along with a push; what is gone becomes outdated."""
    found = list(world.truth.group(ReviewComment, "any", after.id).select())
    living = [item for item in found if item.subject == "line" and item.spot.line is not None]
    if not living:
        return
    changed = await diffs.changed_files_with_patches(git, before.head_sha, after.head_sha)
    shown = await commits.new_files(git, after.base_sha, after.head_sha)
    now = {file.path: file for file in shown}
    step = {file.previous or file.path: file for file in changed}
    for item in living:
        world.put(_moved_comment(item, step, now, after.head_sha))


def _moved_comment(
    item: ReviewComment, step: Mapping[str, FileChange], now: Mapping[str, FileChange], sha: str
) -> ReviewComment:
    """Return the comment after a push: shifted, or outdated where its line is no longer shown."""
    outdated = replace(item, spot=DiffPosition())
    file = now.get(item.path)
    line = item.spot.line
    if file is None or file.patch is None or line is None:
        return outdated
    change = step.get(item.path)
    if item.side == "RIGHT" and change is not None:
        line = _shifted_line(change.patch, line)
    shown = diffs.find_line(file.patch, line, item.side) if line is not None else None
    if shown is None or line is None or shown.text[1:] != _last_line(item.diff_hunk)[1:]:
        return outdated
    start = item.spot.start_line
    start = None if start is None or item.spot.line is None else start + line - item.spot.line
    return replace(item, spot=DiffPosition(line, start, shown.position), commit_id=sha)


def _shifted_line(patch: str | None, line: int) -> int | None:
    """Return a line's number after a change of its file; None if the line itself was changed."""
    if patch is None:
        return None
    gap = 0
    for shown in diffs.patch_lines(patch):
        if shown.old == line:
            return shown.new
        if shown.old is not None and shown.old > line:
            break
        # Lines added above this line push it down, lines removed pull it up.
        gap += (shown.old is None) - (shown.new is None)
    return line + gap


def _last_line(hunk: str) -> str:
    return hunk.rpartition("\n")[2]


REVIEW_COMMENT = "PullRequestReviewComment"
SIDES = ("LEFT", "RIGHT")


@dataclass(frozen=True, slots=True)
class CommentDraft:
    """A comment that is ready to be put into the world."""

    body: str
    path: str
    commit_id: str
    found: FoundLine
    side: str = "RIGHT"
    start_side: str | None = None
    subject: str = "line"
    in_reply_to: int | None = None


async def read_draft(git: Repository, pull: PullRequest, fields: JsonFields) -> CommentDraft:
    """Return the comment in a JSON body; 422 if the diff does not show its line."""
    body = fields.body(required=True)
    path = fields.text("path", required=True)
    assert body is not None and path is not None
    commit = await read_commit(git, pull, fields)
    patch = await _patch(git, pull, commit, path)
    subject = fields.choice("subject_type", ("line", "file")) or "line"
    if subject == "file":
        return CommentDraft(body, path, commit, FoundLine(DiffPosition(), ""), subject=subject)
    found, side, start_side = _read_position(fields, patch or "")
    return CommentDraft(body, path, commit, found, side, start_side)


async def read_commit(git: Repository, pull: PullRequest, fields: JsonFields) -> str:
    """Return the commit that a comment is about: the head, or another one of the pull request."""
    commit = fields.text("commit_id") or pull.head_sha
    known = names.is_sha(commit) and await refs.object_kind(git, commit) == "commit"
    if not known or not await refs.contains(git, pull.head_sha, commit):
        raise invalid(fields.resource, "commit_id", "invalid")
    return commit


async def _patch(git: Repository, pull: PullRequest, commit: str, path: str) -> str | None:
    files = await commits.new_files(git, pull.base_sha, commit)
    found = next((file for file in files if file.path == path), None)
    if found is None:
        raise _bad_position("path", "is invalid")
    return found.patch


def _read_position(fields: JsonFields, patch: str) -> tuple[FoundLine, str, str | None]:
    position, line = fields.number("position"), fields.number("line")
    if line is None and position is not None:
        by_position = _find_by_position(patch, position)
        if by_position is None:
            raise _bad_position("position", "is invalid")
        return by_position[0], by_position[1], None
    if line is None:
        raise invalid(REVIEW_COMMENT, "line", "missing_field")
    side = fields.choice("side", SIDES) or "RIGHT"
    start = fields.number("start_line")
    start_side = fields.choice("start_side", SIDES) or side
    if start is not None and start >= line and start_side == side:
        raise _bad_position("start_line", "must precede the end line.")
    found = _find_in_patch(patch, line, side, start, start_side)
    if found is None:
        raise _bad_position("line", "must be part of the diff")
    return found, side, start_side if start is not None else None


def _bad_position(field: str, problem: str) -> ApiError:
    name = f"pull_request_review_thread.{field}"
    detail = {"resource": REVIEW_COMMENT, "code": "custom", "field": name}
    return unprocessable("Validation Failed", [{**detail, "message": f"{name} {problem}"}])


def draft_reply(parent: ReviewComment, body: str) -> CommentDraft:
    """Return a reply, at the line of the comment that it replies to."""
    return CommentDraft(
        body,
        parent.path,
        parent.commit_id,
        FoundLine(parent.spot, parent.diff_hunk),
        parent.side,
        parent.start_side,
        parent.subject,
        parent.id,
    )


def add_review_comment(call: ApiCall, review: Review, draft: CommentDraft) -> ReviewComment:
    """Put a comment into the world as part of a review."""
    now = call.world.now()
    made = ReviewComment(
        id=call.world.new_id("review_comment"),
        repo_id=review.repo_id,
        pull_id=review.pull_id,
        number=review.number,
        review_id=review.id,
        user=review.user,
        body=draft.body,
        path=draft.path,
        diff_hunk=draft.found.hunk,
        commit_id=draft.commit_id,
        original_commit_id=draft.commit_id,
        spot=draft.found.spot,
        original=draft.found.spot,
        created_at=now,
        updated_at=now,
        side=draft.side,
        start_side=draft.start_side,
        subject=draft.subject,
        in_reply_to=draft.in_reply_to,
        association=review.association,
        pending=review.pending,
    )
    call.world.put(made)
    if not made.pending:
        count_comments(call, made.pull_id, 1)
        call.world.publish("pull_request_review_comment", made, "created", call.actor)
    return made


def add_review(call: ApiCall, pull: PullRequest, state: str, body: str, commit: str) -> Review:
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


def touch_pull(call: ApiCall, pull_id: int) -> None:
    """Move a pull request's `updated_at`."""
    pull = call.world.truth.get(PullRequest, pull_id)
    issue = call.world.truth.get(Issue, pull.issue_id) if pull else None
    if issue is not None:
        call.world.put(replace(issue, updated_at=call.world.now()))


def count_comments(call: ApiCall, pull_id: int, change: int) -> None:
    """Keep the pull request's number of review comments."""
    pull = call.world.truth.get(PullRequest, pull_id)
    if pull is not None:
        call.world.put(replace(pull, review_comments=pull.review_comments + change))


def inner_fields(value: Any, resource: str) -> JsonFields:
    """Return the fields of an object inside a body, with its own resource name."""
    if not isinstance(value, dict):
        raise invalid(resource, "comments", "invalid")
    return JsonFields(resource, value)
