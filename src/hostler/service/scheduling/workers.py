"""The worker pool: a limit for the whole process, and threads that retry with back-off."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from hostler.backoff import backoff
from hostler.checkouts.process import Halted
from hostler.clock import Clock
from hostler.runs.states import FenceLost, RunNotVisible, WatchClosed


class GlobalWorkLimiter:
    """A number of tokens for work. Adopted work takes one even above the capacity."""

    def __init__(self, capacity: int) -> None:
        self._taken = 0
        self._lock = threading.Lock()
        self.resize(capacity)

    def resize(self, capacity: int) -> None:
        """Change the capacity. Tokens in use stay valid."""
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        with self._lock:
            self._capacity = capacity

    def try_acquire(self) -> bool:
        """Take a token. Return False if there is none."""
        with self._lock:
            if self._taken >= self._capacity:
                return False
            self._taken += 1
            return True

    def force(self) -> None:
        """Take a token above the capacity if need be, for work that is already running."""
        with self._lock:
            self._taken += 1

    def release(self) -> None:
        """Return a token."""
        with self._lock:
            if not self._taken:
                raise RuntimeError("a token was released that had not been acquired")
            self._taken -= 1

    def in_flight(self) -> int:
        """Return the number of tokens in use."""
        with self._lock:
            return self._taken

    def capacity(self) -> int:
        """Return the number of tokens."""
        with self._lock:
            return self._capacity


_MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """Work on a run, or on finishing a task. `again` is called for retries."""

    name: str
    project: str
    act: Callable[[], object]
    again: Callable[[], object]
    tries: int = 0


class SubmitGuard:
    """Marks a submitted job as void: an executor that fails may have queued it anyway."""

    __slots__ = ("void",)

    def __init__(self) -> None:
        self.void = False


class WorkerPool:
    """The worker threads, with retries. Callbacks are called from the threads of the workers."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        limiter: GlobalWorkLimiter,
        clock: Clock,
        *,
        ended: Callable[[WorkerJob], None],
        troubled: Callable[[WorkerJob, BaseException], None],
        freed: Callable[[], None],
    ) -> None:
        self._pool = pool
        self._limiter = limiter
        self._clock = clock
        self._ended = ended
        self._troubled = troubled
        self._freed = freed
        self._lock = threading.Lock()
        # Jobs that are running, or have finished and are not reaped yet.
        self._pending: dict[str, tuple[str, Future[None]]] = {}
        self._lent: set[str] = set()
        self._later: dict[str, tuple[float, WorkerJob]] = {}

    def start(self, job: WorkerJob) -> None:
        """Start a job. The caller has acquired a token for it.

        If no thread can be started, the token is released and the job is retried later.
        """
        ticket = SubmitGuard()
        try:
            with self._lock:
                future = self._submit(job, ticket)
                self._pending[job.name] = (job.project, future)
        except Exception as error:
            self._limiter.release()
            self._troubled(job, error)
            self._again(job)
            return
        future.add_done_callback(lambda done: self._over(job, done))

    def _submit(self, job: WorkerJob, ticket: SubmitGuard) -> Future[None]:
        try:
            return self._pool.submit(self._work, job, ticket)
        except BaseException:
            # The lock is ours: whoever finds it in the queue looks at the ticket after us.
            ticket.void = True
            raise

    def adopt(self, job: WorkerJob) -> None:
        """Put somebody to work on what is under way already: a token is taken by force."""
        self._limiter.force()
        self.start(job)

    def release_token(self, name: str) -> bool:
        """Whoever works on this waits for others: its token is free; whether that is new."""
        with self._lock:
            if name in self._lent or not self._is_at_work(name):
                return False
            self._lent.add(name)
        self._limiter.release()
        self._freed()
        return True

    def retake_token(self, name: str) -> None:
        """It works again, with the token that the caller has taken for it."""
        with self._lock:
            known = name in self._lent
            self._lent.discard(name)
        if not known:
            self._limiter.release()

    def start_due(self) -> float | None:
        """Start due retries; return in how many seconds the next one is due."""
        now = self._clock.monotonic()
        with self._lock:
            due = [job for at, job in self._later.values() if at <= now]
        for job in due:
            with self._lock:
                del self._later[job.name]
            self.adopt(job)
        with self._lock:
            return min((at - now for at, _ in self._later.values()), default=None)

    def reap(self, project: str | None = None) -> int:
        """Forget finished jobs of one project, or of all; return their number."""
        with self._lock:
            through = [
                name
                for name, (of, future) in self._pending.items()
                if project in (None, of) and future.done()
            ]
            for name in through:
                del self._pending[name]
        return len(through)

    def pending(self) -> int:
        """Return the number of jobs that run, will be retried, or are not reaped yet."""
        return len(self.names())

    def names(self) -> set[str]:
        """Return the names of jobs that run or will be retried."""
        with self._lock:
            return self._pending.keys() | self._later.keys()

    def futures(self) -> list[Future[None]]:
        """Return the futures of all jobs."""
        with self._lock:
            return [future for _, future in self._pending.values()]

    def _is_at_work(self, name: str) -> bool:
        found = self._pending.get(name)
        return found is not None and not found[1].done()

    def _work(self, job: WorkerJob, ticket: SubmitGuard) -> None:
        with self._lock:
            if ticket.void:
                return
        try:
            job.again() if job.tries else job.act()
        except (WatchClosed, Halted):
            return  # the service is shutting down; the next one continues here
        except (FenceLost, RunNotVisible) as error:
            self._troubled(job, error)  # another process has the run, or nothing can end it
        except BaseException as error:
            self._troubled(job, error)
            self._again(job)
        else:
            self._ended(job)

    def _again(self, job: WorkerJob) -> None:
        pause = backoff(job.tries, _MIN_RETRY_SECONDS, MAX_RETRY_SECONDS)
        with self._lock:
            at = self._clock.monotonic() + pause
            self._later[job.name] = (at, replace(job, tries=min(job.tries + 1, 20)))

    def _over(self, job: WorkerJob, _done: Future[None]) -> None:
        # The token is free at once; the job is pending until the scheduler reaps it.
        with self._lock:
            lent = job.name in self._lent
            self._lent.discard(job.name)
        if not lent:
            self._limiter.release()
        self._freed()
