"""Schedule the polls of each repository on threads, with back-off and round robin."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol, TypeVar

from hostler.backoff import backoff
from hostler.clock import Clock
from hostler.errors import GitHubPollingError, HostlerError, RateLimited
from hostler.intake.repo_policy import RepoPolicy
from hostler.service.polling.repo_poller import PollResult

POLL_THREADS, SLOW_POLL_THREADS, _MAINTENANCE_THREADS = 16, 4, 2
T = TypeVar("T")


class ThreadPools:
    """Each kind has its own threads, so that none keeps another waiting."""

    def __init__(self) -> None:
        self._looks = ThreadPoolExecutor(POLL_THREADS, thread_name_prefix="look")
        self._slow = ThreadPoolExecutor(SLOW_POLL_THREADS, thread_name_prefix="slow-look")
        self.chores = ThreadPoolExecutor(_MAINTENANCE_THREADS, thread_name_prefix="chore")

    def look(self, act: Callable[[], T], *, slow: bool) -> Future[T]:
        """Look at a repository; at one that hung the last time, where it delays only its like."""
        return (self._slow if slow else self._looks).submit(act)

    def close(self) -> None:
        """Begin nothing any more; nobody is waited for."""
        for lane in (self._looks, self._slow, self.chores):
            lane.shutdown(wait=False, cancel_futures=True)


MAX_BACK_OFF_SECONDS = 600.0
# GitHub's hour: no budget is spent for longer.
MAX_BUDGET_PAUSE_SECONDS = 3600.0
# Whose look takes longer hangs, and is looked at where it delays only its like.
_SLOW_POLL_SECONDS = 5.0
# Of the interval: the least pause after a look that took longer than that.
_MIN_PAUSE_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class FinishedPoll:
    """A look that is over: what it found, or what went wrong (and for how many looks now)."""

    project: str
    watch: RepoPolicy
    found: PollResult | None
    error: Exception | None = None
    failures: int = 0
    # Our own budget cut it short: GitHub refused nothing, but not all was seen.
    held: bool = False
    # From when it was due to now.
    lag: float = 0.0


@dataclass(frozen=True, slots=True)
class TimedPoll:
    """What a look found, and how long it took; waiting for a thread is no part of it."""

    found: PollResult
    seconds: float


class FinishedWorkReaper(Protocol):
    """The workers of all repositories."""

    def reap(self, project: str) -> int:
        """Count finished futures of a project no more; how many there were."""
        ...


class SupportsPoll(Protocol):
    """Who looks at one repository."""

    @property
    def watch(self) -> RepoPolicy: ...
    def look(self) -> PollResult: ...
    def stretch(self) -> float: ...


class PollExecutor(Protocol):
    """Where looks take their time."""

    def look(self, act: Callable[[], TimedPoll], *, slow: bool) -> Future[TimedPoll]: ...


@dataclass(frozen=True, slots=True)
class PollSchedule:
    """How often it is looked at; `by_turns`: whenever it is called."""

    interval: float
    by_turns: bool = False


@dataclass(frozen=True, slots=True)
class PollDeps:
    """Whom all repositories share. `wake`: have another turn; `enqueue`: start what has a place."""

    threads: PollExecutor
    wake: Callable[[], None]
    enqueue: Callable[[], None]


class RepoOrchestrator:
    """Lives as long as its repository is watched. `poll_once` never waits."""

    def __init__(
        self, looker: SupportsPoll, rhythm: PollSchedule, staff: PollDeps, clock: Clock
    ) -> None:
        self.project = looker.watch.project
        self.watch = looker.watch
        self.rhythm = rhythm
        self._looker = looker
        self._staff = staff
        self._clock = clock
        self._looking: Future[TimedPoll] | None = None
        self._begun = self._due = self._was_due = clock.monotonic()
        # Since when somebody wants a look at once.
        self._asked: float | None = None
        self._slow = False
        self._failures = 0
        self._held = False
        # How many looks are over, well or not.
        self.looks_over = 0

    def poll_once(
        self, pool: FinishedWorkReaper, *, allow_enqueue: bool = True
    ) -> FinishedPoll | None:
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

    def _look(self) -> TimedPoll:
        """On a thread of its own."""
        begun = self._clock.monotonic()
        return TimedPoll(self._looker.look(), self._clock.monotonic() - begun)

    def _collect(self) -> FinishedPoll | None:
        if self._looking is None or not self._looking.done():
            return None
        done, self._looking = self._looking, None
        self.looks_over += 1
        lag = max(self._clock.monotonic() - self._was_due, 0.0)
        return replace(self._over(done), lag=lag)

    def _over(self, done: Future[TimedPoll]) -> FinishedPoll:
        broke = done.exception()
        if broke is not None and not isinstance(broke, Exception):
            raise broke
        if broke is not None:
            return self._failed(None, broke)
        found = done.result().found
        self._slow = done.result().seconds > _SLOW_POLL_SECONDS
        if found.error is not None:
            return self._failed(found, found.error)
        self._failures, self._held, self._due = 0, False, self._next_look()
        return FinishedPoll(self.project, self.watch, found)

    def _next_look(self) -> float:
        """One interval after the last began; where looks take long, a pause lies between."""
        now, rhythm = self._clock.monotonic(), self.rhythm
        if rhythm.by_turns:
            return now
        interval = rhythm.interval * self._looker.stretch()
        return max(self._begun + interval, now + _MIN_PAUSE_SHARE * interval)

    def _failed(self, found: PollResult | None, error: Exception) -> FinishedPoll:
        """Look again later; what was heard all the same is told."""
        if (wait := own_budget_pause(error, self._clock.now())) is not None:
            self._held, self._due = True, self._clock.monotonic() + wait
            return FinishedPoll(self.project, self.watch, found, error, held=True)
        self._held = False
        if found is not None and found.partly:
            # One list that fails, for weeks maybe, makes nobody deaf to the others.
            self._failures, self._due = self._failures + 1, self._next_look()
            return FinishedPoll(self.project, self.watch, found, error, self._failures)
        self._failures, self._slow = self._failures + 1, True
        interval = self.rhythm.interval * self._looker.stretch()
        pause = back_off_seconds(interval, self._failures, error, self._clock.now())
        self._due = self._clock.monotonic() + pause
        return FinishedPoll(self.project, self.watch, found, error, self._failures)


def back_off_seconds(interval: float, failures: int, error: Exception, now: datetime) -> float:
    """How long to leave a repository alone: as long as GitHub says, or twice the last time."""
    until = getattr(error, "until", None) if isinstance(error, HostlerError) else None
    told = (until - now).total_seconds() if isinstance(until, datetime) else 0.0
    return max(told, backoff(failures - 1, interval, max(MAX_BACK_OFF_SECONDS, interval)))


def own_budget_pause(error: Exception, now: datetime) -> float | None:
    """How long our own budget holds a look back, which is no failure; None: it is one."""
    cause = poll_error_cause(error)
    if not isinstance(cause, RateLimited) or cause.status:
        return None
    return min(max((cause.until - now).total_seconds(), 1.0), MAX_BUDGET_PAUSE_SECONDS)


def poll_error_cause(error: Exception) -> Exception:
    """What lies behind a failed look."""
    return error.cause if isinstance(error, GitHubPollingError) else error


def next_in_rotation(names: Sequence[str], last: str | None, able: Collection[str]) -> str | None:
    """The first after the last one that can be looked at now; the last itself if no other can."""
    after = names.index(last) + 1 if last in names else 0
    return next((name for name in (*names[after:], *names[:after]) if name in able), None)


class RoundRobinSchedule:
    """Calls one repository per interval. Where each has its own interval, it calls nobody."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due = clock.monotonic()
        self._last: str | None = None

    def call(self, orchestrators: Sequence[RepoOrchestrator]) -> None:
        """Let the next one look, if it is time."""
        taking = [one for one in orchestrators if one.rhythm.by_turns]
        now = self._clock.monotonic()
        if not taking or now < self._due:
            return
        self._due = now + taking[0].rhythm.interval
        able = {one.project: one for one in taking if one.can_look()}
        chosen = next_in_rotation([one.project for one in taking], self._last, able)
        if chosen is not None:
            self._last = chosen
            able[chosen].hasten()

    def seconds_left(self, orchestrators: Sequence[RepoOrchestrator]) -> float | None:
        """Until the next call; None if nobody takes turns."""
        if not any(one.rhythm.by_turns for one in orchestrators):
            return None
        return max(self._due - self._clock.monotonic(), 0.0)
