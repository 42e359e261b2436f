"""What every read of one repository needs: store, code host, log and metrics."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from typing import TYPE_CHECKING

from hostler.errors import ForgeError, GitHubPollingError
from hostler.forge.github.polling.cursors import PollWindow
from hostler.forge.github.polling.ingest import IngestCounts
from hostler.forge.outbox.queue import SettledWrite, ignore_settled
from hostler.forge.outbox.sender import OUTBOX_SCOPE
from hostler.forge.port import Forge, Item, ItemKind, ListReading
from hostler.model import RepoName, parse_timestamp
from hostler.store.store import Store
from hostler.telemetry import names
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import LogEvent

if TYPE_CHECKING:
    from hostler.telemetry.logs import EventLog


# Samples behind a percentile.
MAX_SAMPLES = 200
TEXT_KINDS = (ItemKind.ISSUE_COMMENT, ItemKind.REVIEW_COMMENT, ItemKind.REVIEW)


class PollMetrics:
    """One repository's numbers. `followed`: its pull requests, as of the poll under way."""

    def __init__(self, repo: str = "", interval: float = 0.0) -> None:
        self._repo = repo
        self._target = 2 * interval + 30
        self._new: deque[float] = deque(maxlen=MAX_SAMPLES)
        self._fetched: deque[float] = deque(maxlen=MAX_SAMPLES)
        self._lags: deque[float] = deque(maxlen=MAX_SAMPLES)
        self._poll = [0, 0]
        self.followed: Collection[int] = ()

    def read(self, surface: str, reading: ListReading, ingested: IngestCounts) -> None:
        """A list was read and stored."""
        metrics.count(names.FETCH_REQUESTS, reading.asked, surface=surface)
        metrics.count(names.FETCH_PAGES, reading.pages, surface=surface)
        metrics.count(names.FETCHED, len(reading.items), surface=surface)
        metrics.count(names.FETCHED_NEW, ingested.new, surface=surface)
        metrics.count(names.FETCHED_REPLAY, ingested.replayed, surface=surface)
        metrics.count(names.FEEDBACK_INGESTED, self._feedback(ingested.news))
        metrics.count(names.FEEDBACK_DEDUPED, self._feedback(ingested.known))
        self._poll[0] += sum(item.kind in TEXT_KINDS for item in ingested.news)
        self._poll[1] += sum(item.kind in TEXT_KINDS for item in reading.items)

    def lag(self, surface: str, seconds: float) -> None:
        """How old a watermark is."""
        metrics.set(names.CURSOR_LAG, max(seconds, 0.0), surface=surface)

    def noticed(self, now: datetime, news: Sequence[Item]) -> None:
        """These were new; `now` by GitHub's time."""
        for item in news:
            if item.kind in TEXT_KINDS:
                age = (now - parse_timestamp(item.updated_at)).total_seconds()
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
        return sum(item.kind in TEXT_KINDS and item.number in self.followed for item in items)


def p95(samples: Sequence[float]) -> float:
    """The least value that 95 of 100 samples do not exceed; 0 without any."""
    ordered = sorted(samples)
    return ordered[ceil(len(ordered) * 0.95) - 1] if ordered else 0.0


# Told of each step: which, and of what.
PollObserver = Callable[[str, str], None]


def ignore_steps(_step: str, _what: str) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class PollContext:
    """One repository's way from GitHub into the inbox. `scopes`: what `settled` writes too."""

    store: Store
    forge: Forge
    repo: RepoName
    window: PollWindow = field(default_factory=PollWindow)
    settled: SettledWrite = ignore_settled
    scopes: tuple[str, ...] = (OUTBOX_SCOPE,)
    log: EventLog | None = None
    meter: PollMetrics = field(default_factory=PollMetrics)
    observe: PollObserver = ignore_steps

    def say(self, event: LogEvent, **fields: object) -> None:
        """Log something about this repository."""
        if self.log is not None:
            self.log.bind(repo=str(self.repo), **fields).event(event)

    @contextmanager
    def polling(self, surface: str) -> Iterator[None]:
        """Whatever GitHub refuses inside could not be polled."""
        try:
            yield
        except ForgeError as error:
            raise GitHubPollingError(str(self.repo), str(surface), error) from error
