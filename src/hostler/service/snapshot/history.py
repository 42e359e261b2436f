"""What ended runs came to, per project and window: how many, how long, how often they failed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from hostler.agents.outcomes import Outcome
from hostler.model import EPOCH, stamp
from hostler.store import Transaction
from hostler.store.outbox import Delivery, deliveries
from hostler.store.runs import Ended, Sums, ended_since, newest_end, newest_ended

# Shortest first.
WINDOWS: Mapping[str, timedelta] = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
# The agent did what it was there for, or was told to stop: no failure of anybody.
WELL = (Outcome.SUCCESS, Outcome.NEEDS_INPUT, Outcome.BLOCKED, Outcome.INTERRUPTED)
# As long as no run ends, a history is as good as a new one for so long.
FRESH = timedelta(minutes=1)
# Of runs and writes, so many of the newest are looked at one by one.
MOST = 500


@dataclass(frozen=True, slots=True)
class Record:
    """Some ended runs, summed up. Without any there is no mean."""

    count: int = 0
    failed: int = 0
    mean_seconds: float | None = None
    std_seconds: float | None = None

    @property
    def failure_rate(self) -> float | None:
        """Which share of them failed."""
        return self.failed / self.count if self.count else None

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "count": self.count,
            "failed": self.failed,
            "failure_rate": _rounded(self.failure_rate),
            "mean_seconds": _rounded(self.mean_seconds),
            "std_seconds": _rounded(self.std_seconds),
        }


@dataclass(frozen=True, slots=True)
class Window:
    """One window: each project that had runs in it, and all together."""

    projects: Mapping[str, Record]
    everything: Record

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        projects = {name: record.as_json() for name, record in self.projects.items()}
        return {"all": self.everything.as_json(), "projects": projects}


# By the names of `WINDOWS`.
History = Mapping[str, Window]


@dataclass(frozen=True, slots=True)
class Past:
    """What is summed up of the past, and the newest of it one by one, newest first."""

    windows: History
    ended: Sequence[Ended] = ()
    sent: Sequence[Delivery] = ()


class Histories:
    """Keeps the past while no run has ended since, and not for long."""

    def __init__(self) -> None:
        self._kept: tuple[str, datetime, Past] | None = None

    def at(self, tx: Transaction) -> Past:
        """The past as it is now."""
        newest, now = newest_end(tx), tx.now()
        kept = self._kept
        if kept is not None and kept[0] == newest and timedelta() <= now - kept[1] < FRESH:
            return kept[2]
        found = Past(history(tx), newest_ended(tx, MOST), deliveries(tx, MOST))
        self._kept = (newest, now, found)
        return found


def history(tx: Transaction) -> History:
    """All windows until now."""
    now = tx.now()
    moments = [stamp(max(now - length, EPOCH)) for length in WINDOWS.values()]
    return windows_of(ended_since(tx, moments, [outcome.value for outcome in WELL]))


def windows_of(sums: Mapping[tuple[str, int], Sums]) -> History:
    """Sums by project and number of the shortest window, as windows: each has the shorter ones."""
    found: dict[str, Window] = {}
    for number, name in enumerate(WINDOWS):
        inside = [(project, one) for (project, at), one in sums.items() if at <= number]
        projects = sorted({project for project, _ in inside})
        records = {p: record_of(one for q, one in inside if q == p) for p in projects}
        found[name] = Window(records, record_of(one for _, one in inside))
    return found


def record_of(sums: Iterable[Sums]) -> Record:
    """Sums as people read them; the deviation is that of all runs, not of a sample."""
    total = sum(sums, Sums())
    if not total.count:
        return Record()
    mean = total.seconds / total.count
    # Of numbers that are all alike, rounding may leave a little less than nothing.
    variance = max(total.squares / total.count - mean * mean, 0.0)
    return Record(total.count, total.failed, mean, math.sqrt(variance))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
