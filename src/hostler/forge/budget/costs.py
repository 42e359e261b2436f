"""Rules of cost: what it costs to watch repositories, and what to change if that is too much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from hostler.forge.budget.caps import AIM_PERCENT, HOUR, MINUTE, Caps, Kind

# Requests of one poll. `docs/budget.md` has the table; a test counts them on the sandbox.
TRIPWIRE, REST, RUNS, SWEEP = 1, 2, 1, 1
# For a pull request in which something happened: itself, its reviews, the word that is checked.
CHANGED = 3
# With `feeds = "threads"`: a pull request, its reviews, two kinds of comments, its issue.
THREAD = 5
# What GitHub gives a token, or an App at least, where nobody asked.
USUAL_LIMIT = 5000
LONGEST_INTERVAL = 86_400
MOST_IDLE_POLLS = 1000


@dataclass(frozen=True, slots=True)
class Watched:
    """One repository: pull requests that are followed, and whether their runs are."""

    followed: int = 0
    runs: bool = False

    @property
    def active(self) -> bool:
        """Whether all of it is read at each poll."""
        return self.followed > 0


@dataclass(frozen=True, slots=True)
class Setup:
    """What the settings say that matters here."""

    interval: float = 30.0
    idle_every: int = 5
    # One repository per interval, instead of each.
    in_turn: bool = False
    threads: bool = False
    # Tokens that change every hour, and with them every tag.
    app: bool = False
    between_writes: float = 1.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What is asked, on average."""

    requests_per_hour: float = 0.0
    primary_per_hour: float = 0.0
    points_per_minute: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.requests_per_hour + other.requests_per_hour,
            self.primary_per_hour + other.primary_per_hour,
            self.points_per_minute + other.points_per_minute,
        )


@dataclass(frozen=True, slots=True)
class Room:
    """What may be used, and what of it polls aim at."""

    primary_per_hour: int
    points_per_minute: int

    def stretch(self, polls: Cost, writes: Cost) -> float:
        """How much too much polls are, at least 1; beside what is written."""
        hour = _part(self.primary_per_hour, writes.primary_per_hour)
        minute = _part(self.points_per_minute, writes.points_per_minute)
        return max(polls.primary_per_hour / hour, polls.points_per_minute / minute, 1.0)


@dataclass(frozen=True, slots=True)
class Case:
    """One way that things can be."""

    polls: Cost
    writes: Cost
    stretch: float

    @property
    def total(self) -> Cost:
        """Polls and writes."""
        return self.polls + self.writes

    @property
    def fits(self) -> bool:
        """Whether polls need not be stretched."""
        return self.stretch <= 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What watching costs now and at worst, of what may be used."""

    now: Case
    worst: Case
    room: Room
    advice: tuple[str, ...]


def plan(repos: Sequence[Watched], setup: Setup, caps: Caps, limit: int = USUAL_LIMIT) -> Plan:
    """Now: as stored, and nothing changes. At worst: all are active, and everything changes."""
    room = Room(caps.share(limit), caps.share(caps.points_per_minute))

    def now(repos: Sequence[Watched], setup: Setup) -> Case:
        return _case(room, quiet_polls(repos, setup), Cost())

    at_worst = busy_polls(repos, setup)
    worst = _case(room, at_worst, all_writes(setup, caps) if repos else Cost())
    found = now(repos, setup)
    return Plan(found, worst, room, tuple(advice(repos, setup, found, now)))


def quiet_polls(repos: Sequence[Watched], setup: Setup) -> Cost:
    """What polls cost while nothing changes: pages that are unchanged, but for new tokens."""
    requests = sum(quiet_requests(repo, setup) for repo in repos) * _polls_per_hour(repos, setup)
    renewed = sum(_addresses(repo, setup) for repo in repos) if setup.app else 0
    return Cost(requests, min(renewed, requests), requests * MINUTE / HOUR)


def quiet_requests(repo: Watched, setup: Setup) -> float:
    """The requests of one poll in which nothing changed, on average."""
    if setup.threads:
        return TRIPWIRE + THREAD * repo.followed
    if repo.active:
        return TRIPWIRE + REST + SWEEP + RUNS * repo.runs
    return TRIPWIRE + REST / setup.idle_every


def busy_polls(repos: Sequence[Watched], setup: Setup) -> Cost:
    """What polls cost while all are active and everything changes at every poll."""
    each = [replace(repo, followed=max(repo.followed, 1)) for repo in repos]
    per_poll = sum(quiet_requests(repo, setup) + CHANGED * repo.followed for repo in each)
    requests = per_poll * _polls_per_hour(repos, setup)
    return Cost(requests, requests, requests * MINUTE / HOUR)


def all_writes(setup: Setup, caps: Caps) -> Cost:
    """What it costs to write as fast as we may."""
    in_hour = min(HOUR / setup.between_writes, caps.share(caps.creations_per_hour))
    in_minute = min(MINUTE / setup.between_writes, caps.share(caps.creations_per_minute))
    return Cost(in_hour, in_hour, in_minute * Kind.CREATION.points)


def advice(
    repos: Sequence[Watched],
    setup: Setup,
    found: Case,
    now: Callable[[Sequence[Watched], Setup], Case],
) -> list[str]:
    """What would make it fit: each line alone would do."""
    if found.fits:
        return []
    # An App's new tokens cost the same however seldom polls are.
    interval = ceil(setup.interval * found.stretch)
    said = []
    if interval <= LONGEST_INTERVAL and now(repos, replace(setup, interval=interval)).fits:
        said.append(f"Set runtime.poll_interval_seconds to {interval} or more.")
    every = _first(
        range(setup.idle_every + 1, MOST_IDLE_POLLS + 1),
        lambda polls: now(repos, replace(setup, idle_every=polls)).fits,
    )
    if every is not None:
        said.append(f"Set github.idle_feed_every_polls to {every} or more.")
    if setup.threads and now(repos, replace(setup, threads=False)).fits:
        said.append('Set runtime.feeds to "repository".')
    fewer = _first(range(len(repos) - 1, 0, -1), lambda n: now(repos[:n], setup).fits)
    if fewer is not None:
        said.append(f"Watch {fewer} repositories or fewer with this account.")
    if not setup.app:
        said.append("Use a GitHub App: each of its installations has limits of its own.")
    return said


def _case(room: Room, polls: Cost, writes: Cost) -> Case:
    return Case(polls, writes, room.stretch(polls, writes))


def _part(share: int, written: float) -> float:
    """What polls aim at, beside what is written; a little at least, to divide by."""
    return max(min(share * AIM_PERCENT / 100, share - written), 1.0)


def _polls_per_hour(repos: Sequence[Watched], setup: Setup) -> float:
    """How often one repository is polled."""
    return HOUR / setup.interval / (max(len(repos), 1) if setup.in_turn else 1)


def _addresses(repo: Watched, setup: Setup) -> int:
    """How many pages of a quiet repository are asked for again and again."""
    if setup.threads:
        return TRIPWIRE + THREAD * repo.followed
    # The sweep goes over each pull request and its reviews.
    return TRIPWIRE + REST + (RUNS * repo.runs if repo.active else 0) + 2 * repo.followed


def _first(numbers: range, fits: Callable[[int], bool]) -> int | None:
    """The first number that fits, where all behind it do too."""
    if not numbers or not fits(numbers[-1]):
        return None
    low, high = 0, len(numbers) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(numbers[middle]) else (middle + 1, high)
    return numbers[low]
