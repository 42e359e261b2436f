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


def _find_leftover_checkouts(house: AppContext) -> list[Task]:
    """Tasks that are over and still have a checkout. Costs as much as there are checkouts."""
    return [task for task in _tasks_with_checkout(house) if task.state in CLEANABLE_STATES]


def _remove_checkout(
    house: AppContext,
    desks: RepoContexts,
    task: Task,
    told: Callable[[Task, HostlerError | None], None],
) -> None:
    """Remove a task's checkout; what cannot be removed stays, and its reason is told."""
    with house.store.read() as tx:
        present = find_task(tx, task.id)
        if (
            present is None
            or present.state not in CLEANABLE_STATES
            or open_runs(tx, task_id=task.id)
        ):
            return
    if not task.branch:
        return  # it never began
    try:
        desk = desks.of(task.project)
        checkout = desk.checkout(task)
        if not checkout.path.exists():
            return
        save_and_remove(checkout, desk.identity)
    except FileNotFoundError:
        return  # somebody deletes the task, and was faster
    except HostlerError as error:
        told(task, error)
    else:
        told(task, None)


def _tasks_with_checkout(house: AppContext) -> Iterator[Task]:
    for folder in _list_checkouts(house.checkouts):
        with house.store.read() as tx:
            task = find_task(tx, folder.name)
        if task is not None and task.project == folder.parent.name:
            yield task


def _list_checkouts(checkouts: Path) -> list[Path]:
    try:
        return sorted(path for path in checkouts.glob("*/*") if not path.name.startswith("."))
    except OSError:
        return []


_RECORD_SCOPE = "records"
# A pool that stays as it is makes a sample so often: who reads them sees that somebody looked.
MAX_SAMPLE_AGE = timedelta(minutes=10)


def _build_sample(pool: PoolStatus, now: datetime) -> PoolSample:
    """A pool as it is."""
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
    """Samples that say something new, after those that were kept lately, oldest first. Pure."""
    last = {one.pool: replace(one, at="") for one in recent}
    return [one for one in seen if last.get(one.pool) != replace(one, at="")]


class StatusRecorder:
    """Writes it down; where nothing is new, it writes nothing."""

    def __init__(self, store: Store, policies: PolicyCache) -> None:
        self._store = store
        self._policies = policies

    def record(self, polls: Mapping[str, Polls]) -> None:
        """Note the pools, and looks by project."""
        policy, here = self._policies.current(), read_host()
        with self._store.read() as tx:
            now = tx.now()
            seen = [_build_sample(pool, now) for pool in status(tx, policy, here).pools]
            kept = select_new_samples(
                seen, samples_since(tx, format_timestamp(now - MAX_SAMPLE_AGE))
            )
        if not kept and not polls:
            return
        # Losing the last of it in a power cut does no harm.
        with self._store.write(_RECORD_SCOPE, relaxed=True) as tx:
            if kept:
                add_samples(tx, kept)
            for project, more in polls.items():
                add_polls(tx, project, more)


def _is_on_time(lag: float, interval: float) -> bool:
    """Whether a look was over before the next one of its interval would have been due."""
    return lag <= interval


def _count_poll(look: FinishedPoll, interval: float, at: str) -> Polls:
    """One look that is over. One that did not see all is failed, however fast it was."""
    failed = look.error is not None
    late = not failed and not _is_on_time(look.lag, interval)
    return Polls(1, int(late), int(failed), look.lag, look.lag, at, look.lag)


