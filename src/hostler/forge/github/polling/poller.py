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
    chains_at,
    cursors_at,
    forget_threads,
    lapse_threads,
    pulls_moved,
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
    # Pull requests by their present heads.
    heads: Mapping[str, int] = field(default_factory=dict)
    # Threads that were scanned and follow the feed.
    in_step: frozenset[int] = frozenset()
    # Where the repository's own feeds stand.
    places: Mapping[Surface, SurfaceState] = field(default_factory=dict)
    # Whether an earlier poll has left a pull request to be fetched.
    owed: bool = False

    @property
    def followed(self) -> list[int]:
        """Pull requests that are read at all."""
        return sorted(self.awaiting | self.blocked)

    @property
    def active(self) -> bool:
        """Whether somebody's word may come at any time."""
        return bool(self.awaiting or self.blocked)

    @property
    def unscanned(self) -> list[int]:
        """Threads that begin to be followed."""
        return sorted(self.awaiting - self.in_step)

    @property
    def lapsed(self) -> frozenset[int]:
        """Threads that were followed, and are blocked or over now."""
        return self.in_step - self.awaiting


def read_poll_state(tx: Transaction, tap: PollContext) -> PollState:
    """How a repository stands."""
    pulls = watched_heads(tx, tap.repo)
    blocked = frozenset(number for number, status, _ in pulls if status is PullStatus.BLOCKED)
    return PollState(
        awaiting=frozenset(number for number, _, _ in pulls) - blocked,
        blocked=blocked,
        heads={head: number for number, _, head in sorted(pulls) if head},
        in_step=frozenset(threads_in_step(tx, tap.repo)),
        places=_read_surface_states(tx, tap),
        owed=bool(pulls_moved(tx, tap.repo)),
    )


def _read_surface_states(tx: Transaction, tap: PollContext) -> dict[Surface, SurfaceState]:
    cursors, chains = cursors_at(tx, tap.repo, 0), chains_at(tx, tap.repo, 0)
    return {
        surface: SurfaceState(
            surface, 0, cursors.get(surface), decode_chains(chains.get(surface.value, ""))
        )
        for surface in (PROBE_SURFACE, *OTHER_SURFACES, Surface.REPO_WORKFLOW_RUNS)
    }


def list_issue_threads(tx: Transaction, tap: PollContext) -> dict[int, Surface]:
    """Issues whose tasks are not over, and as what their conversations are read."""
    return {
        task.number: Surface.ISSUE_POST_PR_REDIRECTS
        if task.pr_number
        else Surface.ISSUE_PRE_PR_FOLLOWUPS
        for task in tasks_in(tx, _UNFINISHED, tap.repo)
        if not task.by_hand
    }


# Whole threads that are scanned in one poll.
MAX_THREAD_SCANS = 3
# So many parts that fail, and none that comes through: GitHub is away.
MAX_FAILED_PARTS = 3


@dataclass(frozen=True, slots=True)
class PollPlan:
    """How a repository is polled, as the settings say."""

    feeds: Literal["repository", "threads"] = "repository"
    incremental: bool | Literal["shadow"] = True
    idle_every: int = 5
    # Whether workflow runs are of use to anybody.
    runs: bool = False
    # The issue that takes commands without a task; 0: none.
    operations: int = 0


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a poll found."""

    ingested: IngestCounts = field(default_factory=IngestCounts)
    # Feeds that were too long for one poll: the next goes on from there.
    unfinished: tuple[Surface, ...] = ()
    # Cursors that could not be believed and were set back.
    reset: tuple[Surface, ...] = ()
    # Followed pull requests that are not there any more.
    gone: tuple[int, ...] = ()
    # The repository's present name, where it has another one now.
    renamed_to: RepoName | None = None
    requests: int = 0
    active: bool = False
    # Keys of events that a full scan shows and the feeds lack.
    differences: tuple[str, ...] = ()
    # Why some of it could not be read, if that was not all of it.
    error: GitHubPollingError | None = None


class PollCollection:
    """What a poll has found so far."""

    def __init__(self) -> None:
        self.ingested = IngestCounts()
        self.unfinished: list[Surface] = []
        self.reset: list[Surface] = []
        self.gone: list[int] = []
        # The first part that could not be read; how many could not, and how many could.
        self.error: GitHubPollingError | None = None
        self.failed = self.parts = 0

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """One part that GitHub refuses, or fails at, is no reason to leave out the others.

        A limit, a dead token and a host that is away are: they hold for all parts.
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

    def drawn(self, found: SurfaceResult) -> None:
        """A surface was read."""
        self.parts += 1
        self.ingested += found.ingested
        self.unfinished += () if found.reading.complete else (found.place.surface,)
        self.reset += (found.place.surface,) if found.mark.invalid else ()

    def read(self, number: int, found: ThreadRead) -> None:
        """A thread was read."""
        self.parts += 1
        self.noted(number, found)

    def noted(self, number: int, found: ThreadRead) -> None:
        """A thread was read, if that was due."""
        self.ingested += found.ingested
        self.reset += found.reset
        self.gone += (number,) if found.gone else ()

    def fetched(self, number: int, found: FetchedPull) -> None:
        """A pull request was fetched."""
        self.parts += 1
        self.ingested += found.ingested
        self.gone += (number,) if found.gone else ()


