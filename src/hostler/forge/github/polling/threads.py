"""Read single pull requests, whole threads and the operations issue."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hostler.errors import GitHubPollingError, Gone, Moved, NotFound
from hostler.forge.github.polling.context import PollContext
from hostler.forge.github.polling.cursors import (
    CursorState,
    count_pages,
    decode_chains,
    encode_chains,
    page_number,
    read_since,
    splice_chain,
    start_cursor,
)
from hostler.forge.github.polling.ingest import (
    IngestCounts,
    SiftedItems,
    ingest_items,
    mark_write_observed,
    sift_items,
    sum_counts,
)
from hostler.forge.github.polling.schedule import NEWEST_REVIEW_PAGE, SweepTarget
from hostler.forge.github.polling.surfaces import (
    SurfaceResult,
    SurfaceState,
    advance_surface,
    log_own_tokens,
    log_result,
    poll_surface,
    read_surface_state,
    request_changes,
    store_surface,
)
from hostler.forge.port import Item, ItemKind, ListReading, PageChain, SurfaceFeed
from hostler.model import Surface, format_timestamp
from hostler.store.inbox import (
    FeedbackScan,
    Observed,
    Watermark,
    consume_inbox_rows,
    pending_inbox_rows,
)
from hostler.store.outbox import WriteState
from hostler.store.pull_requests import find_pull
from hostler.store.repositories import Repo, chains_at, clear_moved, save_chain
from hostler.store.tasks import tasks_of_issue
from hostler.store.transaction import Transaction

# Lists that know no `since`: they have a chain and no cursor.
PULL, REVIEWS = "pull", "pull_reviews"
MISSING_ERRORS = (NotFound, Gone, Moved)


@dataclass(frozen=True, slots=True)
class PullChains:
    """What is known of a pull request and of its reviews."""

    pull: PageChain = ()
    reviews: PageChain = ()


@dataclass(frozen=True, slots=True)
class FetchedPull:
    """What a pull request gave; None where it was not asked. `gone`: it is not there any more."""

    pull: ListReading | None = None
    reviews: ListReading | None = None
    ingested: IngestCounts = field(default_factory=IngestCounts)
    gone: bool = False
    pages: int = 1

    @property
    def quiet(self) -> bool:
        """Whether nothing is new."""
        return all(one is None or one.unchanged for one in (self.pull, self.reviews))


def read_pull_chains(tx: Transaction, tap: PollContext, number: int) -> PullChains:
    """What is known of a pull request."""
    found = chains_at(tx, tap.repo, number)
    return PullChains(decode_chains(found.get(PULL, "")), decode_chains(found.get(REVIEWS, "")))


def fetch_pull(tap: PollContext, number: int) -> FetchedPull:
    """A pull request that has moved: itself, and its reviews from the last known page on."""
    with tap.store.read() as tx:
        known = read_pull_chains(tx, tap, number)
    with tap.polling(PULL):
        try:
            found = FetchedPull(
                tap.forge.changes(SurfaceFeed.PULL, None, number=number, known=known.pull),
                tap.forge.changes(
                    SurfaceFeed.REVIEWS, None, number=number, known=known.reviews[-1:]
                ),
            )
        except MISSING_ERRORS:
            found = FetchedPull(gone=True)
    return _store_pull(tap, number, known, found, moved=True)


def sweep_pull(tap: PollContext, spot: SweepTarget) -> FetchedPull:
    """One request for one thing of a pull request, in case it changed and nothing said so."""
    with tap.store.read() as tx:
        known = read_pull_chains(tx, tap, spot.number)
    with tap.polling(PULL):
        try:
            found = _read_sweep_target(tap, spot, known)
        except MISSING_ERRORS:
            found = FetchedPull(gone=True)
    return _store_pull(tap, spot.number, known, found, moved=False)


def _read_sweep_target(tap: PollContext, spot: SweepTarget, known: PullChains) -> FetchedPull:
    if spot.page == 0:
        feed = tap.forge.changes(SurfaceFeed.PULL, None, number=spot.number, known=known.pull)
        return FetchedPull(pull=feed)
    number = max(len(known.reviews), 1) if spot.page == NEWEST_REVIEW_PAGE else spot.page
    page = page_number(known.reviews, number)
    feed = tap.forge.changes(
        SurfaceFeed.REVIEWS, None, number=spot.number, known=(page,), one_page=True
    )
    return FetchedPull(reviews=feed)


def _store_pull(
    tap: PollContext, number: int, known: PullChains, found: FetchedPull, *, moved: bool
) -> FetchedPull:
    tap.observe("read", PULL)
    ingested, reviews = IngestCounts(), known.reviews
    if moved or not (found.gone or found.quiet):
        me = tap.forge.myself()
        with tap.store.write(*tap.scopes) as tx:
            items = [item for one in (found.pull, found.reviews) if one for item in one.items]
            ingested = ingest_items(tx, tap.repo, me, items, tap.settled)
            reviews = store_pull_chains(tx, tap, number, known, found)
            if moved:
                clear_moved(tx, tap.repo, number)
    tap.observe("stored", PULL)
    _count_pull(tap, found, ingested)
    return FetchedPull(found.pull, found.reviews, ingested, found.gone, count_pages(reviews))


def store_pull_chains(
    tx: Transaction, tap: PollContext, number: int, known: PullChains, found: FetchedPull
) -> PageChain:
    """Store what is known from now on; the chain of the reviews."""
    if found.pull is not None and found.pull.chain != known.pull:
        save_chain(tx, tap.repo, PULL, number, encode_chains(found.pull.chain))
    if found.reviews is None:
        return known.reviews
    reviews = splice_chain(known.reviews, found.reviews.chain)
    if reviews != known.reviews:
        save_chain(tx, tap.repo, REVIEWS, number, encode_chains(reviews))
    return reviews


def _count_pull(tap: PollContext, found: FetchedPull, ingested: IngestCounts) -> None:
    for surface, one in ((PULL, found.pull), (REVIEWS, found.reviews)):
        if one is not None:
            # What was new is told once, with the last list.
            last = surface == REVIEWS or found.reviews is None
            tap.meter.read(surface, one, ingested if last else IngestCounts())
    log_own_tokens(tap, ingested)


@dataclass(frozen=True, slots=True)
class ThreadKey:
    """What is stored about a pull request's thread."""

    number: int
    reviewed: SurfaceState
    talked: SurfaceState
    chains: PullChains

    @property
    def whole(self) -> bool:
        """Whether it was not scanned since it is followed."""
        return not all(
            place.cursor is not None and place.cursor.bootstrap_complete
            for place in (self.reviewed, self.talked)
        )


