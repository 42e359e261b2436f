"""One repository: looks at GitHub when it is due, on a thread of its own, and backs off alone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from hostler.clock import Clock
from hostler.errors import GitHubPollingError, HostlerError, RateLimited
from hostler.flows import refresh_dependencies, settled, take_in
from hostler.forge import Forge, Meter, Plan, Poller, Scanned, Tap, Window
from hostler.forge.feeds.inbox import HEARD
from hostler.forge.outbox.sender import SCOPE as OUTBOX
from hostler.intake import Taken, Watch
from hostler.model import RepoName
from hostler.service.desks import Desks, House
from hostler.service.observing import Observer, nobody
from hostler.service.operating import Operator
from hostler.service.verb_targets import Post
from hostler.store.held import rows_to_look_at
from hostler.store.tasks import SCOPE as TASKS
from hostler.telemetry.logs import Log

LONGEST_PAUSE = 600.0
# GitHub's hour: no budget is spent for longer.
LONGEST_REFUSAL = 3600.0


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look at a repository came to."""

    scanned: Scanned = field(default_factory=Scanned)
    taken: Taken = field(default_factory=Taken)
    # Some of it could not be read.
    error: GitHubPollingError | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """A look that is over: what it found, or what went wrong (and for how many looks now)."""

    project: str
    watch: Watch
    found: Looked | None
    error: Exception | None = None
    failures: int = 0


class RepoOrchestrator:
    """Lives as long as the service. `poll_once` never waits."""

    def __init__(
        self,
        house: House,
        desks: Desks,
        watch: Watch,
        clock: Clock,
        window: Window,
        observe: Observer = nobody,
        log: Log | None = None,
    ) -> None:
        self.project = watch.project
        self.watch = watch
        self._house = house
        self._desks = desks
        self._clock = clock
        self._observe = observe
        self._poller = Poller(self._tap(window, log), plan_of(house, watch.project))
        self._operator = Operator(Post(house, watch), log)
        # Where the database stood when nothing was worth a look; None: look again.
        self._heard: int | None = None
        self._active = False
        self._looking: Future[Looked] | None = None
        self._due = clock.monotonic()
        self._hastened = False
        self._failures = 0

    @property
    def forge(self) -> Forge:
        """The repository on GitHub."""
        return self._house.hub.repo(self.watch.repo)

    def poll_once(self, pool: Executor, wake: Callable[[], None]) -> Look | None:
        """Collect a look that is over, and begin the next when it is due."""
        over = self._collect()
        if self._looking is None and (self._hastened or self._clock.monotonic() >= self._due):
            self._hastened = False
            self._looking = pool.submit(self._look)
            self._looking.add_done_callback(lambda _: wake())
        return over

    def seconds_left(self) -> float | None:
        """Until the next look is due; None while one is under way, which wakes us by itself."""
        if self._looking is not None:
            return None
        return 0.0 if self._hastened else max(self._due - self._clock.monotonic(), 0.0)

    def hasten(self) -> None:
        """Look again at once; after the look that is under way, if there is one."""
        self._hastened = True

    def _look(self) -> Looked:
        """On an I/O thread: GitHub into the inbox, the inbox into tasks."""
        self._desks.of(self.project)
        house = self._house
        scanned, error = self._polled()
        self._observe("scanned", self.project)
        # What is in the inbox already is heard, whatever GitHub does not tell now.
        taken = self._take_in()
        self._observe("heard", self.project)
        self._operator.obey(taken)
        others = [RepoName(repo.owner, repo.name) for repo in house.settings.repo.values()]
        if error is None:
            refresh_dependencies(house.store, house.hub.repo, self.watch, others)
        return Looked(scanned, taken, error)

    def _polled(self) -> tuple[Scanned, GitHubPollingError | None]:
        try:
            return self._poller.poll(), None
        except GitHubPollingError as error:
            return Scanned(active=self._active), error

    def _take_in(self) -> Taken:
        """Hear what is in the inbox, if anything there is worth a look."""
        store = self._house.store
        # Before the look: whatever is committed meanwhile, by whomever, leads to another one.
        mark = store.change_mark()
        if self._heard == mark:
            return Taken()
        with store.read() as tx:
            waiting = bool(rows_to_look_at(tx, self.watch.repo, HEARD))
        self._heard = None if waiting else mark
        return take_in(store, self.forge, self.watch) if waiting else Taken()

    def _tap(self, window: Window, log: Log | None) -> Tap:
        house = self._house
        interval = float(house.settings.runtime.poll_interval_seconds)
        return Tap(
            house.store,
            self.forge,
            self.watch.repo,
            window,
            settled,
            (OUTBOX, TASKS),
            log,
            Meter(str(self.watch.repo), interval),
        )

    def _interval(self) -> float:
        """From one look to the next; longer where GitHub's limits are near."""
        interval = float(self._house.settings.runtime.poll_interval_seconds)
        return interval * stretch_of(self._house.hub, self.watch.repo, active=self._active)

    def _collect(self) -> Look | None:
        if self._looking is None or not self._looking.done():
            return None
        done, self._looking = self._looking, None
        broke = done.exception()
        if broke is not None and not isinstance(broke, Exception):
            raise broke
        found = None if broke is not None else done.result()
        error = broke or (found.error if found else None)
        if error is None and found is not None:
            self._active = found.scanned.active
            self._failures, self._due = 0, self._clock.monotonic() + self._interval()
            return Look(self.project, self.watch, found)
        assert error is not None
        return self._failed(found, error)

    def _failed(self, found: Looked | None, error: Exception) -> Look | None:
        """Look again later; what was heard all the same is told."""
        if (wait := own_pause(error, self._clock.now())) is not None:
            self._due = self._clock.monotonic() + wait
            return None if found is None else Look(self.project, self.watch, found)
        self._failures += 1
        pause = backing_off(self._interval(), self._failures, error, self._clock.now())
        self._due = self._clock.monotonic() + pause
        return Look(self.project, self.watch, found, error, self._failures)


