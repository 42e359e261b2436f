"""Lists of a repository in memory, page by page and with ETags, as the real host gives them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from hostler.forge import reading
from hostler.forge.changing import SINGLE, reading_of, single
from hostler.forge.limits import Budget
from hostler.forge.payloads import number_of
from hostler.forge.port import Chain, Feed, Reading
from hostler.forge.reading import Listed, read_ascending, read_numbered, tags
from hostler.forge.stub.world import Payload, World
from hostler.forge.wire import Answer

SILENT = Budget(None, None, None, None)


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to a feed."""

    feed: Feed
    since: str | None = None
    number: int = 0
    only_open: bool = False
    known: Chain = ()
    one_page: bool = False
    head_sha: str = ""


def listed(world: World, asked: Asked, count: Callable[[], None]) -> Reading:
    """The answer. `count` is called for every page."""
    etags = tags(asked.known)

    def answer(data: Any, etag: str) -> Answer:
        count()
        fresh = sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
        if fresh == etag:
            return Answer(304, None, SILENT, etag=fresh)
        return Answer(200, data, SILENT, etag=fresh)

    def from_(anchor: str | None, page: int) -> Answer:
        rows = sorted(
            (row for row in rows_of(world, asked) if row["updated_at"] >= (anchor or "")),
            key=lambda row: (row["updated_at"], row["id"]),
        )
        return answer(cut(rows, page), etags.get((anchor or "", page), ""))

    def at(page: int) -> Answer:
        rows = rows_of(world, asked)
        if asked.feed is Feed.WORKFLOW_RUNS:
            rows = [row for row in reversed(rows) if row["created_at"] >= (asked.since or "")]
        return answer(cut(rows, page), etags.get(("", page), ""))

    return reading_of(asked.feed, asked.number, _read(world, asked, answer, from_, at))


def _read(
    world: World,
    asked: Asked,
    answer: Callable[[Any, str], Answer],
    from_: Callable[[str | None, int], Answer],
    at: Callable[[int], Answer],
) -> Listed:
    if asked.feed in SINGLE:
        rows = world.pulls if asked.feed is Feed.PULL else world.issues
        one = dict(world.one(rows, asked.number))
        return single(answer(one, asked.known[0].etag if asked.known else ""), asked.known)
    if asked.feed in (Feed.REVIEWS, Feed.WORKFLOW_RUNS):
        return read_numbered(at, asked.known, one_page=asked.one_page)
    # The real host gives a thread's comments by id; what is read is the same.
    return read_ascending(from_, asked.since, asked.known)


def cut(rows: Sequence[Payload], page: int) -> list[Payload]:
    """One page."""
    return [dict(row) for row in rows[(page - 1) * reading.PAGE : page * reading.PAGE]]


def rows_of(world: World, asked: Asked) -> list[Payload]:
    """Everything in a list that can be seen, by id."""
    found = _everything(world, asked)
    return sorted((row for row in found if world.shown(row)), key=number_of)


def _everything(world: World, asked: Asked) -> list[Payload]:
    feed, number = asked.feed, asked.number
    if feed is Feed.ISSUES:
        rows = world.issues.values()
        return [row for row in rows if not (asked.only_open and row["state"] == "closed")]
    if feed is Feed.REVIEWS:
        world.one(world.pulls, number)
        return world.verdicts.get(number, [])
    if feed is Feed.WORKFLOW_RUNS:
        runs = world.runs.values()
        return [run for run in runs if asked.head_sha in ("", run["head_sha"])]
    if feed in (Feed.ISSUE_COMMENTS, Feed.THREAD_COMMENTS):
        remarks, parent = world.comments, "issue_url"
    else:
        remarks, parent = world.review_comments, "pull_request_url"
    if number:
        world.one(world.issues, number)
    return [row for row in remarks.values() if not number or row[parent].endswith(f"/{number}")]
