"""Periodic maintenance: prune leases, record pools and polls, remove checkouts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from hostler.checkouts.cleanup import save_and_remove
from hostler.clock import Clock
from hostler.errors import HostlerError
from hostler.governor.holders import prune, read_host
from hostler.governor.status import PoolStatus, status
from hostler.model import format_timestamp
from hostler.planner.dependencies import describe_blockers
from hostler.planner.queue import BlockerChange
from hostler.service.context import AppContext
from hostler.service.polling.orchestrator import FinishedPoll, RepoOrchestrator
from hostler.service.pool_admin import AdaptivePoolReporter, PolicyCache
from hostler.service.repositories import RepoContexts
from hostler.service.running.bus_messages import BusNotifier, QuestionForwarder
from hostler.service.running.run_state import DoneFileWatcher
from hostler.service.scheduling.gates import store_blocker_changes
from hostler.service.service_log import ServiceLog
from hostler.store import Store
from hostler.store.governor import PoolSample, add_samples, samples_since
from hostler.store.repositories import Polls, add_polls
from hostler.store.runs import open_runs
from hostler.store.tasks import Task, TaskState, find_task

# A failed task waits for the operator, who may start it again in its checkout.
CLEANABLE_STATES = frozenset({TaskState.DONE, TaskState.STOPPED})


def _find_leftover_checkouts(app: AppContext) -> list[Task]:
    """Return tasks that are over and still have a checkout. Reads every checkout."""
    return [task for task in _tasks_with_checkout(app) if task.state in CLEANABLE_STATES]


def _remove_checkout(
    app: AppContext,
    repo_contexts: RepoContexts,
    task: Task,
    told: Callable[[Task, HostlerError | None], None],
) -> None:
    """Remove a task's checkout, or report why it is kept."""
    with app.store.read() as tx:
        present = find_task(tx, task.id)
        if (
            present is None
            or present.state not in CLEANABLE_STATES
            or open_runs(tx, task_id=task.id)
        ):
            return
    if not task.branch:
        return  # it never started
    try:
        repo_context = repo_contexts.of(task.project)
        checkout = repo_context.checkout(task)
        if not checkout.path.exists():
            return
        save_and_remove(checkout, repo_context.identity)
    except FileNotFoundError:
        return  # a command deleted the task at the same time
    except HostlerError as error:
        told(task, error)
    else:
        told(task, None)


def _tasks_with_checkout(app: AppContext) -> Iterator[Task]:
    for folder in _list_checkouts(app.checkouts):
        with app.store.read() as tx:
            task = find_task(tx, folder.name)
        if task is not None and task.project == folder.parent.name:
            yield task


def _list_checkouts(checkouts: Path) -> list[Path]:
    try:
        return sorted(path for path in checkouts.glob("*/*") if not path.name.startswith("."))
    except OSError:
        return []


_RECORD_SCOPE = "records"
# An unchanged pool is sampled this often: a reader sees that the service was running.
MAX_SAMPLE_AGE = timedelta(minutes=10)


def _build_sample(pool: PoolStatus, now: datetime) -> PoolSample:
    """Return a sample of a pool."""
    known = pool.learned
    return PoolSample(
        pool=pool.pool,
        at=format_timestamp(now),
        ceiling=known.config.hard_max if known else pool.config.max_global,
        cap=pool.cap,
        active=pool.active,
        breaker=(known.state.breaker_state.value if known else "") or "closed",
        parked=pool.parked is not None,
    )


def select_new_samples(
    seen: Sequence[PoolSample], recent: Sequence[PoolSample]
) -> list[PoolSample]:
    """Return the samples that differ from the recent ones. `recent` is oldest first. Pure."""
    last = {one.pool: replace(one, at="") for one in recent}
    return [one for one in seen if last.get(one.pool) != replace(one, at="")]


class StatusRecorder:
    """Stores samples of pools and counts of polls, if there is anything new."""

    def __init__(self, store: Store, policies: PolicyCache) -> None:
        self._store = store
        self._policies = policies

    def record(self, polls: Mapping[str, Polls]) -> None:
        """Store samples of all pools, and the polls of each project."""
        policy, here = self._policies.current(), read_host()
        with self._store.read() as tx:
            now = tx.now()
            seen = [_build_sample(pool, now) for pool in status(tx, policy, here).pools]
            kept = select_new_samples(
                seen, samples_since(tx, format_timestamp(now - MAX_SAMPLE_AGE))
            )
        if not kept and not polls:
            return
        # Losing the last records in a power cut does no harm.
        with self._store.write(_RECORD_SCOPE, relaxed=True) as tx:
            if kept:
                add_samples(tx, kept)
            for project, more in polls.items():
                add_polls(tx, project, more)


def _is_on_time(lag: float, interval: float) -> bool:
    """Return True if a poll ended before the next one was due."""
    return lag <= interval


def _count_poll(poll: FinishedPoll, interval: float, at: str) -> Polls:
    """Count one finished poll. An incomplete poll counts as failed."""
    failed = poll.error is not None
    late = not failed and not _is_on_time(poll.lag, interval)
    return Polls(1, int(late), int(failed), poll.lag, poll.lag, at, poll.lag)