class Stretching(Protocol):
    """Who knows how much of GitHub's limits is left."""

    def stretch(self, active: bool, repo: RepoName | None = None) -> float:
        """By how much to stretch the pause between two looks at a repository, at least 1."""
        ...


def stretch_of(hub: object, repo: RepoName, *, active: bool) -> float:
    """By how much a look waits longer, if the hub keeps a budget."""
    budget: Stretching | None = getattr(hub, "budget", None)
    return 1.0 if budget is None else max(budget.stretch(active, repo), 1.0)


def plan_of(house: House, project: str) -> Plan:
    """How a repository is polled, by the settings."""
    runtime, github = house.settings.runtime, house.settings.github
    repo = house.settings.repo[project]
    return Plan(
        feeds=runtime.feeds,
        incremental=runtime.enable_incremental_comment_fetch,
        idle_every=github.idle_feed_every_polls,
        runs=repo.pr_actions_feedback_policy != "never",
        operations=repo.operations_issue_number,
    )


def backing_off(interval: float, failures: int, error: Exception, now: datetime) -> float:
    """How long to leave a repository alone: as long as GitHub says, or twice the last time."""
    until = getattr(error, "until", None) if isinstance(error, HostlerError) else None
    told = (until - now).total_seconds() if isinstance(until, datetime) else 0.0
    doubled = interval * float(1 << min(failures - 1, 20))
    return max(told, min(doubled, max(LONGEST_PAUSE, interval)))


def own_pause(error: Exception, now: datetime) -> float | None:
    """How long our own budget holds a look back, which is no failure; None: it is one."""
    cause = cause_of(error)
    if not isinstance(cause, RateLimited) or cause.status:
        return None
    return min(max((cause.until - now).total_seconds(), 1.0), LONGEST_REFUSAL)


def cause_of(error: Exception) -> Exception:
    """What lies behind a failed look."""
    return error.cause if isinstance(error, GitHubPollingError) else error
