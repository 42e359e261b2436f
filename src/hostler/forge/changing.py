"""How each feed is read from GitHub: which list it is, and in which order it comes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hostler.errors import ServerFailed
from hostler.forge import payloads
from hostler.forge.port import Chain, Feed, Item, ItemKind, Page, Reading
from hostler.forge.reading import Listed
from hostler.forge.wire import Answer

if TYPE_CHECKING:
    from hostler.forge.github import GitHub

KINDS: dict[Feed, ItemKind] = {
    Feed.ISSUES: ItemKind.ISSUE,
    Feed.ISSUE: ItemKind.ISSUE,
    Feed.ISSUE_COMMENTS: ItemKind.ISSUE_COMMENT,
    Feed.THREAD_COMMENTS: ItemKind.ISSUE_COMMENT,
    Feed.REVIEW_COMMENTS: ItemKind.REVIEW_COMMENT,
    Feed.THREAD_REVIEW_COMMENTS: ItemKind.REVIEW_COMMENT,
    Feed.PULL: ItemKind.PULL,
    Feed.REVIEWS: ItemKind.REVIEW,
    Feed.WORKFLOW_RUNS: ItemKind.WORKFLOW_RUN,
}
_PATHS: dict[Feed, str] = {
    Feed.ISSUES: "issues",
    Feed.ISSUE: "issues/{}",
    Feed.ISSUE_COMMENTS: "issues/comments",
    Feed.THREAD_COMMENTS: "issues/{}/comments",
    Feed.REVIEW_COMMENTS: "pulls/comments",
    Feed.THREAD_REVIEW_COMMENTS: "pulls/{}/comments",
    Feed.PULL: "pulls/{}",
    Feed.REVIEWS: "pulls/{}/reviews",
    Feed.WORKFLOW_RUNS: "actions/runs",
}
SINGLE = (Feed.ISSUE, Feed.PULL)


def since_text(moment: datetime | None) -> str | None:
    """A moment as GitHub's `since` wants it: whole seconds, rounded down."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def changes(
    hub: GitHub,
    feed: Feed,
    since: datetime | None,
    *,
    number: int,
    only_open: bool,
    known: Chain,
    one_page: bool,
) -> Reading:
    """What a feed has to say."""
    path, anchor = _PATHS[feed].format(number), since_text(since)
    if feed in SINGLE:
        found = single(hub.get(path, known[0].etag if known else ""), known)
    elif feed is Feed.REVIEWS:
        found = hub.numbered(path, known, one_page=one_page)
    elif feed is Feed.WORKFLOW_RUNS:
        created = None if anchor is None else f">={anchor}"
        found = hub.numbered(path, known, unwrap=runs_of, created=created)
    elif feed is Feed.THREAD_COMMENTS:
        found = thread(hub, path, anchor, known)
    else:
        more = {"state": "open" if only_open else "all"} if feed is Feed.ISSUES else {}
        found = hub.ascending(path, anchor, known, **more)
    return reading_of(feed, number, found)


def thread(hub: GitHub, path: str, since: str | None, known: Chain) -> Listed:
    """A conversation by id; where GitHub's page numbers end, on from the last comment's second.

    What does not fit behind so many of one second is left.
    """
    found = hub.by_id(path, known, since=since)
    while not found.complete:
        last = payloads.word_of(found.items[-1], "created_at")
        if since is not None and last <= since:
            break
        since = last
        found = _joined(found, hub.by_id(path, since=since))
    return found


def _joined(first: Listed, more: Listed) -> Listed:
    items = {int(item["id"]): item for item in (*first.items, *more.items)}
    return Listed(
        [items[key] for key in sorted(items)],
        more.complete,
        asked=first.asked + more.asked,
        pages=first.pages + more.pages,
    )


def single(answer: Answer, known: Chain) -> Listed:
    """One thing as a list of its own."""
    if answer.unchanged:
        return Listed([], complete=True, chain=known, unchanged=True, asked=1)
    page = Page("", 1, answer.etag, full=False)
    return Listed([answer.data], complete=True, chain=(page,), asked=1, pages=1)


def runs_of(data: Any) -> Any:
    """The list inside a list of workflow runs."""
    if not isinstance(data, dict):
        raise ServerFailed("a request for workflow runs", 200)
    return data.get("workflow_runs")


def jobs_of(data: Any) -> Any:
    """The list inside a list of jobs."""
    if not isinstance(data, dict):
        raise ServerFailed("a request for the jobs of a workflow run", 200)
    return data.get("jobs")


def reading_of(feed: Feed, number: int, found: Listed) -> Reading:
    """A list as events."""
    return Reading(
        tuple(_items(KINDS[feed], found.items, number)),
        found.complete,
        found.chain,
        found.unchanged,
        found.asked,
        found.pages,
    )


def _items(kind: ItemKind, rows: Sequence[Any], number: int) -> list[Item]:
    if kind is not ItemKind.REVIEW:
        return [payloads.item(kind, row) for row in rows]
    # One without a time is being written, and seen by its author alone.
    return [payloads.item(kind, row, number) for row in rows if row.get("submitted_at")]
