"""One repository's polls: what each reads, in which order, and what it remembers between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from hostler.errors import GitHubPollingError, RateLimited, Refused, ServerFailed, Unauthorized
from hostler.forge.feeds.cadence import REST, RUNS, TRIPWIRE, Pulse, after, phase_of, rest_due
from hostler.forge.feeds.full import FULL, scan_full
from hostler.forge.feeds.inbox import Ingested
from hostler.forge.feeds.operations import Operations
from hostler.forge.feeds.pulls import PULL, Fetched, fetch, sweep
from hostler.forge.feeds.runs import draw_runs, sweep_runs
from hostler.forge.feeds.shadow import Shadow
from hostler.forge.feeds.standing import Standing, issue_threads, stand
from hostler.forge.feeds.surfaces import Drawn, draw
from hostler.forge.feeds.sweeping import Sweeper
from hostler.forge.feeds.tap import Tap
from hostler.forge.feeds.threads import ThreadRead, read_issue, scan_thread
from hostler.model import RepoName, Surface
from hostler.store.repositories import forget_threads, lapse_threads, pulls_moved
from hostler.telemetry import names

# Whole threads that are scanned in one poll.
MOST_SCANS = 3
# So many parts that fail, and none that comes through: GitHub is away.
ENOUGH_FAILURES = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """How a repository is polled, as the settings say."""

    feeds: Literal["repository", "threads"] = "repository"
    incremental: bool | Literal["shadow"] = True
    idle_every: int = 5
    # Whether workflow runs are of use to anybody.
    runs: bool = False
    # The issue that takes commands without a task; 0: none.
    operations: int = 0


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a poll found."""

    ingested: Ingested = field(default_factory=Ingested)
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


class Gathered:
    """What a poll has found so far."""

    def __init__(self) -> None:
        self.ingested = Ingested()
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
            if not self.parts and self.failed >= ENOUGH_FAILURES:
                raise

    def drawn(self, found: Drawn) -> None:
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

    def fetched(self, number: int, found: Fetched) -> None:
        """A pull request was fetched."""
        self.parts += 1
        self.ingested += found.ingested
        self.gone += (number,) if found.gone else ()


def renamed(tap: Tap) -> RepoName | None:
    """The repository's present name, if it answered under another one."""
    if not tap.forge.renamed():
        return None
    with tap.polling(PULL):
        name = tap.forge.repository().name
    return None if name == tap.repo else name