class PollCounter:
    """Counts polls until they are stored."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._counted: dict[str, Polls] = {}
        # Projects stored as late: when they no longer are, this is stored too.
        self._late: set[str] = set()

    def note(self, poll: FinishedPoll, interval: float) -> None:
        """Count a finished poll."""
        one = _count_poll(poll, interval, format_timestamp(self._clock.now()))
        with self._guard:
            self._counted[poll.project] = self._counted.get(poll.project, Polls()) + one

    def take(self, orchestrators: Iterable[RepoOrchestrator]) -> dict[str, Polls]:
        """Return and reset the counts, with the projects that are late now."""
        late = {one.project: self._late_since(one) for one in orchestrators}
        with self._guard:
            found, self._counted = self._counted, {}
        told = {*found, *self._late, *(project for project, since in late.items() if since)}
        self._late = {project for project, since in late.items() if since}
        return {
            project: found.get(project, Polls()) + Polls(late_since=late.get(project, ""))
            for project in sorted(told)
        }

    def _late_since(self, orchestrator: RepoOrchestrator) -> str:
        waiting = orchestrator.waiting()
        if _is_on_time(waiting, orchestrator.schedule.interval):
            return ""
        return format_timestamp(self._clock.now() - timedelta(seconds=waiting))


PRUNE_SECONDS = 60.0
QUESTION_SECONDS = 2.0
DONE_FILE_SECONDS = 2.0


class Maintenance:
    """Runs periodic work. Slow work runs on an I/O thread."""

    def __init__(
        self,
        app: AppContext,
        repo_contexts: RepoContexts,
        bus_notifier: BusNotifier,
        questions: QuestionForwarder,
        service_log: ServiceLog,
        io: Executor,
        clock: Clock,
        policies: PolicyCache,
    ) -> None:
        self._app = app
        self._repo_contexts = repo_contexts
        self._bus_notifier = bus_notifier
        self._service_log = service_log
        self._io = io
        self._clock = clock
        self._policies = policies
        self._caps = AdaptivePoolReporter(app.store, policies, service_log)
        self._recorder = StatusRecorder(app.store, policies)
        self._questions = questions
        self._begun = False
        self._marks = DoneFileWatcher(app)
        self._asking = self._marking = False
        self._prune_at = self._carry_at = self._mark_at = clock.monotonic()
        self._leaving = False

    def run_due(self) -> None:
        """Run everything that is due."""
        self._prune()
        self._caps.report_changes()
        self._tell_needs()
        self._carry_questions()
        self._heed_marks()

    def seconds_left(self) -> float:
        """Return in how many seconds something is due."""
        now = self._clock.monotonic()
        waits = [self._prune_at - now]
        if self._asking:
            waits.append(self._carry_at - now)
        if self._marking:
            waits.append(self._mark_at - now)
        return max(min(waits), 0.0)

    def after_poll(self, poll: FinishedPoll) -> None:
        """After a poll, pass comments on to agents and remove checkouts of finished tasks."""
        if poll.found is None:
            return
        if poll.found.taken.events:
            self._submit(self._bus_notifier.post_comments, poll.found.taken.events)
        for name in poll.found.taken.changed:
            with self._app.store.read() as tx:
                task = find_task(tx, name)
            if task is not None and task.over:
                self._submit(self._clean, task)

    def report_unblocked(self, task: Task) -> None:
        """Report on the bus of a task that its dependencies are ready."""
        self._submit(self._bus_notifier.fact, task, describe_blockers(()))

    def record(self, polls: Mapping[str, Polls]) -> None:
        """Store samples of pools, and these polls."""
        self._submit(self._recorder.record, polls)

    def clean_leftovers(self) -> None:
        """Remove checkouts that an earlier service could not remove."""

        def clean_all() -> None:
            for task in _find_leftover_checkouts(self._app):
                self._clean(task)

        self._submit(clean_all)

    def leave(self) -> None:
        """Start no more work."""
        self._leaving = True

    def _prune(self) -> None:
        """Once a minute, release leases of processes that have ended."""
        now = self._clock.monotonic()
        if now < self._prune_at:
            return
        self._prune_at = now + PRUNE_SECONDS
        self._policies.tidy()
        here, policy = read_host(), self._policies.current()
        with self._app.store.write("admission", relaxed=True) as tx:
            prune(tx, policy, here)

    def _tell_needs(self) -> None:
        """Report changed blockers of a task on its bus."""
        for told in store_blocker_changes(self._app.store):
            tell = (
                self._bus_notifier.fact
                if told.change is BlockerChange.CLEAR
                else self._bus_notifier.progress
            )
            self._submit(tell, told.task, told.text)

    def _carry_questions(self) -> None:
        """While agents of issues run, forward questions from their buses to GitHub."""
        now = self._clock.monotonic()
        if not self._begun:
            self._begun = True
            self._submit(self._questions.forward_unfinished)
        self._asking = bool(self._questions.tasks_with_agents())
        if now < self._carry_at or not self._asking:
            return
        self._carry_at = now + QUESTION_SECONDS
        self._submit(self._questions.forward)

    def _heed_marks(self) -> None:
        """While manual tasks wait, read their DONE files."""
        now = self._clock.monotonic()
        self._marking = self._marks.has_waiting_tasks()
        if now < self._mark_at or not self._marking:
            return
        self._mark_at = now + DONE_FILE_SECONDS
        self._submit(self._marks.check)

    def _clean(self, task: Task) -> None:
        if not self._leaving:
            _remove_checkout(self._app, self._repo_contexts, task, self._service_log.cleaned)

    def _submit(self, act: Callable[..., object], *words: object) -> None:
        def guarded() -> None:
            try:
                act(*words)
            except Exception as error:  # the service continues without this work
                self._service_log.broke(error)

        with suppress(RuntimeError):  # the executor is closed: the service is shutting down
            self._io.submit(guarded)
