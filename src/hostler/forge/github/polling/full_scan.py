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
    tap: PollContext, pulls: Collection[int], issues: Collection[int]
) -> list[ListReading]:
    """Everything that is followed, as it is now."""
    with tap.polling(FULL_SCAN):
        try:
            found = [tap.forge.changes(SurfaceFeed.ISSUES, None, only_open=True)]
        except Gone:
            found = []  # issues are switched off
        for number in sorted({*pulls, *issues}):
            found += _read_followed_thread(
                tap, number, _PULL_KINDS if number in pulls else _ISSUE_KINDS
            )
        return found


def run_full_scan(
    tap: PollContext, pulls: Collection[int], issues: Collection[int]
) -> IngestCounts:
    """Read everything, and store what is new."""
    readings = read_everything(tap, pulls, issues)
    me = tap.forge.myself()
    tap.observe("read", FULL_SCAN)
    with tap.store.write(*tap.scopes) as tx:
        ingested = ingest_items(tx, tap.repo, me, list_full_items(readings), tap.settled)
    tap.observe("stored", FULL_SCAN)
    for reading in readings[:-1]:
        tap.meter.read(FULL_SCAN, reading, IngestCounts())
    if readings:
        tap.meter.read(FULL_SCAN, readings[-1], ingested)
    tap.meter.noticed(tap.forge.now(), ingested.news)
    log_own_tokens(tap, ingested)
    return ingested


def list_full_items(readings: Collection[ListReading]) -> list[Item]:
    """All items of some readings."""
    return [item for reading in readings for item in reading.items]


def _read_followed_thread(
    tap: PollContext, number: int, feeds: Collection[SurfaceFeed]
) -> list[ListReading]:
    try:
        return [tap.forge.changes(feed, None, number=number) for feed in feeds]
    except MISSING_ERRORS:
        return []


# Pull requests and issues are fetched when they change; their versions in between are many.
COMPARED_KINDS = (ItemKind.ISSUE_COMMENT, ItemKind.REVIEW_COMMENT, ItemKind.REVIEW)


@dataclass(frozen=True, slots=True)
class MissedItem:
    """Something that the feeds lack: since when, and through how many polls."""

    number: int
    since: datetime
    polls: int = 1


@dataclass(frozen=True, slots=True)
class MissedItems:
    """What is missing, and what was reported already, by event key."""

    open: Mapping[str, MissedItem] = field(default_factory=dict)
    told: frozenset[str] = frozenset()


def compare_scans(
    doubts: MissedItems, missing: Mapping[str, int], now: datetime, patience: timedelta, polls: int
) -> tuple[MissedItems, tuple[str, ...]]:
    """What to report. Whatever is not missing any more was late, or is gone.

    `missing`: keys with their threads. One is reported once it was missing for so long, and
    through so many polls.
    """
    open_ = {
        key: MissedItem(number, known.since, known.polls + 1)
        if (known := doubts.open.get(key))
        else MissedItem(number, now)
        for key, number in missing.items()
    }
    ripe = {key for key, one in open_.items() if one.polls > polls and now - one.since >= patience}
    told = tuple(sorted(ripe - doubts.told))
    return MissedItems(open_, frozenset(doubts.told & open_.keys()) | ripe), told


class ShadowScan:
    """Compares once per poll, after the feeds were read."""

    def __init__(self) -> None:
        self._doubts = MissedItems()
        self._begun: datetime | None = None

    def compare(
        self, tap: PollContext, pulls: Collection[int], issues: Collection[int]
    ) -> tuple[str, ...]:
        """Report what the feeds have missed; their keys."""
        begun = self._begun = self._begun or tap.forge.now()

        def counts(item: Item) -> bool:
            # Of issues, the feeds read what is said from their beginning on.
            fresh = item.number in issues and parse_timestamp(item.updated_at) >= begun
            return item.kind in COMPARED_KINDS and (item.number in pulls or fresh)

        found = list(filter(counts, list_full_items(read_everything(tap, pulls, issues))))
        with tap.store.read() as tx:
            sifted = sift_items(tx, tap.repo, tap.forge.myself(), found)
            lacking = sifted.rows.keys() - known_events(tx, tap.repo, sifted.rows)
        missing = {key: sifted.items[key].number for key in lacking}
        now, patience = tap.forge.now(), tap.window.late_visibility + tap.window.overlap
        # The sweep comes round within two polls for each page of each pull request.
        self._doubts, told = compare_scans(self._doubts, missing, now, patience, 4 * len(pulls) + 1)
        for key in told:
            tap.say(names.SHADOW_DIFFERENCE, key=key, number=missing[key])
        metrics.count(names.SHADOW_DIFFERENCES, len(told))
        return told