def follow_rename(tap: PollContext) -> RepoName | None:
    """The repository's present name, if it answered under another one."""
    if not tap.forge.renamed():
        return None
    with tap.polling(PULL):
        name = tap.forge.repository().name
    return None if name == tap.repo else name


class Poller:
    """Lives as long as the service; one poll at a time."""

    def __init__(self, tap: PollContext, plan: PollPlan | None = None) -> None:
        self._tap = tap
        self._plan = plan or PollPlan()
        self._pulse = PollCount(phase=poll_phase(str(tap.repo), self._plan.idle_every))
        self._shadow = ShadowScan()
        self._heads: Mapping[str, int] | None = None
        self._sweeper = SweepSchedule(runs=self._plan.runs)
        self._operations = OperationsIssue(tap, self._plan.operations)
        # How often the first scan of a thread has failed.
        self._stumbled: Counter[int] = Counter()

    def poll(self) -> ScanResult:
        """Read what changed. Raises `GitHubPollingError` where nothing of it could be read."""
        tap, found = self._tap, PollCollection()
        before = tap.forge.cost().requests
        tap.say(names.INCREMENTAL_SCAN_STARTED)
        with tap.store.read() as tx:
            standing = read_poll_state(tx, tap)
        tap.meter.followed = standing.followed
        differences: tuple[str, ...] = ()
        # Before anything else shows its history as news.
        with found.going_on():
            found.noted(self._plan.operations, self._operations.begin())
        if self._plan.incremental is False:
            self._operations.touched()
            found.ingested += run_full_scan(tap, standing.followed, self._issues())
        else:
            self._incremental(standing, found)
        if found.error is not None and not found.parts:
            raise found.error
        if self._plan.incremental == "shadow" and found.error is None:
            with tap.polling(FULL_SCAN):
                differences = self._shadow.compare(tap, standing.awaiting, self._issues())
        scanned = ScanResult(
            found.ingested,
            tuple(found.unfinished),
            tuple(found.reset),
            tuple(found.gone),
            follow_rename(tap),
            tap.forge.cost().requests - before,
            standing.active,
            differences,
            found.error,
        )
        self._told(scanned)
        return scanned

    def _told(self, scanned: ScanResult) -> None:
        self._tap.meter.polled()
        self._tap.say(
            names.INCREMENTAL_SCAN_COMPLETED,
            new=scanned.ingested.new,
            replayed=scanned.ingested.replayed,
            requests=scanned.requests,
        )

    def _issues(self) -> dict[int, Surface]:
        with self._tap.store.read() as tx:
            found = list_issue_threads(tx, self._tap)
        if self._plan.operations:
            found.setdefault(self._plan.operations, Surface.ISSUE_OPERATOR_COMMANDS)
        return found

    def _incremental(self, standing: PollState, found: PollCollection) -> None:
        touched = self._is_touched(standing, found)
        if touched:
            self._operations.touched()
        threads = self._plan.feeds == "threads"
        if self._rest_is_due(standing, touched=touched):
            self._rest(standing, found, () if threads else OTHER_SURFACES)
        else:
            self._pulse = after_poll(self._pulse)
        if threads:
            self._threads(standing, found)
        else:
            self._begin_threads(standing, found)
            if touched or standing.owed:
                self._pulls(found)
            self._sweep(standing, found)

    def _is_touched(self, standing: PollState, found: PollCollection) -> bool:
        """Whether anything may have happened; it may, where that cannot be told."""
        with found.going_on():
            # Any content counts: a comment in its issue's very second makes no new version of it.
            return self._draw(standing, PROBE_SURFACE, found).reading.pages > 0
        return True

    def _rest(
        self, standing: PollState, found: PollCollection, surfaces: Sequence[Surface]
    ) -> None:
        """What else is read; it stays owed where a part of it failed."""
        self._pulse = replace(self._pulse, owed=True)
        earlier, found.error = found.error, None
        for surface in surfaces:
            with found.going_on():
                self._draw(standing, surface, found)
        with found.going_on():
            self._runs(standing, found)
        if found.error is None:
            self._pulse = after_poll(self._pulse)
        found.error = earlier or found.error

    def _rest_is_due(self, standing: PollState, *, touched: bool) -> bool:
        active = standing.active or self._plan.incremental == "shadow"
        return is_full_poll_due(
            self._pulse, active=active, touched=touched, every=self._plan.idle_every
        )

    def _draw(self, standing: PollState, surface: Surface, found: PollCollection) -> SurfaceResult:
        drawn = poll_surface(self._tap, standing.places[surface])
        found.drawn(drawn)
        return drawn

    def _runs(self, standing: PollState, found: PollCollection) -> None:
        if not self._plan.runs or not standing.heads:
            return
        place = standing.places[Surface.REPO_WORKFLOW_RUNS]
        same = self._heads == standing.heads
        found.drawn(poll_runs(self._tap, place, standing.heads, same_heads=same))
        self._heads = standing.heads

    def _sweep_runs(self, standing: PollState, number: int) -> IngestCounts:
        """One that is repeated keeps its creation, and is beyond the watermark by then."""
        head = next((sha for sha, pull in standing.heads.items() if pull == number), None)
        return sweep_runs(self._tap, number, head) if head is not None else IngestCounts()

    # -- threads ------------------------------------------------------------------------------

    def _threads(self, standing: PollState, found: PollCollection) -> None:
        """All that is followed, each from its own cursors."""
        for number in standing.followed:
            with found.going_on():
                found.read(number, scan_thread(self._tap, number))
        for number, surface in self._issues().items():
            with found.going_on():
                found.read(number, read_issue(self._tap, surface, number))

    def _begin_threads(self, standing: PollState, found: PollCollection) -> None:
        """Scan a few of those that begin to be followed; note those that are so no more."""
        if standing.lapsed:
            over = standing.lapsed - standing.blocked
            with self._tap.store.write(*self._tap.scopes) as tx:
                forget_threads(tx, self._tap.repo, standing.lapsed & standing.blocked)
                lapse_threads(tx, self._tap.repo, over)
        # Those that failed come after those that did not.
        waiting = sorted(standing.unscanned, key=lambda number: self._stumbled[number])
        for number in waiting[:MAX_THREAD_SCANS]:
            self._stumbled[number] += 1
            with found.going_on():
                found.read(number, scan_thread(self._tap, number))
                del self._stumbled[number]

    # -- pull requests ------------------------------------------------------------------------

    def _pulls(self, found: PollCollection) -> None:
        """Those that have moved, as stored: also what an earlier poll did not come to."""
        with self._tap.store.read() as tx:
            moved = pulls_moved(tx, self._tap.repo)
        for number in moved:
            with found.going_on():
                found.fetched(number, fetch_pull(self._tap, number))
            self._sweeper.moved(number, self._tap.forge.now() + self._tap.window.late_visibility)

    def _sweep(self, standing: PollState, found: PollCollection) -> None:
        spot = self._sweeper.next(standing.followed, self._tap.forge.now())
        if spot is None:
            return
        # Passed over, should it fail: the next poll asks about the next one.
        self._sweeper.swept(spot, 1)
        with found.going_on():
            if spot.page == RUNS_PAGE:
                found.ingested += self._sweep_runs(standing, spot.number)
                return
            swept = sweep_pull(self._tap, spot)
            self._sweeper.swept(spot, swept.pages)
            found.fetched(spot.number, swept)


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

    `scopes`: what `settled` writes beside the outbox.
    """
    tap = PollContext(store, forge, repo, window or PollWindow(), settled, (OUTBOX_SCOPE, *scopes))
    before, found = forge.cost().requests, PollCollection()
    for surface in (PROBE_SURFACE, *OTHER_SURFACES):
        with store.read() as tx:
            place = read_surface_state(tx, tap, surface)
        found.drawn(poll_surface(tap, place))
    for number in pulls:
        found.fetched(number, fetch_pull(tap, number))
    return ScanResult(
        found.ingested,
        tuple(found.unfinished),
        tuple(found.reset),
        tuple(found.gone),
        follow_rename(tap),
        forge.cost().requests - before,
    )
