"""Poll one repository: what each poll reads, in which order, and what it keeps for the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from hostler.errors import GitHubPollingError, RateLimited, Refused, ServerFailed, Unauthorized
from hostler.forge.github.polling.context import PollContext
from hostler.forge.github.polling.cursors import PollWindow, decode_chains
from hostler.forge.github.polling.full_scan import FULL_SCAN, ShadowScan, run_full_scan
from hostler.forge.github.polling.ingest import IngestCounts
from hostler.forge.github.polling.schedule import (
    OTHER_SURFACES,
    PROBE_SURFACE,
    RUNS_PAGE,
    PollCount,
    SweepSchedule,
    after_poll,
    is_full_poll_due,
    poll_phase,
)
from hostler.forge.github.polling.surfaces import (
    SurfaceResult,
    SurfaceState,
    poll_surface,
    read_surface_state,
)
from hostler.forge.github.polling.threads import (
    PULL,
    FetchedPull,
    OperationsIssue,
    ThreadRead,
    fetch_pull,
    read_issue,
    scan_thread,
    sweep_pull,
)
from hostler.forge.github.polling.workflow_runs import poll_runs, sweep_runs
from hostler.forge.outbox.queue import SettledWrite, ignore_settled
from hostler.forge.outbox.sender import OUTBOX_SCOPE
from hostler.forge.port import Forge
from hostler.model import RepoName, Surface
from hostler.store.pull_requests import PullStatus, watched_heads
from hostler.store.repositories import (
    cursors_at,
    feed_pages_of_thread,
    forget_threads,
    lapse_threads,
    list_changed_pull_requests,
    threads_in_step,
)
from hostler.store.store import Store
from hostler.store.tasks import OVER, TaskState, tasks_in
from hostler.store.transaction import Transaction
from hostler.telemetry import names

_UNFINISHED = tuple(state for state in TaskState if state not in OVER)


@dataclass(frozen=True, slots=True)
class PollState:
    """A repository's pull requests and threads, by number."""

    awaiting: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()
    # Pull requests by their current heads.
    heads: Mapping[str, int] = field(default_factory=dict)
    # Threads that were scanned and are read incrementally.
    in_step: frozenset[int] = frozenset()
    # The state of the repository's own lists.
    surface_states: Mapping[Surface, SurfaceState] = field(default_factory=dict)
    # Whether an earlier poll has left a pull request to read.
    is_due: bool = False

    @property
    def followed(self) -> list[int]:
        """Return the pull requests that are read at all."""
        return sorted(self.awaiting | self.blocked)

    @property
    def active(self) -> bool:
        """Return whether comments may come at any time."""
        return bool(self.awaiting or self.blocked)

    @property
    def unscanned(self) -> list[int]:
        """Return threads that are not scanned yet."""
        return sorted(self.awaiting - self.in_step)

    @property
    def lapsed(self) -> frozenset[int]:
        """Return threads that were followed, and are blocked or over now."""
        return self.in_step - self.awaiting


def read_poll_state(tx: Transaction, context: PollContext) -> PollState:
    """Read the state of a repository."""
    pulls = watched_heads(tx, context.repo)
    blocked = frozenset(number for number, status, _ in pulls if status is PullStatus.BLOCKED)
    return PollState(
        awaiting=frozenset(number for number, _, _ in pulls) - blocked,
        blocked=blocked,
        heads={head: number for number, _, head in sorted(pulls) if head},
        in_step=frozenset(threads_in_step(tx, context.repo)),
        surface_states=_read_surface_states(tx, context),
        is_due=bool(list_changed_pull_requests(tx, context.repo)),
    )


def _read_surface_states(tx: Transaction, context: PollContext) -> dict[Surface, SurfaceState]:
    cursors, chains = cursors_at(tx, context.repo, 0), feed_pages_of_thread(tx, context.repo, 0)
    return {
        surface: SurfaceState(
            surface, 0, cursors.get(surface), decode_chains(chains.get(surface.value, ""))
        )
        for surface in (PROBE_SURFACE, *OTHER_SURFACES, Surface.REPO_WORKFLOW_RUNS)
    }


