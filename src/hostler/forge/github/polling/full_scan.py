"""Read all open issues and followed threads, and compare that with the incremental polls."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hostler.errors import Gone
from hostler.forge.github.polling.context import PollContext
from hostler.forge.github.polling.ingest import IngestCounts, ingest_items, sift_items
from hostler.forge.github.polling.surfaces import log_own_tokens
from hostler.forge.github.polling.threads import MISSING_ERRORS
from hostler.forge.port import Item, ItemKind, ListReading, SurfaceFeed
from hostler.model import parse_timestamp
from hostler.store.inbox import known_events
from hostler.telemetry import names
from hostler.telemetry.metrics import metrics

FULL_SCAN = "full"
_PULL_KINDS = (
    SurfaceFeed.ISSUE,
    SurfaceFeed.PULL,
    SurfaceFeed.REVIEWS,
    SurfaceFeed.THREAD_COMMENTS,
    SurfaceFeed.THREAD_REVIEW_COMMENTS,
)
_ISSUE_KINDS = (SurfaceFeed.ISSUE, SurfaceFeed.THREAD_COMMENTS)


def read_everything(
    context: PollContext, pulls: Collection[int], issues: Collection[int]
) -> list[ListReading]:
    """Read everything that is followed."""
    with context.translate_errors(FULL_SCAN):
        try:
            found = [context.forge.changes(SurfaceFeed.ISSUES, None, only_open=True)]
        except Gone:
            found = []  # issues are disabled
        for number in sorted({*pulls, *issues}):
            found += _read_followed_thread(
                context, number, _PULL_KINDS if number in pulls else _ISSUE_KINDS
            )
        return found


def run_full_scan(
    context: PollContext, pulls: Collection[int], issues: Collection[int]
) -> IngestCounts:
    """Read everything and store what is new."""
    readings = read_everything(context, pulls, issues)
    own_login = context.forge.own_login()
    context.observe("read", FULL_SCAN)
    with context.store.write(*context.scopes) as tx:
        ingested = ingest_items(
            tx, context.repo, own_login, list_full_items(readings), context.settled
        )
    context.observe("stored", FULL_SCAN)
    for reading in readings[:-1]:
        context.poll_metrics.record_read(FULL_SCAN, reading, IngestCounts())
    if readings:
        context.poll_metrics.record_read(FULL_SCAN, readings[-1], ingested)
    context.poll_metrics.record_new_items(context.forge.now(), ingested.new_items)
    log_own_tokens(context, ingested)
    return ingested


def list_full_items(readings: Collection[ListReading]) -> list[Item]:
    """Return all items of some readings."""
    return [item for reading in readings for item in reading.items]


def _read_followed_thread(
    context: PollContext, number: int, feeds: Collection[SurfaceFeed]
) -> list[ListReading]:
    try:
        return [context.forge.changes(feed, None, number=number) for feed in feeds]
    except MISSING_ERRORS:
        return []


# Pull requests and issues are read when they change, but not every version of them.
COMPARED_KINDS = (ItemKind.ISSUE_COMMENT, ItemKind.REVIEW_COMMENT, ItemKind.REVIEW)


@dataclass(frozen=True, slots=True)
class MissedItem:
    """An item that incremental polls have missed: since when, and for how many polls."""

    number: int
    since: datetime
    polls: int = 1


@dataclass(frozen=True, slots=True)
class MissedItems:
    """Missed items by event key, and those already reported."""

    open: Mapping[str, MissedItem] = field(default_factory=dict)
    reported: frozenset[str] = frozenset()


def compare_scans(
    missing_items: MissedItems,
    missing: Mapping[str, int],
    now: datetime,
    grace: timedelta,
    polls: int,
) -> tuple[MissedItems, tuple[str, ...]]:
    """Return the new state and what to report. Items no longer missing were late or deleted.

    `missing`: keys with their threads. An item is reported once it was missing for that long and
    for that many polls.
    """
    open_ = {
        key: MissedItem(number, known.since, known.polls + 1)
        if (known := missing_items.open.get(key))
        else MissedItem(number, now)
        for key, number in missing.items()
    }
    overdue = {key for key, one in open_.items() if one.polls > polls and now - one.since >= grace}
    reported = tuple(sorted(overdue - missing_items.reported))
    return MissedItems(open_, frozenset(missing_items.reported & open_.keys()) | overdue), reported


class ShadowScan:
    """Compares each poll with a full scan.

    For `incremental = "shadow"`, a requirement: it proves that incremental polls miss nothing.
    """

    def __init__(self) -> None:
        self._missing_items = MissedItems()
        self._started_at: datetime | None = None

    def compare(
        self, context: PollContext, pulls: Collection[int], issues: Collection[int]
    ) -> tuple[str, ...]:
        """Report what incremental polls have missed. Return the keys."""
        started_at = self._started_at = self._started_at or context.forge.now()

        def counts(item: Item) -> bool:
            # Of issues, incremental polls read only comments made since the start.
            fresh = item.number in issues and parse_timestamp(item.updated_at) >= started_at
            return item.kind in COMPARED_KINDS and (item.number in pulls or fresh)

        found = list(filter(counts, list_full_items(read_everything(context, pulls, issues))))
        with context.store.read() as tx:
            sifted = sift_items(tx, context.repo, context.forge.own_login(), found)
            lacking = sifted.rows.keys() - known_events(tx, context.repo, sifted.rows)
        missing = {key: sifted.items[key].number for key in lacking}
        now, grace = context.forge.now(), context.window.late_visibility + context.window.overlap
        # The sweep needs at most two polls for each page of each pull request.
        self._missing_items, reported = compare_scans(
            self._missing_items, missing, now, grace, 4 * len(pulls) + 1
        )
        for key in reported:
            context.log_event(names.SHADOW_DIFFERENCE, key=key, number=missing[key])
        metrics.count(names.SHADOW_DIFFERENCES, len(reported))
        return reported
