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
    """Thread pools for polls, slow polls and maintenance, so that none delays another."""

    def __init__(self) -> None:
        self._looks = ThreadPoolExecutor(POLL_THREADS, thread_name_prefix="look")
        self._slow = ThreadPoolExecutor(SLOW_POLL_THREADS, thread_name_prefix="slow-look")
        self.maintenance = ThreadPoolExecutor(_MAINTENANCE_THREADS, thread_name_prefix="chore")

    def submit_poll(self, act: Callable[[], T], *, slow: bool) -> Future[T]:
        """Run a poll on a thread. Slow polls have their own threads."""
        return (self._slow if slow else self._looks).submit(act)

    def close(self) -> None:
        """Stop without waiting for running work."""
        for lane in (self._looks, self._slow, self.maintenance):
            lane.shutdown(wait=False, cancel_futures=True)


MAX_BACK_OFF_SECONDS = 600.0
# GitHub's rate limits are per hour.
MAX_BUDGET_PAUSE_SECONDS = 3600.0
# A repository whose last poll took longer is polled on the threads for slow polls.
_SLOW_POLL_SECONDS = 5.0
# Minimum pause after a long poll, as a share of the interval.
_MIN_PAUSE_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class FinishedPoll:
    """The result of a poll. `failures` counts failed polls in a row."""

    project: str
    watch: RepoPolicy
    found: PollResult | None
    error: Exception | None = None
    failures: int = 0
    # Hostler's own request budget ended the poll early; GitHub denied nothing.
    held: bool = False
    # Seconds from when the poll was due until it ended.
    lag: float = 0.0


@dataclass(frozen=True, slots=True)
class TimedPoll:
    """The result and duration of a poll, without the wait for a thread."""

    found: PollResult
    seconds: float


class FinishedWorkReaper(Protocol):
    """A worker pool that forgets finished jobs."""

    def reap(self, project: str) -> int:
        """Forget finished jobs of a project; return their number."""
        ...


class SupportsPoll(Protocol):
    """Polls one repository."""

    @property
    def watch(self) -> RepoPolicy: ...
    def poll(self) -> PollResult: ...
    def stretch(self) -> float: ...


class PollExecutor(Protocol):
    """Runs polls on threads."""

    def submit_poll(self, act: Callable[[], TimedPoll], *, slow: bool) -> Future[TimedPoll]: ...


@dataclass(frozen=True, slots=True)
class PollSchedule:
    """The interval of polls. With `round_robin`, a repository is polled only when it is called."""

    interval: float
    round_robin: bool = False


@dataclass(frozen=True, slots=True)
class PollDeps:
    """What all repositories share. `wake` triggers an iteration, `enqueue` starts waiting tasks."""

    threads: PollExecutor
    wake: Callable[[], None]
    enqueue: Callable[[], None]


