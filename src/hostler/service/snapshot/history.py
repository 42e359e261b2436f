"""Statistics of ended runs, lag of polls, service objectives, and costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from hostler.agents.outcomes import Outcome
from hostler.config.settings import Budget, Settings
from hostler.forge.github.rate_limit.cost_model import (
    USUAL_HOURLY_LIMIT,
    CostCase,
    CostPlan,
    WatchedRepository,
    build_setup,
    plan_costs,
)
from hostler.forge.github.rate_limit.limits import RequestCaps
from hostler.model import EPOCH, format_timestamp, parse_timestamp
from hostler.service.running.budgets import day_start
from hostler.store import Transaction
from hostler.store.outbox import Delivery, deliveries
from hostler.store.repositories import POLL_HISTORY, Polls, polls_since
from hostler.store.runs import (
    Ended,
    Spent,
    Sums,
    ended_since,
    newest_end,
    newest_ended,
    spent_since,
)
from hostler.store.transaction import age

# Shortest first.
WINDOWS: Mapping[str, timedelta] = {
    "1h": timedelta(hours=1),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
# The agent did what it was there for, or was told to stop: no failure of anybody.
NOT_FAILED_OUTCOMES = (Outcome.SUCCESS, Outcome.NEEDS_INPUT, Outcome.BLOCKED, Outcome.INTERRUPTED)
# As long as no run ends, a history is as good as a new one for so long.
CACHE_TTL = timedelta(minutes=1)
# Of runs and writes, so many of the newest are looked at one by one.
MAX_NEWEST = 500


@dataclass(frozen=True, slots=True)
class RunStats:
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
            "failure_rate": _round(self.failure_rate),
            "mean_seconds": _round(self.mean_seconds),
            "std_seconds": _round(self.std_seconds),
        }


@dataclass(frozen=True, slots=True)
class HistoryWindow:
    """One window: each project that had runs in it, and all together."""

    projects: Mapping[str, RunStats]
    everything: RunStats

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        projects = {name: record.as_json() for name, record in self.projects.items()}
        return {"all": self.everything.as_json(), "projects": projects}


# By the names of `WINDOWS`.
History = Mapping[str, HistoryWindow]


@dataclass(frozen=True, slots=True)
class PastActivity:
    """What is summed up of the past, and the newest of it one by one, newest first."""

    windows: History
    ended: Sequence[Ended] = ()
    sent: Sequence[Delivery] = ()


class HistoryCache:
    """Keeps the past while no run has ended since, and not for long."""

    def __init__(self) -> None:
        self._kept: tuple[str, datetime, PastActivity] | None = None

    def at(self, tx: Transaction) -> PastActivity:
        """The past as it is now."""
        newest, now = newest_end(tx), tx.now()
        kept = self._kept
        if kept is not None and kept[0] == newest and timedelta() <= now - kept[1] < CACHE_TTL:
            return kept[2]
        found = PastActivity(
            read_history(tx), newest_ended(tx, MAX_NEWEST), deliveries(tx, MAX_NEWEST)
        )
        self._kept = (newest, now, found)
        return found


def read_history(tx: Transaction) -> History:
    """All windows until now."""
    now = tx.now()
    moments = [format_timestamp(max(now - length, EPOCH)) for length in WINDOWS.values()]
    return _build_windows(
        ended_since(tx, moments, [outcome.value for outcome in NOT_FAILED_OUTCOMES])
    )


def _build_windows(sums: Mapping[tuple[str, int], Sums]) -> History:
    """Sums by project and number of the shortest window, as windows: each has the shorter ones."""
    found: dict[str, HistoryWindow] = {}
    for number, name in enumerate(WINDOWS):
        inside = [(project, one) for (project, at), one in sums.items() if at <= number]
        projects = sorted({project for project, _ in inside})
        records = {p: build_stats(one for q, one in inside if q == p) for p in projects}
        found[name] = HistoryWindow(records, build_stats(one for _, one in inside))
    return found


def build_stats(sums: Iterable[Sums]) -> RunStats:
    """Sums as people read them; the deviation is that of all runs, not of a sample."""
    total = sum(sums, Sums())
    if not total.count:
        return RunStats()
    mean = total.seconds / total.count
    # Of numbers that are all alike, rounding may leave a little less than nothing.
    variance = max(total.squares / total.count - mean * mean, 0.0)
    return RunStats(total.count, total.failed, mean, math.sqrt(variance))


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


@dataclass(frozen=True, slots=True)
class PollLag:
    """Looks at one repository in the last day; `now`: when that was asked."""

    polls: Polls
    now: datetime

    @property
    def on_time(self) -> int:
        """How many saw everything, in time."""
        return self.polls.polls - self.polls.late - self.polls.failed

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        seen = self.polls
        late = age(parse_timestamp(seen.late_since), self.now) if seen.late_since else None
        return {
            "looked_at": seen.last_at or None,
            "lag_seconds": round(seen.last_seconds, 3) if seen.last_at else None,
            "mean_seconds": round(seen.lag_seconds / seen.polls, 3) if seen.polls else None,
            "worst_seconds": round(seen.worst_seconds, 3) if seen.polls else None,
            "polls": seen.polls,
            "late": seen.late,
            "failed": seen.failed,
            "overdue_seconds": late.total_seconds() if late is not None else None,
        }


def read_poll_lags(tx: Transaction) -> dict[str, PollLag]:
    """By project, those that were looked at in the last day."""
    now = tx.now()
    found = polls_since(tx, format_timestamp(now - POLL_HISTORY))
    return {project: PollLag(one, now) for project, one in found.items()}


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


def _ratio(good: int, of: int) -> float | None:
    """Which part is good; None: there are none."""
    return good / of if of else None


def measure_polls(lags: Iterable[PollLag]) -> Objective:
    """Of all looks at repositories."""
    seen = list(lags)
    of = sum(one.polls.polls for one in seen)
    good = _ratio(sum(one.on_time for one in seen), of)
    what = "Looks at repositories that saw everything within one interval after they were due"
    return Objective("polls_on_time", what, "share", 0.99, good, of)


def _measure_starts(ended: Sequence[Ended]) -> Objective:
    """From a place to an agent at work."""
    waits = [one.start_seconds for one in ended]
    what = "From the grant of a place to the agent at work, with checkout and setup (95 %)"
    found = percentile(waits, PERCENTILE)
    return Objective("start_seconds_p95", what, "seconds", 60.0, found, len(waits), most=True)


def _measure_runs(day: RunStats) -> Objective:
    """Of all agents that ended."""
    good = _ratio(day.count - day.failed, day.count)
    what = "Agents that ended with a result, a question, a block, or because somebody stopped them"
    return Objective("runs_ended_well", what, "share", 0.9, good, day.count)


def _measure_writes(sent: Sequence[Delivery]) -> Objective:
    """From a decision to GitHub."""
    waits = [one.seconds for one in sent]
    found = percentile(waits, PERCENTILE)
    what = "From the decision to write something on GitHub to its last attempt (95 %)"
    return Objective("write_seconds_p95", what, "seconds", 60.0, found, len(waits), most=True)


def measure_objectives(
    lags: Iterable[PollLag], past: PastActivity, now: datetime
) -> tuple[Objective, ...]:
    """All of them, of the day before now."""
    since = format_timestamp(now - DAY)
    return (
        measure_polls(lags),
        _measure_starts([one for one in past.ended if one.exited_at >= since]),
        _measure_runs(past.windows["24h"].everything),
        _measure_writes([one for one in past.sent if one.created_at >= since]),
    )


@dataclass(frozen=True, slots=True)
class DailySpending:
    """What today has cost, by project, and what it may cost. 0: no limit."""

    today: Mapping[str, Spent]
    budget: Budget

    @property
    def total(self) -> Spent:
        """All projects together."""
        return sum(self.today.values(), Spent())

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "today_usd": round(self.total.usd, 6),
            "unpriced_runs": self.total.unpriced,
            "projects": {name: round(one.usd, 6) for name, one in sorted(self.today.items())},
            "per_task_usd": self.budget.per_task_usd,
            "per_repo_daily_usd": self.budget.per_repo_daily_usd,
            "per_day_usd": self.budget.per_day_usd,
        }


def read_daily_spending(tx: Transaction, budget: Budget) -> DailySpending:
    """What was spent since midnight, in UTC."""
    return DailySpending(spent_since(tx, format_timestamp(day_start(tx.now()))), budget)


def plan_github_usage(settings: Settings, pulls: Iterable[str]) -> CostPlan:
    """What watching costs, by the project of each pull request that is followed. Pure."""
    followed = Counter(pulls)
    watched = [
        WatchedRepository(followed[project], repo.pr_actions_feedback_policy != "never")
        for project, repo in settings.repo.items()
    ]
    caps = RequestCaps(percent=settings.github.budget_percent)
    return plan_costs(watched, build_setup(settings), caps, USUAL_HOURLY_LIMIT)


def plan_json(found: CostPlan) -> dict[str, Any]:
    """The same for programs."""
    return {
        "now": _case_json(found.now),
        "worst": _case_json(found.worst),
        "may_be_used": asdict(found.allowance),
        "advice": list(found.advice),
    }


def _case_json(case: CostCase) -> dict[str, Any]:
    total = {name: round(value, 3) for name, value in asdict(case.total).items()}
    return {**total, "stretch": round(case.stretch, 3), "fits": case.fits}