class PollCounter:
    """Counts until somebody takes the numbers away to store them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._counted: dict[str, Polls] = {}
        # Those of which it is stored that they are late: once they are not, that is news.
        self._late: set[str] = set()

    def note(self, look: FinishedPoll, interval: float) -> None:
        """A look is over."""
        one = _count_poll(look, interval, format_timestamp(self._clock.now()))
        with self._guard:
            self._counted[look.project] = self._counted.get(look.project, Polls()) + one

    def take(self, orchestrators: Iterable[RepoOrchestrator]) -> dict[str, Polls]:
        """What was counted since the last time, and who is late now. Empty: nothing to store."""
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
        if _is_on_time(waiting, orchestrator.rhythm.interval):
            return ""
        return format_timestamp(self._clock.now() - timedelta(seconds=waiting))


PRUNE_SECONDS = 60.0
QUESTION_SECONDS = 2.0
DONE_FILE_SECONDS = 2.0


class Maintenance:
    """Called once a turn; whatever may take its time goes to an I/O thread."""

    def __init__(
        self,
        house: AppContext,
        desks: RepoContexts,
        bulletin: BusNotifier,
        questions: QuestionForwarder,
        journal: ServiceLog,
        io: Executor,
        clock: Clock,
        policies: PolicyCache,
    ) -> None:
        self._house = house
        self._desks = desks
        self._bulletin = bulletin
        self._journal = journal
        self._io = io
        self._clock = clock
        self._policies = policies
        self._caps = AdaptivePoolReporter(house.store, policies, journal)
        self._recorder = StatusRecorder(house.store, policies)
        self._questions = questions
        self._begun = False
        self._marks = DoneFileWatcher(house)
        self._asking = self._marking = False
        self._prune_at = self._carry_at = self._mark_at = clock.monotonic()
        self._leaving = False

    def do(self) -> None:
        """Everything that is due."""
        self._prune()
        self._caps.look()
        self._tell_needs()
        self._carry_questions()
        self._heed_marks()

    def seconds_left(self) -> float:
        """Until something is due by itself."""
        now = self._clock.monotonic()
        waits = [self._prune_at - now]
        if self._asking:
            waits.append(self._carry_at - now)
        if self._marking:
            waits.append(self._mark_at - now)
        return max(min(waits), 0.0)

    def after(self, look: FinishedPoll) -> None:
        """What follows from a look at a repository: words for agents, checkouts to remove."""
        if look.found is None:
            return
        if look.found.taken.events:
            self._submit(self._bulletin.post_comments, look.found.taken.events)
        for name in look.found.taken.changed:
            with self._house.store.read() as tx:
                task = find_task(tx, name)
            if task is not None and task.over:
                self._submit(self._clean, task)

    def tell_clear(self, task: Task) -> None:
        """What a task waited for is ready, and it has begun."""
        self._submit(self._bulletin.fact, task, describe_blockers(()))

    def record(self, polls: Mapping[str, Polls]) -> None:
        """Write down how pools are, and these looks."""
        self._submit(self._recorder.record, polls)

    def clean_leftovers(self) -> None:
        """Checkouts that an earlier service could not remove."""

        def clean_all() -> None:
            for task in _find_leftover_checkouts(self._house):
                self._clean(task)

        self._submit(clean_all)

    def leave(self) -> None:
        """Begin nothing any more."""
        self._leaving = True

    def _prune(self) -> None:
        """Once a minute: what the dead held is free, and what the living hold is seen."""
        now = self._clock.monotonic()
        if now < self._prune_at:
            return
        self._prune_at = now + PRUNE_SECONDS
        self._policies.tidy()
        here, policy = read_host(), self._policies.current()
        with self._house.store.write("admission", relaxed=True) as tx:
            prune(tx, policy, here)

    def _tell_needs(self) -> None:
        """Say on the bus of a task what it waits for, when that changes."""
        for told in store_blocker_changes(self._house.store):
            tell = (
                self._bulletin.fact if told.news is BlockerChange.CLEAR else self._bulletin.progress
            )
            self._submit(tell, told.task, told.text)

    def _carry_questions(self) -> None:
        """While agents of issues are at work, their buses are looked at every two seconds."""
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
        """While tasks by hand wait, their marks are looked at every two seconds."""
        now = self._clock.monotonic()
        self._marking = self._marks.has_waiting_tasks()
        if now < self._mark_at or not self._marking:
            return
        self._mark_at = now + DONE_FILE_SECONDS
        self._submit(self._marks.check)

    def _clean(self, task: Task) -> None:
        if not self._leaving:
            _remove_checkout(self._house, self._desks, task, self._journal.cleaned)

    def _submit(self, act: Callable[..., object], *words: object) -> None:
        def guarded() -> None:
            try:
                act(*words)
            except Exception as error:  # a chore that breaks is no reason to stop working
                self._journal.broke(error)

        with suppress(RuntimeError):  # the executor is closed: we are leaving
            self._io.submit(guarded)
