"""The full scan: all open issues and every followed thread, whole. The reference for the feeds."""

from __future__ import annotations

from collections.abc import Collection

from hostler.errors import Gone
from hostler.forge.feeds.inbox import Ingested, ingest
from hostler.forge.feeds.pulls import MISSING
from hostler.forge.feeds.surfaces import tell_tokens
from hostler.forge.feeds.tap import Tap
from hostler.forge.port import Feed, Item, Reading

FULL = "full"
_OF_PULL = (
    Feed.ISSUE,
    Feed.PULL,
    Feed.REVIEWS,
    Feed.THREAD_COMMENTS,
    Feed.THREAD_REVIEW_COMMENTS,
)
_OF_ISSUE = (Feed.ISSUE, Feed.THREAD_COMMENTS)


def read_full(tap: Tap, pulls: Collection[int], issues: Collection[int]) -> list[Reading]:
    """Everything that is followed, as it is now."""
    with tap.polling(FULL):
        try:
            found = [tap.forge.changes(Feed.ISSUES, None, only_open=True)]
        except Gone:
            found = []  # issues are switched off
        for number in sorted({*pulls, *issues}):
            found += _thread(tap, number, _OF_PULL if number in pulls else _OF_ISSUE)
        return found


def scan_full(tap: Tap, pulls: Collection[int], issues: Collection[int]) -> Ingested:
    """Read everything, and store what is new."""
    readings = read_full(tap, pulls, issues)
    me = tap.forge.myself()
    tap.observe("read", FULL)
    with tap.store.write(*tap.scopes) as tx:
        ingested = ingest(tx, tap.repo, me, items_of(readings), tap.settled)
    tap.observe("stored", FULL)
    for reading in readings[:-1]:
        tap.meter.read(FULL, reading, Ingested())
    if readings:
        tap.meter.read(FULL, readings[-1], ingested)
    tap.meter.noticed(tap.forge.now(), ingested.news)
    tell_tokens(tap, ingested)
    return ingested


def items_of(readings: Collection[Reading]) -> list[Item]:
    """All items of some readings."""
    return [item for reading in readings for item in reading.items]


def _thread(tap: Tap, number: int, feeds: Collection[Feed]) -> list[Reading]:
    try:
        return [tap.forge.changes(feed, None, number=number) for feed in feeds]
    except MISSING:
        return []
