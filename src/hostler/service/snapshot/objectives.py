"""Rules: what we want to be true of the last day, and whether it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from hostler.model import stamp
from hostler.service.snapshot.history import Past, Record
from hostler.service.snapshot.polls import PollLag
from hostler.store.outbox import Delivery
from hostler.store.runs import Ended

DAY = timedelta(hours=24)
PERCENTILE = 0.95


@dataclass(frozen=True, slots=True)
class Objective:
    """One of them. `value` is None where nothing happened that could be measured.

    `most`: the value may not be larger than the target; else it may not be smaller. `of`: how many
    were measured.
    """

    name: str
    what: str
    unit: str
    target: float
    value: float | None
    of: int
    most: bool = False

    @property
    def met(self) -> bool | None:
        """Whether it is so; None: nobody knows."""
        if self.value is None:
            return None
        return self.value <= self.target if self.most else self.value >= self.target

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "name": self.name,
            "what": self.what,
            "unit": self.unit,
            "target": self.target,
            "at_most": self.most,
            "value": None if self.value is None else round(self.value, 4),
            "of": self.of,
            "met": self.met,
        }


def percentile(values: Sequence[float], part: float) -> float | None:
    """The smallest value that this part of them does not exceed; None: there are none."""
    ordered = sorted(values)
    return ordered[max(math.ceil(part * len(ordered)), 1) - 1] if ordered else None


def share(good: int, of: int) -> float | None:
    """Which part is good; None: there are none."""
    return good / of if of else None


def polls_on_time(lags: Iterable[PollLag]) -> Objective:
    """Of all looks at repositories."""
    seen = list(lags)
    of = sum(one.polls.polls for one in seen)
    good = share(sum(one.on_time for one in seen), of)
    what = "Looks at repositories that saw everything within one interval after they were due"
    return Objective("polls_on_time", what, "share", 0.99, good, of)


def starts(ended: Sequence[Ended]) -> Objective:
    """From a place to an agent at work."""
    waits = [one.start_seconds for one in ended]
    what = "From the grant of a place to the agent at work, with checkout and setup (95 %)"
    found = percentile(waits, PERCENTILE)
    return Objective("start_seconds_p95", what, "seconds", 60.0, found, len(waits), most=True)


def runs_well(day: Record) -> Objective:
    """Of all agents that ended."""
    good = share(day.count - day.failed, day.count)
    what = "Agents that ended with a result, a question, a block, or because somebody stopped them"
    return Objective("runs_ended_well", what, "share", 0.9, good, day.count)


def writes(sent: Sequence[Delivery]) -> Objective:
    """From a decision to GitHub."""
    waits = [one.seconds for one in sent]
    found = percentile(waits, PERCENTILE)
    what = "From the decision to write something on GitHub to its last attempt (95 %)"
    return Objective("write_seconds_p95", what, "seconds", 60.0, found, len(waits), most=True)


def objectives(lags: Iterable[PollLag], past: Past, now: datetime) -> tuple[Objective, ...]:
    """All of them, of the day before now."""
    since = stamp(now - DAY)
    return (
        polls_on_time(lags),
        starts([one for one in past.ended if one.exited_at >= since]),
        runs_well(past.windows["24h"].everything),
        writes([one for one in past.sent if one.created_at >= since]),
    )
