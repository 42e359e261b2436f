"""The feeds against the full scan: what it shows and they lack, after a second look."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hostler.forge.feeds.full import items_of, read_full
from hostler.forge.feeds.inbox import sift
from hostler.forge.feeds.tap import Tap
from hostler.forge.port import Item, ItemKind
from hostler.model import parse_stamp
from hostler.store.inbox import known_events
from hostler.telemetry import names
from hostler.telemetry.metrics import metrics

# Pull requests and issues are fetched when they change; their versions in between are many.
COMPARED = (ItemKind.ISSUE_COMMENT, ItemKind.REVIEW_COMMENT, ItemKind.REVIEW)


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that the feeds lack: since when, and through how many polls."""

    number: int
    since: datetime
    polls: int = 1


@dataclass(frozen=True, slots=True)
class Doubts:
    """What is missing, and what was reported already, by event key."""

    open: Mapping[str, Missing] = field(default_factory=dict)
    told: frozenset[str] = frozenset()


def judge(
    doubts: Doubts, missing: Mapping[str, int], now: datetime, patience: timedelta, polls: int
) -> tuple[Doubts, tuple[str, ...]]:
    """What to report. Whatever is not missing any more was late, or is gone.

    `missing`: keys with their threads. One is reported once it was missing for so long, and
    through so many polls.
    """
    open_ = {
        key: Missing(number, known.since, known.polls + 1)
        if (known := doubts.open.get(key))
        else Missing(number, now)
        for key, number in missing.items()
    }
    ripe = {key for key, one in open_.items() if one.polls > polls and now - one.since >= patience}
    told = tuple(sorted(ripe - doubts.told))
    return Doubts(open_, frozenset(doubts.told & open_.keys()) | ripe), told


class Shadow:
    """Compares once per poll, after the feeds were read."""

    def __init__(self) -> None:
        self._doubts = Doubts()
        self._begun: datetime | None = None

    def compare(self, tap: Tap, pulls: Collection[int], issues: Collection[int]) -> tuple[str, ...]:
        """Report what the feeds have missed; their keys."""
        begun = self._begun = self._begun or tap.forge.now()

        def counts(item: Item) -> bool:
            # Of issues, the feeds read what is said from their beginning on.
            fresh = item.number in issues and parse_stamp(item.updated_at) >= begun
            return item.kind in COMPARED and (item.number in pulls or fresh)

        found = list(filter(counts, items_of(read_full(tap, pulls, issues))))
        with tap.store.read() as tx:
            sifted = sift(tx, tap.repo, tap.forge.myself(), found)
            lacking = sifted.rows.keys() - known_events(tx, tap.repo, sifted.rows)
        missing = {key: sifted.items[key].number for key in lacking}
        now, patience = tap.forge.now(), tap.window.late_visibility + tap.window.overlap
        # The sweep comes round within two polls for each page of each pull request.
        self._doubts, told = judge(self._doubts, missing, now, patience, 4 * len(pulls) + 1)
        for key in told:
            tap.say(names.SHADOW_DIFFERENCE, key=key, number=missing[key])
        metrics.count(names.SHADOW_DIFFERENCES, len(told))
        return told