@dataclass(frozen=True, slots=True)
class ThreadRead:
    """What a thread gave."""

    ingested: IngestCounts = field(default_factory=IngestCounts)
    reset: tuple[Surface, ...] = ()
    gone: bool = False


@dataclass(frozen=True, slots=True)
class _FoundThread:
    """Everything that was read of a thread."""

    reviewed: SurfaceResult
    talked: SurfaceResult
    fetched: FetchedPull

    @property
    def items(self) -> list[Item]:
        lists = (self.reviewed.reading, self.talked.reading)
        more = (self.fetched.pull, self.fetched.reviews)
        return [item for one in (*lists, *more) if one is not None for item in one.items]


def scan_thread(tap: PollContext, number: int) -> ThreadRead:
    """Read a pull request's thread on from its cursors; all of it, where it has none."""
    with tap.store.read() as tx:
        thread = _read_thread(tx, tap, number)
    with tap.polling(Surface.PR_ISSUE_COMMENTS):
        try:
            found = _read_surface(tap, thread)
        except MISSING_ERRORS:
            return _record_gone(tap, thread)
        me = tap.forge.myself()
    if not thread.whole and _is_quiet(found):
        return ThreadRead()
    with tap.store.write(*tap.scopes) as tx:
        sifted = sift_items(tx, tap.repo, me, found.items)
        ingested = _store_thread(tx, tap, thread, found, sifted)
    _log_thread(tap, found, ingested)
    resets = (d.place.surface for d in (found.reviewed, found.talked) if d.mark.invalid)
    return ThreadRead(ingested, tuple(resets))