def list_issue_threads(tx: Transaction, context: PollContext) -> dict[int, Surface]:
    """Return issues of unfinished tasks, and the surface of their conversations."""
    return {
        task.number: Surface.ISSUE_POST_PR_REDIRECTS
        if task.pr_number
        else Surface.ISSUE_PRE_PR_FOLLOWUPS
        for task in tasks_in(tx, _UNFINISHED, context.repo)
        if not task.by_hand
    }


# The maximum number of whole threads that are scanned in one poll.
MAX_THREAD_SCANS = 3
# After this many failures without a success, abort the poll: GitHub is probably down.
MAX_FAILED_PARTS = 3


@dataclass(frozen=True, slots=True)
class PollPlan:
    """The settings of polling for a repository."""

    feeds: Literal["repository", "threads"] = "repository"
    incremental: bool | Literal["shadow"] = True
    idle_every: int = 5
    # Whether workflow runs are used.
    runs: bool = False
    # The issue that takes commands without a task; 0: none.
    operations: int = 0


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The result of a poll."""

    ingested: IngestCounts = field(default_factory=IngestCounts)
    # Lists that were too long for one poll: the next poll continues there.
    unfinished: tuple[Surface, ...] = ()
    # Cursors that were invalid and were reset.
    reset: tuple[Surface, ...] = ()
    # Followed pull requests that were deleted.
    gone: tuple[int, ...] = ()
    # The repository's new name, if it was renamed.
    renamed_to: RepoName | None = None
    requests: int = 0
    active: bool = False
    # Keys of events that a full scan shows and the incremental polls missed.
    differences: tuple[str, ...] = ()
    # Why a part could not be read, if others could.
    error: GitHubPollingError | None = None


class PollCollection:
    """What a poll has found so far."""

    def __init__(self) -> None:
        self.ingested = IngestCounts()
        self.unfinished: list[Surface] = []
        self.reset: list[Surface] = []
        self.gone: list[int] = []
        # The first error; how many parts failed, and how many succeeded.
        self.error: GitHubPollingError | None = None
        self.failed = self.parts = 0

    @contextmanager
    def collect_error(self) -> Iterator[None]:
        """Record an error of one part and continue with the others.

        A rate limit, an invalid token and an unreachable host are raised: they concern all parts.
        """
        try:
            yield
        except GitHubPollingError as error:
            one = isinstance(error.cause, Refused | ServerFailed)
            if not one or isinstance(error.cause, RateLimited | Unauthorized):
                raise
            self.error = self.error or error
            self.failed += 1
            if not self.parts and self.failed >= MAX_FAILED_PARTS:
                raise

    def add_surface(self, found: SurfaceResult) -> None:
        """Add a surface that was read."""
        self.parts += 1
        self.ingested += found.ingested
        self.unfinished += () if found.reading.complete else (found.state.surface,)
        self.reset += (found.state.surface,) if found.position.invalid else ()

    def add_thread(self, number: int, found: ThreadRead) -> None:
        """Add a thread that was read."""
        self.parts += 1
        self.add_if_due(number, found)

    def add_if_due(self, number: int, found: ThreadRead) -> None:
        """Add a thread that was read if it was due."""
        self.ingested += found.ingested
        self.reset += found.reset
        self.gone += (number,) if found.gone else ()

    def add_pull(self, number: int, found: FetchedPull) -> None:
        """Add a pull request that was read."""
        self.parts += 1
        self.ingested += found.ingested
        self.gone += (number,) if found.gone else ()


def follow_rename(context: PollContext) -> RepoName | None:
    """Return the repository's new name, if it was renamed."""
    if not context.forge.was_renamed():
        return None
    with context.translate_errors(PULL):
        name = context.forge.repository().name
    return None if name == context.repo else name


