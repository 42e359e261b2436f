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
    """Tokens for work. Adopted work takes one by force; then nobody gets one until it is repaid."""

    def __init__(self, capacity: int) -> None:
        self._taken = 0
        self._lock = threading.Lock()
        self.resize(capacity)

    def resize(self, capacity: int) -> None:
        """So many tokens from now on. Those in use stay; nobody gets one until below."""
        if capacity < 1:
            raise ValueError(f"a capacity of {capacity} would let nothing run")
        with self._lock:
            self._capacity = capacity

    def try_acquire(self) -> bool:
        """A token, if there is one."""
        with self._lock:
            if self._taken >= self._capacity:
                return False
            self._taken += 1
            return True

    def force(self) -> None:
        """A token for work that is under way already."""
        with self._lock:
            self._taken += 1

    def release(self) -> None:
        """Give a token back."""
        with self._lock:
            if not self._taken:
                raise RuntimeError("a token was given back that nobody took")
            self._taken -= 1

    def in_flight(self) -> int:
        """Tokens in use."""
        with self._lock:
            return self._taken

    def capacity(self) -> int:
        """Tokens in all."""
        with self._lock:
            return self._capacity


_MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class WorkerJob:
    """A run, or a task whose last part is ours alone. `again` is what a second try does."""

    name: str
    project: str
    act: Callable[[], object]
    again: Callable[[], object]
    tries: int = 0


class SubmitGuard:
    """What a worker needs to begin: an executor that fails may have queued the work even so."""

    __slots__ = ("void",)

    def __init__(self) -> None:
        self.void = False


class WorkerPool:
    """Who works on what. The callbacks are called from the workers' threads."""

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
        # Everybody at work, and those who are through and not reaped yet.
        self._pending: dict[str, tuple[str, Future[None]]] = {}
        self._lent: set[str] = set()
        self._later: dict[str, tuple[float, WorkerJob]] = {}

    def start(self, job: WorkerJob) -> None:
        """Put somebody to work. The caller has taken a token of the limiter for it.

        If there is no thread to be had, the token is free again, and it is tried once more later.
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

    def lend(self, name: str) -> bool:
        """Whoever works on this waits for others: its token is free; whether that is new."""
        with self._lock:
            if name in self._lent or not self._is_at_work(name):
                return False
            self._lent.add(name)
        self._limiter.release()
        self._freed()
        return True

    def regain(self, name: str) -> None:
        """It works again, with the token that the caller has taken for it."""
        with self._lock:
            known = name in self._lent
            self._lent.discard(name)
        if not known:
            self._limiter.release()

    def start_due(self) -> float | None:
        """Try again what is due; in how many seconds the next will be."""
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
        """Count who is through no more, of one project or of all; how many there were."""
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
        """What is worked on, will be again, or is not reaped yet."""
        return len(self.names())

    def names(self) -> set[str]:
        """Everything that is worked on, or will be again."""
        with self._lock:
            return self._pending.keys() | self._later.keys()

    def futures(self) -> list[Future[None]]:
        """Everybody at work."""
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
            return  # we are leaving: whoever comes next goes on from here
        except (FenceLost, RunNotVisible) as error:
            self._troubled(job, error)  # it is somebody else's, or nobody's to end
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
        # Its token is free at once; it is pending until the scheduler has seen that it is over.
        with self._lock:
            lent = job.name in self._lent
            self._lent.discard(job.name)
        if not lent:
            self._limiter.release()
        self._freed()