def read_issue(tap: PollContext, surface: Surface, number: int) -> ThreadRead:
    """Read the conversation of an issue on from its cursor."""
    with tap.store.read() as tx:
        place = read_surface_state(tx, tap, surface, number)
    try:
        found = poll_surface(tap, place)
    except GitHubPollingError as error:
        if not isinstance(error.cause, MISSING_ERRORS):
            raise
        return ThreadRead(gone=True)
    return ThreadRead(found.ingested, (surface,) if found.mark.invalid else ())


def _read_thread(tx: Transaction, tap: PollContext, number: int) -> ThreadKey:
    return ThreadKey(
        number,
        read_surface_state(tx, tap, Surface.PR_REVIEW_COMMENTS, number),
        read_surface_state(tx, tap, Surface.PR_ISSUE_COMMENTS, number),
        read_pull_chains(tx, tap, number),
    )


def _read_surface(tap: PollContext, thread: ThreadKey) -> _FoundThread:
    """A whole scan relies on nothing that was read before."""
    number, whole = thread.number, thread.whole
    known = PullChains() if whole else thread.chains
    reviewed, talked = thread.reviewed, thread.talked
    if whole:
        reviewed, talked = replace(reviewed, chain=()), replace(talked, chain=())
    fetched = FetchedPull(
        tap.forge.changes(SurfaceFeed.PULL, None, number=number, known=known.pull),
        tap.forge.changes(SurfaceFeed.REVIEWS, None, number=number, known=known.reviews[-1:]),
    )
    lines = (
        _read_to_end(tap, request_changes(tap, reviewed))
        if whole
        else request_changes(tap, reviewed)
    )
    return _FoundThread(lines, request_changes(tap, talked), fetched)


def _read_to_end(tap: PollContext, found: SurfaceResult) -> SurfaceResult:
    """Read on where a first reading was cut short: it is stored as the whole thread.

    A conversation comes by id, and is always read as far as it goes.
    """
    while not found.reading.complete:
        reached = found.after
        more = tap.forge.changes(
            SurfaceFeed.THREAD_REVIEW_COMMENTS,
            read_since(reached, tap.window),
            number=found.place.number,
        )
        reading = replace(more, items=(*found.reading.items, *more.items))
        found = replace(found, reading=reading)
        if found.after == reached:
            # More lines in one moment than GitHub pages through: there is no way behind them.
            break
    return found


def _is_quiet(found: _FoundThread) -> bool:
    return found.reviewed.quiet and found.talked.quiet and found.fetched.quiet


def _store_thread(
    tx: Transaction, tap: PollContext, thread: ThreadKey, found: _FoundThread, sifted: SiftedItems
) -> IngestCounts:
    """Events, seen writes, cursors and chains of a thread, and that it need not be fetched."""
    for write, item in sifted.seen:
        if write.state is not WriteState.SENT:
            mark_write_observed(tx, write, item, tap.settled)
    scan = FeedbackScan(
        pr_number=thread.number,
        events=tuple(sifted.rows.values()),
        observed=tuple(
            Observed(write.token, item.id, item.updated_at)
            for write, item in sifted.seen
            if write.state is WriteState.SENT
        ),
        review_comments=_thread_watermark(found.reviewed.after),
        issue_comments=_thread_watermark(found.talked.after),
    )
    repo = Repo(tap.repo)
    if thread.whole:
        stored = repo.seed_feedback_cursors_from_full_scan(tx, scan)
    else:
        stored = repo.ingest_feedback_scan_batch(tx, scan)
    store_surface(tx, tap, thread.reviewed, found.reviewed.reading)
    store_surface(tx, tap, thread.talked, found.talked.reading)
    store_pull_chains(tx, tap, thread.number, thread.chains, found.fetched)
    clear_moved(tx, tap.repo, thread.number)
    return sum_counts(sifted, stored.new)


