"""One repository: when it is looked at, what of it is over, and that its work is enqueued."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from hostler.clock import Clock
from hostler.errors import GitHubPollingError, HostlerError, RateLimited
from hostler.intake import Watch
from hostler.service.looking import Looked

LONGEST_PAUSE = 600.0
# GitHub's hour: no budget is spent for longer.
LONGEST_REFUSAL = 3600.0
# Whose look takes longer hangs, and is looked at where it delays only its like.
SLOW_SECONDS = 5.0
# Of the interval: the least pause after a look that took longer than that.
LEAST_PAUSE = 0.25


@dataclass(frozen=True, slots=True)
class Look:
    """A look that is over: what it found, or what went wrong (and for how many looks now)."""

    project: str
    watch: Watch
    found: Looked | None
    error: Exception | None = None
    failures: int = 0
    # Our own budget cut it short: GitHub refused nothing, but not all was seen.
    held: bool = False
    # From when it was due to now.
    lag: float = 0.0


@dataclass(frozen=True, slots=True)
class Timed:
    """What a look found, and how long it took; waiting for a thread is no part of it."""

    found: Looked
    seconds: float


class Pool(Protocol):
    """The workers of all repositories."""

    def reap(self, project: str) -> int:
        """Count finished futures of a project no more; how many there were."""
        ...


class Looks(Protocol):
    """Who looks at one repository."""

    @property
    def watch(self) -> Watch: ...
    def look(self) -> Looked: ...
    def stretch(self) -> float: ...


class Threads(Protocol):
    """Where looks take their time."""

    def look(self, act: Callable[[], Timed], *, slow: bool) -> Future[Timed]: ...


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often it is looked at; `by_turns`: whenever it is called."""

    interval: float
    by_turns: bool = False


@dataclass(frozen=True, slots=True)
class Staff:
    """Whom all repositories share. `wake`: have another turn; `enqueue`: start what has a place."""

    threads: Threads
    wake: Callable[[], None]
    enqueue: Callable[[], None]


class RepoOrchestrator:
    """Lives as long as its repository is watched. `poll_once` never waits."""

    def __init__(self, looker: Looks, rhythm: Rhythm, staff: Staff, clock: Clock) -> None:
        self.project = looker.watch.project
        self.watch = looker.watch
        self.rhythm = rhythm
        self._looker = looker
        self._staff = staff
        self._clock = clock
        self._looking: Future[Timed] | None = None
        self._begun = self._due = self._was_due = clock.monotonic()
        # Since when somebody wants a look at once.
        self._asked: float | None = None
        self._slow = False
        self._failures = 0
        self._held = False
        # How many looks are over, well or not.
        self.looks_over = 0

    def poll_once(self, pool: Pool, *, allow_enqueue: bool = True) -> Look | None:
        """Reap, take up a look that is over, begin one that is due, enqueue; then return."""
        pool.reap(self.project)
        over = self._collect()
        if self._looking is None and self._is_due():
            self._begin()
        if allow_enqueue:
            self._staff.enqueue()
        return over

    def seconds_left(self) -> float | None:
        """Until the next look is due; None while nobody but an event leads to one."""
        if self._looking is not None:
            return None
        if self._asked is not None:
            return 0.0
        return None if self.rhythm.by_turns else max(self._due - self._clock.monotonic(), 0.0)

    def hasten(self) -> None:
        """Look again at once; after the look that is under way, if there is one."""
        if self._asked is None:
            self._asked = self._clock.monotonic()

    def waiting(self) -> float:
        """For how long a look has been due that is not over."""
        if self._looking is None and not self._is_due():
            return 0.0
        due = self._was_due if self._looking is not None else self._due_since()
        return max(self._clock.monotonic() - due, 0.0)

    @property
    def unread(self) -> bool:
        """Whether its last look went wrong, or was cut short by our own budget."""
        return self._failures > 0 or self._held

    def can_look(self) -> bool:
        """Whether its turn would be of use: no look is under way, and it does not back off."""
        return self._looking is None and self._clock.monotonic() >= self._due

    def succeed(self, before: RepoOrchestrator) -> None:
        """Go on for the one that watched this repository by the settings before."""
        self._looking, self._begun = before._looking, before._begun
        self._was_due = before._was_due
        self._slow, self._failures, self._held = before._slow, before._failures, before._held
        self.looks_over = before.looks_over
        if self.watch == before.watch:
            self._due, self._asked = before._due, before._asked
        if before._looking is not None:
            before._looking.add_done_callback(lambda _: self._staff.wake())

    def _is_due(self) -> bool:
        if self._asked is not None:
            return True
        return not self.rhythm.by_turns and self._clock.monotonic() >= self._due

    def _due_since(self) -> float:
        """When the look that is due came to be so: by its time, or by somebody's wish."""
        own = None if self.rhythm.by_turns else self._due
        return min(one for one in (self._asked, own) if one is not None)

    def _begin(self) -> None:
        self._was_due, self._asked = self._due_since(), None
        self._begun = self._clock.monotonic()
        self._looking = self._staff.threads.look(self._look, slow=self._slow)
        self._looking.add_done_callback(lambda _: self._staff.wake())

    def _look(self) -> Timed:
        """On a thread of its own."""
        begun = self._clock.monotonic()
        return Timed(self._looker.look(), self._clock.monotonic() - begun)

    def _collect(self) -> Look | None:
        if self._looking is None or not self._looking.done():
            return None
        done, self._looking = self._looking, None
        self.looks_over += 1
        lag = max(self._clock.monotonic() - self._was_due, 0.0)
        return replace(self._over(done), lag=lag)

    def _over(self, done: Future[Timed]) -> Look:
        broke = done.exception()
        if broke is not None and not isinstance(broke, Exception):
            raise broke
        if broke is not None:
            return self._failed(None, broke)
        found = done.result().found
        self._slow = done.result().seconds > SLOW_SECONDS
        if found.error is not None:
            return self._failed(found, found.error)
        self._failures, self._held, self._due = 0, False, self._next_look()
        return Look(self.project, self.watch, found)

    def _next_look(self) -> float:
        """One interval after the last began; where looks take long, a pause lies between."""
        now, rhythm = self._clock.monotonic(), self.rhythm
        if rhythm.by_turns:
            return now
        interval = rhythm.interval * self._looker.stretch()
        return max(self._begun + interval, now + LEAST_PAUSE * interval)

    def _failed(self, found: Looked | None, error: Exception) -> Look:
        """Look again later; what was heard all the same is told."""
        if (wait := own_pause(error, self._clock.now())) is not None:
            self._held, self._due = True, self._clock.monotonic() + wait
            return Look(self.project, self.watch, found, error, held=True)
        self._held = False
        if found is not None and found.partly:
            # One list that fails, for weeks maybe, makes nobody deaf to the others.
            self._failures, self._due = self._failures + 1, self._next_look()
            return Look(self.project, self.watch, found, error, self._failures)
        self._failures, self._slow = self._failures + 1, True
        interval = self.rhythm.interval * self._looker.stretch()
        pause = backing_off(interval, self._failures, error, self._clock.now())
        self._due = self._clock.monotonic() + pause
        return Look(self.project, self.watch, found, error, self._failures)


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