class Poller:
    """Lives as long as the service; one poll at a time."""

    def __init__(self, tap: Tap, plan: Plan | None = None) -> None:
        self._tap = tap
        self._plan = plan or Plan()
        self._pulse = Pulse(phase=phase_of(str(tap.repo), self._plan.idle_every))
        self._shadow = Shadow()
        self._heads: Mapping[str, int] | None = None
        self._sweeper = Sweeper(runs=self._plan.runs)
        self._operations = Operations(tap, self._plan.operations)
        # How often the first scan of a thread has failed.
        self._stumbled: Counter[int] = Counter()

    def poll(self) -> Scanned:
        """Read what changed. Raises `GitHubPollingError` where nothing of it could be read."""
        tap, found = self._tap, Gathered()
        before = tap.forge.cost().requests
        tap.say(names.INCREMENTAL_SCAN_STARTED)
        with tap.store.read() as tx:
            standing = stand(tx, tap)
        tap.meter.followed = standing.followed
        differences: tuple[str, ...] = ()
        # Before anything else shows its history as news.
        with found.going_on():
            found.noted(self._plan.operations, self._operations.begin())
        if self._plan.incremental is False:
            self._operations.touched()
            found.ingested += scan_full(tap, standing.followed, self._issues())
        else:
            self._incremental(standing, found)
        if found.error is not None and not found.parts:
            raise found.error
        if self._plan.incremental == "shadow" and found.error is None:
            with tap.polling(FULL):
                differences = self._shadow.compare(tap, standing.awaiting, self._issues())
        scanned = Scanned(
            found.ingested,
            tuple(found.unfinished),
            tuple(found.reset),
            tuple(found.gone),
            renamed(tap),
            tap.forge.cost().requests - before,
            standing.active,
            differences,
            found.error,
        )
        self._told(scanned)
        return scanned

    def _told(self, scanned: Scanned) -> None:
        self._tap.meter.polled()
        self._tap.say(
            names.INCREMENTAL_SCAN_COMPLETED,
            new=scanned.ingested.new,
            replayed=scanned.ingested.replayed,
            requests=scanned.requests,
        )

    def _issues(self) -> dict[int, Surface]:
        with self._tap.store.read() as tx:
            found = issue_threads(tx, self._tap)
        if self._plan.operations:
            found.setdefault(self._plan.operations, Surface.ISSUE_OPERATOR_COMMANDS)
        return found

    def _incremental(self, standing: Standing, found: Gathered) -> None:
        touched = self._is_touched(standing, found)
        if touched:
            self._operations.touched()
        threads = self._plan.feeds == "threads"
        if self._rest_is_due(standing, touched=touched):
            self._rest(standing, found, () if threads else REST)
        else:
            self._pulse = after(self._pulse)
        if threads:
            self._threads(standing, found)
        else:
            self._begin_threads(standing, found)
            if touched or standing.owed:
                self._pulls(found)
            self._sweep(standing, found)

    def _is_touched(self, standing: Standing, found: Gathered) -> bool:
        """Whether anything may have happened; it may, where that cannot be told."""
        with found.going_on():
            # Any content counts: a comment in its issue's very second makes no new version of it.
            return self._draw(standing, TRIPWIRE, found).reading.pages > 0
        return True

    def _rest(self, standing: Standing, found: Gathered, surfaces: Sequence[Surface]) -> None:
        """What else is read; it stays owed where a part of it failed."""
        self._pulse = replace(self._pulse, owed=True)
        earlier, found.error = found.error, None
        for surface in surfaces:
            with found.going_on():
                self._draw(standing, surface, found)
        with found.going_on():
            self._runs(standing, found)
        if found.error is None:
            self._pulse = after(self._pulse)
        found.error = earlier or found.error

    def _rest_is_due(self, standing: Standing, *, touched: bool) -> bool:
        active = standing.active or self._plan.incremental == "shadow"
        return rest_due(self._pulse, active=active, touched=touched, every=self._plan.idle_every)

    def _draw(self, standing: Standing, surface: Surface, found: Gathered) -> Drawn:
        drawn = draw(self._tap, standing.places[surface])
        found.drawn(drawn)
        return drawn

    def _runs(self, standing: Standing, found: Gathered) -> None:
        if not self._plan.runs or not standing.heads:
            return
        place = standing.places[Surface.REPO_WORKFLOW_RUNS]
        same = self._heads == standing.heads
        found.drawn(draw_runs(self._tap, place, standing.heads, same_heads=same))
        self._heads = standing.heads

    def _sweep_runs(self, standing: Standing, number: int) -> Ingested:
        """One that is repeated keeps its creation, and is beyond the watermark by then."""
        head = next((sha for sha, pull in standing.heads.items() if pull == number), None)
        return sweep_runs(self._tap, number, head) if head is not None else Ingested()

    # -- threads ------------------------------------------------------------------------------

    def _threads(self, standing: Standing, found: Gathered) -> None:
        """All that is followed, each from its own cursors."""
        for number in standing.followed:
            with found.going_on():
                found.read(number, scan_thread(self._tap, number))
        for number, surface in self._issues().items():
            with found.going_on():
                found.read(number, read_issue(self._tap, surface, number))

    def _begin_threads(self, standing: Standing, found: Gathered) -> None:
        """Scan a few of those that begin to be followed; note those that are so no more."""
        if standing.lapsed:
            over = standing.lapsed - standing.blocked
            with self._tap.store.write(*self._tap.scopes) as tx:
                forget_threads(tx, self._tap.repo, standing.lapsed & standing.blocked)
                lapse_threads(tx, self._tap.repo, over)
        # Those that failed come after those that did not.
        waiting = sorted(standing.unscanned, key=lambda number: self._stumbled[number])
        for number in waiting[:MOST_SCANS]:
            self._stumbled[number] += 1
            with found.going_on():
                found.read(number, scan_thread(self._tap, number))
                del self._stumbled[number]

    # -- pull requests ------------------------------------------------------------------------

    def _pulls(self, found: Gathered) -> None:
        """Those that have moved, as stored: also what an earlier poll did not come to."""
        with self._tap.store.read() as tx:
            moved = pulls_moved(tx, self._tap.repo)
        for number in moved:
            with found.going_on():
                found.fetched(number, fetch(self._tap, number))
            self._sweeper.moved(number, self._tap.forge.now() + self._tap.window.late_visibility)

    def _sweep(self, standing: Standing, found: Gathered) -> None:
        spot = self._sweeper.next(standing.followed, self._tap.forge.now())
        if spot is None:
            return
        # Passed over, should it fail: the next poll asks about the next one.
        self._sweeper.swept(spot, 1)
        with found.going_on():
            if spot.page == RUNS:
                found.ingested += self._sweep_runs(standing, spot.number)
                return
            swept = sweep(self._tap, spot)
            self._sweeper.swept(spot, swept.pages)
            found.fetched(spot.number, swept)