def _record_gone(tap: PollContext, thread: ThreadKey) -> ThreadRead:
    """One that is not there any more is not asked for again."""
    if thread.whole:
        mark = _thread_watermark(start_cursor(None, tap.forge.now(), tap.window))
        scan = FeedbackScan(thread.number, review_comments=mark, issue_comments=mark)
        with tap.store.write(*tap.scopes) as tx:
            Repo(tap.repo).seed_feedback_cursors_from_full_scan(tx, scan)
            clear_moved(tx, tap.repo, thread.number)
    return ThreadRead(gone=True)


def _thread_watermark(mark: CursorState) -> Watermark:
    return Watermark(format_timestamp(mark.at), mark.comment_id)


def _log_thread(tap: PollContext, found: _FoundThread, ingested: IngestCounts) -> None:
    tap.observe("stored", "thread")
    kinds = {found.reviewed.place.surface: found.reviewed, found.talked.place.surface: found.talked}
    for surface, drawn in kinds.items():
        keys = {id(item) for item in drawn.reading.items}
        mine = IngestCounts(
            new=sum(id(item) in keys for item in ingested.news),
            replayed=sum(id(item) in keys for item in ingested.known),
            news=tuple(item for item in ingested.news if id(item) in keys),
            known=tuple(item for item in ingested.known if id(item) in keys),
        )
        tap.meter.read(surface, drawn.reading, mine)
    log_own_tokens(tap, ingested)


OPERATIONS_SURFACE = Surface.ISSUE_OPERATOR_COMMANDS


class OperationsIssue:
    """Asks for the first reading of a repository's operations issue until it has come through.

    One that is not there is asked for again when anything of the repository has changed.
    """

    def __init__(self, tap: PollContext, number: int) -> None:
        self._tap = tap
        self._number = number
        self._asks = bool(number)
        self._missing = False

    def begin(self) -> ThreadRead:
        """Read it for the first time, if that is to be done."""
        if not self._asks or self._missing:
            return ThreadRead(gone=self._missing)
        found = start_operations(self._tap, self._number)
        self._asks, self._missing = found.gone, found.gone
        return found

    def touched(self) -> None:
        """Something of the repository has changed."""
        self._missing = False


def start_operations(tap: PollContext, number: int) -> ThreadRead:
    """Read the whole issue once, store all of it as heard, and begin its cursor at the newest."""
    with tap.store.read() as tx:
        place = read_surface_state(tx, tap, OPERATIONS_SURFACE, number)
    if place.cursor is not None:
        return ThreadRead()
    with tap.polling(OPERATIONS_SURFACE):
        try:
            reading = tap.forge.changes(SurfaceFeed.THREAD_COMMENTS, None, number=number)
        except MISSING_ERRORS:
            return ThreadRead(gone=True)
        me = tap.forge.myself()
    found = SurfaceResult(place, start_cursor(None, tap.forge.now(), tap.window), reading)
    tap.observe("read", OPERATIONS_SURFACE)
    with tap.store.write(*tap.scopes) as tx:
        ingested = ingest_items(tx, tap.repo, me, reading.items, tap.settled)
        _skip_old_comments(tx, tap, number)
        advance_surface(tx, tap, place, found.after)
    log_result(tap, SurfaceResult(place, found.mark, reading, ingested))
    return ThreadRead(ingested)


def _skip_old_comments(tx: Transaction, tap: PollContext, number: int) -> None:
    """What was said before; on a task's own thread it is for the task, and was heard as such."""
    if tasks_of_issue(tx, tap.repo, number) or find_pull(tx, tap.repo, number):
        return
    rows = pending_inbox_rows(tx, tap.repo, number)
    said = [row.event_key for row in rows if row.kind == ItemKind.ISSUE_COMMENT]
    consume_inbox_rows(tx, tap.repo, said)