class Poller:
    """Polls one repository. Lives as long as the service; one poll at a time."""

    def __init__(self, context: PollContext, plan: PollPlan | None = None) -> None:
        self._context = context
        self._plan = plan or PollPlan()
        self._poll_count = PollCount(phase=poll_phase(str(context.repo), self._plan.idle_every))
        self._shadow = ShadowScan()
        self._last_heads: Mapping[str, int] | None = None
        self._sweeper = SweepSchedule(runs=self._plan.runs)
        self._operations = OperationsIssue(context, self._plan.operations)
        # How often the first scan of a thread has failed.
        self._failed_scans: Counter[int] = Counter()

    def poll(self) -> ScanResult:
        """Read what changed. Raises `GitHubPollingError` if no part of it could be read."""
        context, found = self._context, PollCollection()
        before = context.forge.cost().requests
        context.log_event(names.INCREMENTAL_SCAN_STARTED)
        with context.store.read() as tx:
            poll_state = read_poll_state(tx, context)
        context.poll_metrics.followed = poll_state.followed
        differences: tuple[str, ...] = ()
        # First: otherwise another list would report its old comments as new.
        with found.collect_error():
            found.add_if_due(self._plan.operations, self._operations.start())
        if self._plan.incremental is False:
            self._operations.note_change()
            found.ingested += run_full_scan(context, poll_state.followed, self._list_issues())
        else:
            self._poll_incrementally(poll_state, found)
        if found.error is not None and not found.parts:
            raise found.error
        if self._plan.incremental == "shadow" and found.error is None:
            with context.translate_errors(FULL_SCAN):
                differences = self._shadow.compare(
                    context, poll_state.awaiting, self._list_issues()
                )
        result = ScanResult(
            found.ingested,
            tuple(found.unfinished),
            tuple(found.reset),
            tuple(found.gone),
            follow_rename(context),
            context.forge.cost().requests - before,
            poll_state.active,
            differences,
            found.error,
        )
        self._report_result(result)
        return result

    def _report_result(self, result: ScanResult) -> None:
        self._context.poll_metrics.record_poll()
        self._context.log_event(
            names.INCREMENTAL_SCAN_COMPLETED,
            new=result.ingested.new,
            replayed=result.ingested.replayed,
            requests=result.requests,
        )

    def _list_issues(self) -> dict[int, Surface]:
        with self._context.store.read() as tx:
            found = list_issue_threads(tx, self._context)
        if self._plan.operations:
            found.setdefault(self._plan.operations, Surface.ISSUE_OPERATOR_COMMANDS)
        return found

    def _poll_incrementally(self, poll_state: PollState, found: PollCollection) -> None:
        touched = self._poll_probe(poll_state, found)
        if touched:
            self._operations.note_change()
        threads = self._plan.feeds == "threads"
        if self._is_full_poll_due(poll_state, touched=touched):
            self._read_other_surfaces(poll_state, found, () if threads else OTHER_SURFACES)
        else:
            self._poll_count = after_poll(self._poll_count)
        if threads:
            self._read_all_threads(poll_state, found)
        else:
            self._scan_new_threads(poll_state, found)
            if touched or poll_state.is_due:
                self._fetch_moved_pulls(found)
            self._sweep_next(poll_state, found)

    def _poll_probe(self, poll_state: PollState, found: PollCollection) -> bool:
        """Return whether anything may have changed; True if unknown."""
        with found.collect_error():
            # Any content counts: a comment in the same second leaves its issue's timestamp.
            return self._poll_surface(poll_state, PROBE_SURFACE, found).reading.pages > 0
        return True

    def _read_other_surfaces(
        self, poll_state: PollState, found: PollCollection, surfaces: Sequence[Surface]
    ) -> None:
        """Read the other lists. The full poll stays due if a part failed."""
        self._poll_count = replace(self._poll_count, is_due=True)
        earlier, found.error = found.error, None
        for surface in surfaces:
            with found.collect_error():
                self._poll_surface(poll_state, surface, found)
        with found.collect_error():
            self._poll_runs(poll_state, found)
        if found.error is None:
            self._poll_count = after_poll(self._poll_count)
        found.error = earlier or found.error

    def _is_full_poll_due(self, poll_state: PollState, *, touched: bool) -> bool:
        active = poll_state.active or self._plan.incremental == "shadow"
        return is_full_poll_due(
            self._poll_count, active=active, touched=touched, every=self._plan.idle_every
        )

    def _poll_surface(
        self, poll_state: PollState, surface: Surface, found: PollCollection
    ) -> SurfaceResult:
        result = poll_surface(self._context, poll_state.surface_states[surface])
        found.add_surface(result)
        return result

    def _poll_runs(self, poll_state: PollState, found: PollCollection) -> None:
        if not self._plan.runs or not poll_state.heads:
            return
        surface_state = poll_state.surface_states[Surface.REPO_WORKFLOW_RUNS]
        same = self._last_heads == poll_state.heads
        found.add_surface(
            poll_runs(self._context, surface_state, poll_state.heads, same_heads=same)
        )
        self._last_heads = poll_state.heads

    def _sweep_runs(self, poll_state: PollState, number: int) -> IngestCounts:
        """Sweep the runs of a head: a repeated run keeps its creation time, before the cursor."""
        head = next((sha for sha, pull in poll_state.heads.items() if pull == number), None)
        return sweep_runs(self._context, number, head) if head is not None else IngestCounts()

    # -- threads ------------------------------------------------------------------------------

    def _read_all_threads(self, poll_state: PollState, found: PollCollection) -> None:
        """Read everything that is followed, each from its own cursors."""
        for number in poll_state.followed:
            with found.collect_error():
                found.add_thread(number, scan_thread(self._context, number))
        for number, surface in self._list_issues().items():
            with found.collect_error():
                found.add_thread(number, read_issue(self._context, surface, number))

    def _scan_new_threads(self, poll_state: PollState, found: PollCollection) -> None:
        """Scan a few new threads, and forget those no longer followed."""
        if poll_state.lapsed:
            over = poll_state.lapsed - poll_state.blocked
            with self._context.store.write(*self._context.scopes) as tx:
                forget_threads(tx, self._context.repo, poll_state.lapsed & poll_state.blocked)
                lapse_threads(tx, self._context.repo, over)
        # Failed ones come last.
        waiting = sorted(poll_state.unscanned, key=lambda number: self._failed_scans[number])
        for number in waiting[:MAX_THREAD_SCANS]:
            self._failed_scans[number] += 1
            with found.collect_error():
                found.add_thread(number, scan_thread(self._context, number))
                del self._failed_scans[number]

    # -- pull requests ------------------------------------------------------------------------

    def _fetch_moved_pulls(self, found: PollCollection) -> None:
        """Read the pull requests that are stored as changed, also by earlier polls."""
        with self._context.store.read() as tx:
            moved = list_changed_pull_requests(tx, self._context.repo)
        for number in moved:
            with found.collect_error():
                found.add_pull(number, fetch_pull(self._context, number))
            self._sweeper.note_move(
                number, self._context.forge.now() + self._context.window.late_visibility
            )

    def _sweep_next(self, poll_state: PollState, found: PollCollection) -> None:
        target = self._sweeper.next_target(poll_state.followed, self._context.forge.now())
        if target is None:
            return
        # Advance first: if it fails, the next poll continues with the next target.
        self._sweeper.note_sweep(target, 1)
        with found.collect_error():
            if target.page == RUNS_PAGE:
                found.ingested += self._sweep_runs(poll_state, target.number)
                return
            swept = sweep_pull(self._context, target)
            self._sweeper.note_sweep(target, swept.pages)
            found.add_pull(target.number, swept)


def scan_repository(
    store: Store,
    forge: Forge,
    repo: RepoName,
    window: PollWindow | None = None,
    *,
    pulls: Sequence[int] = (),
    settled: SettledWrite = ignore_settled,
    scopes: tuple[str, ...] = (),
) -> ScanResult:
    """Read what changed, and these pull requests. Raises `GitHubPollingError`.

    `scopes`: what `settled` writes besides the outbox.
    """
    context = PollContext(
        store, forge, repo, window or PollWindow(), settled, (OUTBOX_SCOPE, *scopes)
    )
    before, found = forge.cost().requests, PollCollection()
    for surface in (PROBE_SURFACE, *OTHER_SURFACES):
        with store.read() as tx:
            surface_state = read_surface_state(tx, context, surface)
        found.add_surface(poll_surface(context, surface_state))
    for number in pulls:
        found.add_pull(number, fetch_pull(context, number))
    return ScanResult(
        found.ingested,
        tuple(found.unfinished),
        tuple(found.reset),
        tuple(found.gone),
        follow_rename(context),
        forge.cost().requests - before,
    )