class RepoOrchestrator:
    """Schedules the polls of one repository. `poll_once` never blocks."""

    def __init__(
        self, poller: SupportsPoll, schedule: PollSchedule, deps: PollDeps, clock: Clock
    ) -> None:
        self.project = poller.watch.project
        self.watch = poller.watch
        self.schedule = schedule
        self._poller = poller
        self._deps = deps
        self._clock = clock
        self._poll: Future[TimedPoll] | None = None
        self._begun = self._due = self._was_due = clock.monotonic()
        # When an immediate poll was requested.
        self._asked: float | None = None
        self._slow = False
        self._failures = 0
        self._held = False
        # Number of polls that have ended, successful or not.
        self.finished_polls = 0

    def poll_once(
        self, pool: FinishedWorkReaper, *, allow_enqueue: bool = True
    ) -> FinishedPoll | None:
        """Reap, process a finished poll, start a due one, and enqueue."""
        pool.reap(self.project)
        over = self._collect()
        if self._poll is None and self._is_due():
            self._begin()
        if allow_enqueue:
            self._deps.enqueue()
        return over

    def seconds_left(self) -> float | None:
        """Return in how many seconds a poll is due; None: after an event."""
        if self._poll is not None:
            return None
        if self._asked is not None:
            return 0.0
        return None if self.schedule.round_robin else max(self._due - self._clock.monotonic(), 0.0)

    def poll_soon(self) -> None:
        """Poll as soon as the running poll, if any, has ended."""
        if self._asked is None:
            self._asked = self._clock.monotonic()

    def waiting(self) -> float:
        """Return for how many seconds a poll has been due that has not ended."""
        if self._poll is None and not self._is_due():
            return 0.0
        due = self._was_due if self._poll is not None else self._due_since()
        return max(self._clock.monotonic() - due, 0.0)

    @property
    def is_incomplete(self) -> bool:
        """Whether the last poll failed or was ended early by the request budget."""
        return self._failures > 0 or self._held

    def can_poll(self) -> bool:
        """Return True if no poll is running and no back-off is active."""
        return self._poll is None and self._clock.monotonic() >= self._due

    def take_over_from(self, before: RepoOrchestrator) -> None:
        """Continue for the orchestrator that was built from earlier settings."""
        self._poll, self._begun = before._poll, before._begun
        self._was_due = before._was_due
        self._slow, self._failures, self._held = before._slow, before._failures, before._held
        self.finished_polls = before.finished_polls
        if self.watch == before.watch:
            self._due, self._asked = before._due, before._asked
        if before._poll is not None:
            before._poll.add_done_callback(lambda _: self._deps.wake())

    def _is_due(self) -> bool:
        if self._asked is not None:
            return True
        return not self.schedule.round_robin and self._clock.monotonic() >= self._due

    def _due_since(self) -> float:
        """Return when the due poll became due: by its interval or by request."""
        own = None if self.schedule.round_robin else self._due
        return min(one for one in (self._asked, own) if one is not None)

    def _begin(self) -> None:
        self._was_due, self._asked = self._due_since(), None
        self._begun = self._clock.monotonic()
        self._poll = self._deps.threads.submit_poll(self._timed_poll, slow=self._slow)
        self._poll.add_done_callback(lambda _: self._deps.wake())

    def _timed_poll(self) -> TimedPoll:
        """Poll and measure, on a poll thread."""
        begun = self._clock.monotonic()
        return TimedPoll(self._poller.poll(), self._clock.monotonic() - begun)

    def _collect(self) -> FinishedPoll | None:
        if self._poll is None or not self._poll.done():
            return None
        done, self._poll = self._poll, None
        self.finished_polls += 1
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
        self._failures, self._held, self._due = 0, False, self._next_due()
        return FinishedPoll(self.project, self.watch, found)

    def _next_due(self) -> float:
        """Return when the next poll is due: an interval after the last start, or after a pause."""
        now, schedule = self._clock.monotonic(), self.schedule
        if schedule.round_robin:
            return now
        interval = schedule.interval * self._poller.stretch()
        return max(self._begun + interval, now + _MIN_PAUSE_SHARE * interval)

    def _failed(self, found: PollResult | None, error: Exception) -> FinishedPoll:
        """Back off after a failed poll; report what was received all the same."""
        if (wait := own_budget_pause(error, self._clock.now())) is not None:
            self._held, self._due = True, self._clock.monotonic() + wait
            return FinishedPoll(self.project, self.watch, found, error, held=True)
        self._held = False
        if found is not None and found.partly:
            # One failing list must not delay the others.
            self._failures, self._due = self._failures + 1, self._next_due()
            return FinishedPoll(self.project, self.watch, found, error, self._failures)
        self._failures, self._slow = self._failures + 1, True
        interval = self.schedule.interval * self._poller.stretch()
        pause = back_off_seconds(interval, self._failures, error, self._clock.now())
        self._due = self._clock.monotonic() + pause
        return FinishedPoll(self.project, self.watch, found, error, self._failures)


def back_off_seconds(interval: float, failures: int, error: Exception, now: datetime) -> float:
    """Return the pause after failed polls: as long as GitHub says, or doubled each time."""
    until = getattr(error, "until", None) if isinstance(error, HostlerError) else None
    told = (until - now).total_seconds() if isinstance(until, datetime) else 0.0
    return max(told, backoff(failures - 1, interval, max(MAX_BACK_OFF_SECONDS, interval)))


def own_budget_pause(error: Exception, now: datetime) -> float | None:
    """Return the pause if the request budget ended the poll; None: it is a failure."""
    cause = poll_error_cause(error)
    if not isinstance(cause, RateLimited) or cause.status:
        return None
    return min(max((cause.until - now).total_seconds(), 1.0), MAX_BUDGET_PAUSE_SECONDS)


def poll_error_cause(error: Exception) -> Exception:
    """Return the cause of a failed poll."""
    return error.cause if isinstance(error, GitHubPollingError) else error


def next_in_rotation(names: Sequence[str], last: str | None, able: Collection[str]) -> str | None:
    """Return the next name after `last` that can be polled; `last` itself if no other can."""
    after = names.index(last) + 1 if last in names else 0
    return next((name for name in (*names[after:], *names[:after]) if name in able), None)


class RoundRobinSchedule:
    """Polls one repository per interval, in turn. Inactive if each has its own interval."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due = clock.monotonic()
        self._last: str | None = None

    def call(self, orchestrators: Sequence[RepoOrchestrator]) -> None:
        """Trigger the next poll if it is due."""
        taking = [one for one in orchestrators if one.schedule.round_robin]
        now = self._clock.monotonic()
        if not taking or now < self._due:
            return
        self._due = now + taking[0].schedule.interval
        able = {one.project: one for one in taking if one.can_poll()}
        chosen = next_in_rotation([one.project for one in taking], self._last, able)
        if chosen is not None:
            self._last = chosen
            able[chosen].poll_soon()

    def seconds_left(self, orchestrators: Sequence[RepoOrchestrator]) -> float | None:
        """Return in how many seconds a poll is due; None if this schedule is inactive."""
        if not any(one.schedule.round_robin for one in orchestrators):
            return None
        return max(self._due - self._clock.monotonic(), 0.0)
