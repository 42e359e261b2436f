"""Estimate the requests that polling needs, and advise if they exceed the limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from hostler.forge.github.rate_limit.limits import (
    HOUR,
    MINUTE,
    TARGET_PERCENT,
    RequestCaps,
    RequestKind,
)
from hostler.model import RepoName
from hostler.store.pull_requests import pulls_in

if TYPE_CHECKING:
    from hostler.config.settings import Settings
    from hostler.store.transaction import Transaction


# Requests of one poll (table in docs/internals/rate-limits.md). A test counts them on the sandbox.
TRIPWIRE, REST, RUNS, SWEEP = 1, 2, 1, 1
# For a pull request that changed: itself, its reviews, the comment that is checked.
CHANGED_REQUESTS = 3
# With `feeds = "threads"`: a pull request, its reviews, two kinds of comments, its issue.
THREAD_REQUESTS = 5
# What GitHub gives a token, or at least an App.
USUAL_HOURLY_LIMIT = 5000
MAX_POLL_INTERVAL = 86_400
MAX_IDLE_POLLS = 1000


@dataclass(frozen=True, slots=True)
class WatchedRepository:
    """One repository: how many pull requests are followed, and whether workflow runs are read."""

    followed: int = 0
    runs: bool = False

    @property
    def active(self) -> bool:
        """Return whether every poll reads all of it."""
        return self.followed > 0


@dataclass(frozen=True, slots=True)
class PollingSetup:
    """The settings that matter here."""

    interval: float = 30.0
    idle_every: int = 5
    # One repository per interval, instead of each.
    in_turn: bool = False
    threads: bool = False
    # App tokens change every hour, and with them all ETags.
    app: bool = False
    between_writes: float = 1.0


@dataclass(frozen=True, slots=True)
class PollingCost:
    """Average numbers of requests."""

    requests_per_hour: float = 0.0
    primary_per_hour: float = 0.0
    points_per_minute: float = 0.0

    def __add__(self, other: PollingCost) -> PollingCost:
        return PollingCost(
            self.requests_per_hour + other.requests_per_hour,
            self.primary_per_hour + other.primary_per_hour,
            self.points_per_minute + other.points_per_minute,
        )


@dataclass(frozen=True, slots=True)
class RateLimitRoom:
    """What may be used, and what part polls aim at."""

    primary_per_hour: int
    points_per_minute: int

    def stretch(self, polls: PollingCost, writes: PollingCost) -> float:
        """Return by what factor polls exceed the limits, besides writes; at least 1."""
        hour = _cost_part(self.primary_per_hour, writes.primary_per_hour)
        minute = _cost_part(self.points_per_minute, writes.points_per_minute)
        return max(polls.primary_per_hour / hour, polls.points_per_minute / minute, 1.0)


@dataclass(frozen=True, slots=True)
class CostCase:
    """The cost in one situation."""

    polls: PollingCost
    writes: PollingCost
    stretch: float

    @property
    def total(self) -> PollingCost:
        """Return polls and writes."""
        return self.polls + self.writes

    @property
    def fits(self) -> bool:
        """Return whether polls fit without stretching."""
        return self.stretch <= 1.0


@dataclass(frozen=True, slots=True)
class CostPlan:
    """The cost now and in the worst case, and what may be used."""

    now: CostCase
    worst: CostCase
    allowance: RateLimitRoom
    advice: tuple[str, ...]


def plan_costs(
    repos: Sequence[WatchedRepository],
    setup: PollingSetup,
    caps: RequestCaps,
    limit: int = USUAL_HOURLY_LIMIT,
) -> CostPlan:
    """Plan the cost. Now: as stored, nothing changes. Worst: all are active and always change."""
    allowance = RateLimitRoom(caps.share(limit), caps.share(caps.points_per_minute))

    def now(repos: Sequence[WatchedRepository], setup: PollingSetup) -> CostCase:
        return _build_case(allowance, cost_of_quiet_polls(repos, setup), PollingCost())

    at_worst = cost_of_busy_polls(repos, setup)
    worst = _build_case(
        allowance, at_worst, cost_of_writes(setup, caps) if repos else PollingCost()
    )
    found = now(repos, setup)
    return CostPlan(found, worst, allowance, tuple(advise(repos, setup, found, now)))


def cost_of_quiet_polls(repos: Sequence[WatchedRepository], setup: PollingSetup) -> PollingCost:
    """Return the cost of polls while nothing changes: 304 answers, but for new tokens."""
    requests = sum(requests_of_quiet_poll(repo, setup) for repo in repos) * _polls_per_hour(
        repos, setup
    )
    renewed = sum(_count_addresses(repo, setup) for repo in repos) if setup.app else 0
    return PollingCost(requests, min(renewed, requests), requests * MINUTE / HOUR)


def requests_of_quiet_poll(repo: WatchedRepository, setup: PollingSetup) -> float:
    """Return the average requests of one poll in which nothing changed."""
    if setup.threads:
        return TRIPWIRE + THREAD_REQUESTS * repo.followed
    if repo.active:
        return TRIPWIRE + REST + SWEEP + RUNS * repo.runs
    return TRIPWIRE + REST / setup.idle_every


def cost_of_busy_polls(repos: Sequence[WatchedRepository], setup: PollingSetup) -> PollingCost:
    """Return the cost of polls while all are active and everything changes at every poll."""
    each = [replace(repo, followed=max(repo.followed, 1)) for repo in repos]
    per_poll = sum(
        requests_of_quiet_poll(repo, setup) + CHANGED_REQUESTS * repo.followed for repo in each
    )
    requests = per_poll * _polls_per_hour(repos, setup)
    return PollingCost(requests, requests, requests * MINUTE / HOUR)


def cost_of_writes(setup: PollingSetup, caps: RequestCaps) -> PollingCost:
    """Return the cost of writing at the maximum rate."""
    in_hour = min(HOUR / setup.between_writes, caps.share(caps.creations_per_hour))
    in_minute = min(MINUTE / setup.between_writes, caps.share(caps.creations_per_minute))
    return PollingCost(in_hour, in_hour, in_minute * RequestKind.CREATION.points)


def advise(
    repos: Sequence[WatchedRepository],
    setup: PollingSetup,
    found: CostCase,
    now: Callable[[Sequence[WatchedRepository], PollingSetup], CostCase],
) -> list[str]:
    """Return changes that would each make it fit."""
    if found.fits:
        return []
    # An App's new tokens cost the same at any poll rate.
    interval = ceil(setup.interval * found.stretch)
    advice = []
    if interval <= MAX_POLL_INTERVAL and now(repos, replace(setup, interval=interval)).fits:
        advice.append(f"Set runtime.poll_interval_seconds to {interval} or more.")
    every = _first_that_fits(
        range(setup.idle_every + 1, MAX_IDLE_POLLS + 1),
        lambda polls: now(repos, replace(setup, idle_every=polls)).fits,
    )
    if every is not None:
        advice.append(f"Set github.idle_feed_every_polls to {every} or more.")
    if setup.threads and now(repos, replace(setup, threads=False)).fits:
        advice.append('Set runtime.feeds to "repository".')
    fewer = _first_that_fits(range(len(repos) - 1, 0, -1), lambda n: now(repos[:n], setup).fits)
    if fewer is not None:
        advice.append(f"Watch {fewer} repositories or fewer with this account.")
    if not setup.app:
        advice.append("Use a GitHub App: each installation has its own limits.")
    return advice


def _build_case(allowance: RateLimitRoom, polls: PollingCost, writes: PollingCost) -> CostCase:
    return CostCase(polls, writes, allowance.stretch(polls, writes))


def _cost_part(share: int, written: float) -> float:
    """Return what polls aim at besides writes; at least 1, as a divisor."""
    return max(min(share * TARGET_PERCENT / 100, share - written), 1.0)


def _polls_per_hour(repos: Sequence[WatchedRepository], setup: PollingSetup) -> float:
    """Return how often one repository is polled."""
    return HOUR / setup.interval / (max(len(repos), 1) if setup.in_turn else 1)


def _count_addresses(repo: WatchedRepository, setup: PollingSetup) -> int:
    """Return how many pages of a quiet repository are requested regularly."""
    if setup.threads:
        return TRIPWIRE + THREAD_REQUESTS * repo.followed
    # The sweep reads each pull request and its reviews.
    return TRIPWIRE + REST + (RUNS * repo.runs if repo.active else 0) + 2 * repo.followed


def _first_that_fits(numbers: range, fits: Callable[[int], bool]) -> int | None:
    """Return the first number that fits, if all after it fit too."""
    if not numbers or not fits(numbers[-1]):
        return None
    low, high = 0, len(numbers) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(numbers[middle]) else (middle + 1, high)
    return numbers[low]


def plan_setup(
    settings: Settings, tx: Transaction | None, limit: int = USUAL_HOURLY_LIMIT
) -> CostPlan:
    """Plan the cost of these settings; without a database, every repository is idle."""
    caps = RequestCaps(percent=settings.github.budget_percent)
    return plan_costs(list_watched_repositories(settings, tx), build_setup(settings), caps, limit)


def list_watched_repositories(
    settings: Settings, tx: Transaction | None
) -> list[WatchedRepository]:
    """Return the repositories, and how many pull requests of each are followed."""
    found = []
    for repo in settings.repo.values():
        followed = pulls_in(tx, RepoName(repo.owner, repo.name)) if tx else []
        runs = repo.pr_actions_feedback_policy != "never"
        found.append(WatchedRepository(len(followed), runs))
    return found


def build_setup(settings: Settings) -> PollingSetup:
    """Return the settings that matter to the cost."""
    runtime, github = settings.runtime, settings.github
    return PollingSetup(
        interval=float(runtime.poll_interval_seconds),
        idle_every=github.idle_feed_every_polls,
        in_turn=runtime.poll_cadence == "turn",
        threads=runtime.feeds == "threads",
        app=github.auth == "app" or (github.auth == "auto" and github.app_id > 0),
        # Tests may set it to zero; the real pause is at least this long.
        between_writes=max(github.seconds_between_writes, 1.0),
    )
