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


# Samples for a percentile.
MAX_SAMPLES = 200
TEXT_KINDS = (ItemKind.ISSUE_COMMENT, ItemKind.REVIEW_COMMENT, ItemKind.REVIEW)


class PollMetrics:
    """The metrics of one repository. `followed`: its pull requests during the current poll."""

    def __init__(self, repo: str = "", interval: float = 0.0) -> None:
        self._repo = repo
        self._target = 2 * interval + 30
        self._new: deque[float] = deque(maxlen=MAX_SAMPLES)
        self._fetched: deque[float] = deque(maxlen=MAX_SAMPLES)
        self._lags: deque[float] = deque(maxlen=MAX_SAMPLES)
        self._poll = [0, 0]
        self.followed: Collection[int] = ()

    def record_read(self, surface: str, reading: ListReading, ingested: IngestCounts) -> None:
        """Count a list that was read and stored."""
        metrics.count(names.FETCH_REQUESTS, reading.asked, surface=surface)
        metrics.count(names.FETCH_PAGES, reading.pages, surface=surface)
        metrics.count(names.FETCHED, len(reading.items), surface=surface)
        metrics.count(names.FETCHED_NEW, ingested.new, surface=surface)
        metrics.count(names.FETCHED_REPLAY, ingested.replayed, surface=surface)
        metrics.count(names.FEEDBACK_INGESTED, self._feedback(ingested.new_items))
        metrics.count(names.FEEDBACK_DEDUPED, self._feedback(ingested.known_items))
        self._poll[0] += sum(item.kind in TEXT_KINDS for item in ingested.new_items)
        self._poll[1] += sum(item.kind in TEXT_KINDS for item in reading.items)

    def record_lag(self, surface: str, seconds: float) -> None:
        """Set the age of a cursor."""
        metrics.set(names.CURSOR_LAG, max(seconds, 0.0), surface=surface)

    def record_new_items(self, now: datetime, new_items: Sequence[Item]) -> None:
        """Record how old new items are; `now` by GitHub's time."""
        for item in new_items:
            if item.kind in TEXT_KINDS:
                age = (now - parse_timestamp(item.updated_at)).total_seconds()
                self._lags.append(max(age, 0.0))

    def record_poll(self) -> None:
        """Record the end of a poll."""
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
    """Return the smallest value that 95 of 100 samples do not exceed; 0 without samples."""
    ordered = sorted(samples)
    return ordered[ceil(len(ordered) * 0.95) - 1] if ordered else 0.0


# Called after each step, for tests: which step, and of what.
PollObserver = Callable[[str, str], None]


def ignore_steps(_step: str, _what: str) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class PollContext:
    """What polling one repository needs. `scopes`: what `settled` writes besides the outbox."""

    store: Store
    forge: Forge
    repo: RepoName
    window: PollWindow = field(default_factory=PollWindow)
    settled: SettledWrite = ignore_settled
    scopes: tuple[str, ...] = (OUTBOX_SCOPE,)
    log: EventLog | None = None
    poll_metrics: PollMetrics = field(default_factory=PollMetrics)
    observe: PollObserver = ignore_steps

    def log_event(self, event: LogEvent, **fields: object) -> None:
        """Log an event of this repository."""
        if self.log is not None:
            self.log.bind(repo=str(self.repo), **fields).event(event)

    @contextmanager
    def translate_errors(self, surface: str) -> Iterator[None]:
        """Raise `GitHubPollingError` for any error of the code host."""
        try:
            yield
        except ForgeError as error:
            raise GitHubPollingError(str(self.repo), str(surface), error) from error
