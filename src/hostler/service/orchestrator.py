"""One repository: looks at GitHub when it is due, on a thread of its own, and backs off alone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import datetime

from hostler.clock import Clock
from hostler.errors import GitHubPollingError, HostlerError
from hostler.flows import refresh_dependencies, settled, take_in
from hostler.forge import Forge, Scanned, Window, scan
from hostler.intake import Taken, Watch
from hostler.model import RepoName
from hostler.service.desks import Desks, House
from hostler.service.observing import Observer, nobody
from hostler.store.pulls import pulls_in
from hostler.store.tasks import SCOPE as TASKS

LONGEST_PAUSE = 600.0


@dataclass(frozen=True, slots=True)
class Looked:
    """What one look at a repository came to."""

    scanned: Scanned = field(default_factory=Scanned)
    taken: Taken = field(default_factory=Taken)


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
    ) -> None:
        self.project = watch.project
        self.watch = watch
        self._house = house
        self._desks = desks
        self._clock = clock
        self._window = window
        self._observe = observe
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
        with house.store.read() as tx:
            pulls = [pull.pr_number for pull in pulls_in(tx, self.watch.repo)]
        scanned = scan(
            house.store,
            self.forge,
            self.watch.repo,
            self._window,
            pulls=pulls,
            settled=settled,
            scopes=(TASKS,),
        )
        self._observe("scanned", self.project)
        taken = take_in(house.store, self.forge, self.watch)
        self._observe("heard", self.project)
        others = [RepoName(repo.owner, repo.name) for repo in house.settings.repo.values()]
        refresh_dependencies(house.store, house.hub.repo, self.watch, others)
        return Looked(scanned, taken)

    def _collect(self) -> Look | None:
        if self._looking is None or not self._looking.done():
            return None
        done, self._looking = self._looking, None
        interval = float(self._house.settings.runtime.poll_interval_seconds)
        error = done.exception()
        if error is None:
            self._failures, self._due = 0, self._clock.monotonic() + interval
            return Look(self.project, self.watch, done.result())
        if not isinstance(error, Exception):
            raise error
        self._failures += 1
        pause = backing_off(interval, self._failures, error, self._clock.now())
        self._due = self._clock.monotonic() + pause
        return Look(self.project, self.watch, None, error, self._failures)


def backing_off(interval: float, failures: int, error: Exception, now: datetime) -> float:
    """How long to leave a repository alone: as long as GitHub says, or twice the last time."""
    until = getattr(error, "until", None) if isinstance(error, HostlerError) else None
    told = (until - now).total_seconds() if isinstance(until, datetime) else 0.0
    doubled = interval * float(1 << min(failures - 1, 20))
    return max(told, min(doubled, max(LONGEST_PAUSE, interval)))


def cause_of(error: Exception) -> Exception:
    """What lies behind a failed look."""
    return error.cause if isinstance(error, GitHubPollingError) else error
