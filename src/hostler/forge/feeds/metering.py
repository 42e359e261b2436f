"""The feeds in numbers. Counted after the commit: what was not stored has not happened."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from datetime import datetime
from math import ceil

from hostler.forge.feeds.inbox import Ingested
from hostler.forge.port import Item, ItemKind, Reading
from hostler.model import parse_stamp
from hostler.telemetry import names
from hostler.telemetry.metrics import metrics

# Samples behind a percentile.
SAMPLES = 200
REMARKS = (ItemKind.ISSUE_COMMENT, ItemKind.REVIEW_COMMENT, ItemKind.REVIEW)


class Meter:
    """One repository's numbers. `followed`: its pull requests, as of the poll under way."""

    def __init__(self, repo: str = "", interval: float = 0.0) -> None:
        self._repo = repo
        self._target = 2 * interval + 30
        self._new: deque[float] = deque(maxlen=SAMPLES)
        self._fetched: deque[float] = deque(maxlen=SAMPLES)
        self._lags: deque[float] = deque(maxlen=SAMPLES)
        self._poll = [0, 0]
        self.followed: Collection[int] = ()

    def read(self, surface: str, reading: Reading, ingested: Ingested) -> None:
        """A list was read and stored."""
        metrics.count(names.FETCH_REQUESTS, reading.asked, surface=surface)
        metrics.count(names.FETCH_PAGES, reading.pages, surface=surface)
        metrics.count(names.FETCHED, len(reading.items), surface=surface)
        metrics.count(names.FETCHED_NEW, ingested.new, surface=surface)
        metrics.count(names.FETCHED_REPLAY, ingested.replayed, surface=surface)
        metrics.count(names.FEEDBACK_INGESTED, self._feedback(ingested.news))
        metrics.count(names.FEEDBACK_DEDUPED, self._feedback(ingested.known))
        self._poll[0] += sum(item.kind in REMARKS for item in ingested.news)
        self._poll[1] += sum(item.kind in REMARKS for item in reading.items)

    def lag(self, surface: str, seconds: float) -> None:
        """How old a watermark is."""
        metrics.set(names.CURSOR_LAG, max(seconds, 0.0), surface=surface)

    def noticed(self, now: datetime, news: Sequence[Item]) -> None:
        """These were new; `now` by GitHub's time."""
        for item in news:
            if item.kind in REMARKS:
                age = (now - parse_stamp(item.updated_at)).total_seconds()
                self._lags.append(max(age, 0.0))

    def polled(self) -> None:
        """A poll is over."""
        new, fetched = self._poll
        self._poll = [0, 0]
        self._new.append(new)
        self._fetched.append(fetched)
        metrics.set(names.SLO_NEW, p95(self._new), repo=self._repo)
        metrics.set(names.SLO_FETCHED, p95(self._fetched), repo=self._repo)
        metrics.set(names.SLO_LAG, p95(self._lags), repo=self._repo)
        metrics.set(names.SLO_LAG_TARGET, self._target, repo=self._repo)

    def _feedback(self, items: Sequence[Item]) -> int:
        return sum(item.kind in REMARKS and item.number in self.followed for item in items)


def p95(samples: Sequence[float]) -> float:
    """The least value that 95 of 100 samples do not exceed; 0 without any."""
    ordered = sorted(samples)
    return ordered[ceil(len(ordered) * 0.95) - 1] if ordered else 0.0
