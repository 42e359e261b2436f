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
from hostler.store.repositories import (
    Repo,
    clear_changed_pull_request,
    feed_pages_of_thread,
    save_feed_pages,
)
from hostler.store.tasks import tasks_of_issue
from hostler.store.transaction import Transaction

# Lists without `since`: they have a chain and no cursor.
PULL, REVIEWS = "pull", "pull_reviews"
MISSING_ERRORS = (NotFound, Gone, Moved)


@dataclass(frozen=True, slots=True)
class PullChains:
    """The known pages of a pull request and of its reviews."""

    pull: PageChain = ()
    reviews: PageChain = ()


@dataclass(frozen=True, slots=True)
class FetchedPull:
    """The result for a pull request; None if not requested. `gone`: it was deleted."""

    pull: ListReading | None = None
    reviews: ListReading | None = None
    ingested: IngestCounts = field(default_factory=IngestCounts)
    gone: bool = False
    pages: int = 1

    @property
    def is_quiet(self) -> bool:
        """Return whether nothing is new."""
        return all(one is None or one.unchanged for one in (self.pull, self.reviews))


def read_pull_chains(tx: Transaction, context: PollContext, number: int) -> PullChains:
    """Return the known pages of a pull request."""
    found = feed_pages_of_thread(tx, context.repo, number)
    return PullChains(decode_chains(found.get(PULL, "")), decode_chains(found.get(REVIEWS, "")))


def fetch_pull(context: PollContext, number: int) -> FetchedPull:
    """Read a pull request that has changed, and its reviews from the last known page on."""
    with context.store.read() as tx:
        known = read_pull_chains(tx, context, number)
    with context.translate_errors(PULL):
        try:
            found = FetchedPull(
                context.forge.changes(SurfaceFeed.PULL, None, number=number, known=known.pull),
                context.forge.changes(
                    SurfaceFeed.REVIEWS, None, number=number, known=known.reviews[-1:]
                ),
            )
        except MISSING_ERRORS:
            found = FetchedPull(gone=True)
    return _store_pull(context, number, known, found, moved=True)


def sweep_pull(context: PollContext, target: SweepTarget) -> FetchedPull:
    """Send one request for one part of a pull request, in case a change was not reported."""
    with context.store.read() as tx:
        known = read_pull_chains(tx, context, target.number)
    with context.translate_errors(PULL):
        try:
            found = _read_sweep_target(context, target, known)
        except MISSING_ERRORS:
            found = FetchedPull(gone=True)
    return _store_pull(context, target.number, known, found, moved=False)


def _read_sweep_target(context: PollContext, target: SweepTarget, known: PullChains) -> FetchedPull:
    if target.page == 0:
        feed = context.forge.changes(SurfaceFeed.PULL, None, number=target.number, known=known.pull)
        return FetchedPull(pull=feed)
    number = max(len(known.reviews), 1) if target.page == NEWEST_REVIEW_PAGE else target.page
    page = page_number(known.reviews, number)
    feed = context.forge.changes(
        SurfaceFeed.REVIEWS, None, number=target.number, known=(page,), one_page=True
    )
    return FetchedPull(reviews=feed)


def _store_pull(
    context: PollContext, number: int, known: PullChains, found: FetchedPull, *, moved: bool
) -> FetchedPull:
    context.observe("read", PULL)
    ingested, reviews = IngestCounts(), known.reviews
    if moved or not (found.gone or found.is_quiet):
        own_login = context.forge.own_login()
        with context.store.write(*context.scopes) as tx:
            items = [item for one in (found.pull, found.reviews) if one for item in one.items]
            ingested = ingest_items(tx, context.repo, own_login, items, context.settled)
            reviews = store_pull_chains(tx, context, number, known, found)
            if moved:
                clear_changed_pull_request(tx, context.repo, number)
    context.observe("stored", PULL)
    _count_pull(context, found, ingested)
    return FetchedPull(found.pull, found.reviews, ingested, found.gone, count_pages(reviews))


def store_pull_chains(
    tx: Transaction, context: PollContext, number: int, known: PullChains, found: FetchedPull
) -> PageChain:
    """Store the known pages. Return the chain of the reviews."""
    if found.pull is not None and found.pull.chain != known.pull:
        save_feed_pages(tx, context.repo, PULL, number, encode_chains(found.pull.chain))
    if found.reviews is None:
        return known.reviews
    reviews = splice_chain(known.reviews, found.reviews.chain)
    if reviews != known.reviews:
        save_feed_pages(tx, context.repo, REVIEWS, number, encode_chains(reviews))
    return reviews


def _count_pull(context: PollContext, found: FetchedPull, ingested: IngestCounts) -> None:
    for surface, one in ((PULL, found.pull), (REVIEWS, found.reviews)):
        if one is not None:
            # Count new items once, with the last list.
            last = surface == REVIEWS or found.reviews is None
            context.poll_metrics.record_read(surface, one, ingested if last else IngestCounts())
    log_own_tokens(context, ingested)


@dataclass(frozen=True, slots=True)
class ThreadKey:
    """The stored state of a pull request's thread."""

    number: int
    review_comments: SurfaceState
    issue_comments: SurfaceState
    chains: PullChains

    @property
    def is_first_scan(self) -> bool:
        """Return whether the thread was never scanned."""
        return not all(
            state.cursor is not None and state.cursor.bootstrap_complete
            for state in (self.review_comments, self.issue_comments)
        )


@dataclass(frozen=True, slots=True)
class ThreadRead:
    """The result of reading a thread."""

    ingested: IngestCounts = field(default_factory=IngestCounts)
    reset: tuple[Surface, ...] = ()
    gone: bool = False


@dataclass(frozen=True, slots=True)
class _FoundThread:
    """Everything that was read of a thread."""

    review_comments: SurfaceResult
    issue_comments: SurfaceResult
    fetched: FetchedPull

    @property
    def items(self) -> list[Item]:
        lists = (self.review_comments.reading, self.issue_comments.reading)
        more = (self.fetched.pull, self.fetched.reviews)
        return [item for one in (*lists, *more) if one is not None for item in one.items]


def scan_thread(context: PollContext, number: int) -> ThreadRead:
    """Read a pull request's thread from its cursors; all of it if it has none."""
    with context.store.read() as tx:
        thread = _read_thread(tx, context, number)
    with context.translate_errors(Surface.PR_ISSUE_COMMENTS):
        try:
            found = _read_surface(context, thread)
        except MISSING_ERRORS:
            return _record_gone(context, thread)
        own_login = context.forge.own_login()
    if not thread.is_first_scan and _is_quiet(found):
        return ThreadRead()
    with context.store.write(*context.scopes) as tx:
        sifted = sift_items(tx, context.repo, own_login, found.items)
        ingested = _store_thread(tx, context, thread, found, sifted)
    _log_thread(context, found, ingested)
    resets = (
        result_.state.surface
        for result_ in (found.review_comments, found.issue_comments)
        if result_.position.invalid
    )
    return ThreadRead(ingested, tuple(resets))


def read_issue(context: PollContext, surface: Surface, number: int) -> ThreadRead:
    """Read the conversation of an issue from its cursor."""
    with context.store.read() as tx:
        state = read_surface_state(tx, context, surface, number)
    try:
        found = poll_surface(context, state)
    except GitHubPollingError as error:
        if not isinstance(error.cause, MISSING_ERRORS):
            raise
        return ThreadRead(gone=True)
    return ThreadRead(found.ingested, (surface,) if found.position.invalid else ())


def _read_thread(tx: Transaction, context: PollContext, number: int) -> ThreadKey:
    return ThreadKey(
        number,
        read_surface_state(tx, context, Surface.PR_REVIEW_COMMENTS, number),
        read_surface_state(tx, context, Surface.PR_ISSUE_COMMENTS, number),
        read_pull_chains(tx, context, number),
    )


def _read_surface(context: PollContext, thread: ThreadKey) -> _FoundThread:
    """Read all lists of a thread. A first scan ignores known pages."""
    number, is_first_scan = thread.number, thread.is_first_scan
    known = PullChains() if is_first_scan else thread.chains
    review_comments, issue_comments = thread.review_comments, thread.issue_comments
    if is_first_scan:
        review_comments, issue_comments = (
            replace(review_comments, chain=()),
            replace(issue_comments, chain=()),
        )
    fetched = FetchedPull(
        context.forge.changes(SurfaceFeed.PULL, None, number=number, known=known.pull),
        context.forge.changes(SurfaceFeed.REVIEWS, None, number=number, known=known.reviews[-1:]),
    )
    reviewed = request_changes(context, review_comments)
    if is_first_scan:
        reviewed = _read_to_end(context, reviewed)
    return _FoundThread(reviewed, request_changes(context, issue_comments), fetched)


def _read_to_end(context: PollContext, found: SurfaceResult) -> SurfaceResult:
    """Continue a first reading that was cut short: it is stored as the whole thread.

    A conversation is listed by id, and is always read as far as possible.
    """
    while not found.reading.complete:
        reached = found.after
        more = context.forge.changes(
            SurfaceFeed.THREAD_REVIEW_COMMENTS,
            read_since(reached, context.window),
            number=found.state.number,
        )
        reading = replace(more, items=(*found.reading.items, *more.items))
        found = replace(found, reading=reading)
        if found.after == reached:
            # More review comments in one second than GitHub pages through: the rest is unreachable.
            break
    return found


def _is_quiet(found: _FoundThread) -> bool:
    return (
        found.review_comments.is_quiet and found.issue_comments.is_quiet and found.fetched.is_quiet
    )


def _store_thread(
    tx: Transaction,
    context: PollContext,
    thread: ThreadKey,
    found: _FoundThread,
    sifted: SiftedItems,
) -> IngestCounts:
    """Store events, observed writes, cursors and chains of a thread; clear its moved flag."""
    for write, item in sifted.observed_writes:
        if write.state is not WriteState.SENT:
            mark_write_observed(tx, write, item, context.settled)
    scan = FeedbackScan(
        pr_number=thread.number,
        events=tuple(sifted.rows.values()),
        observed=tuple(
            Observed(write.token, item.id, item.updated_at)
            for write, item in sifted.observed_writes
            if write.state is WriteState.SENT
        ),
        review_comments=_thread_watermark(found.review_comments.after),
        issue_comments=_thread_watermark(found.issue_comments.after),
    )
    repo = Repo(context.repo)
    if thread.is_first_scan:
        stored = repo.seed_feedback_cursors_from_full_scan(tx, scan)
    else:
        stored = repo.ingest_feedback_scan_batch(tx, scan)
    store_surface(tx, context, thread.review_comments, found.review_comments.reading)
    store_surface(tx, context, thread.issue_comments, found.issue_comments.reading)
    store_pull_chains(tx, context, thread.number, thread.chains, found.fetched)
    clear_changed_pull_request(tx, context.repo, thread.number)
    return sum_counts(sifted, stored.new)


def _record_gone(context: PollContext, thread: ThreadKey) -> ThreadRead:
    """Mark a deleted thread as scanned, so that it is not requested again."""
    if thread.is_first_scan:
        position = _thread_watermark(start_cursor(None, context.forge.now(), context.window))
        scan = FeedbackScan(thread.number, review_comments=position, issue_comments=position)
        with context.store.write(*context.scopes) as tx:
            Repo(context.repo).seed_feedback_cursors_from_full_scan(tx, scan)
            clear_changed_pull_request(tx, context.repo, thread.number)
    return ThreadRead(gone=True)


def _thread_watermark(position: CursorState) -> Watermark:
    return Watermark(format_timestamp(position.at), position.comment_id)


def _log_thread(context: PollContext, found: _FoundThread, ingested: IngestCounts) -> None:
    context.observe("stored", "thread")
    kinds = {
        found.review_comments.state.surface: found.review_comments,
        found.issue_comments.state.surface: found.issue_comments,
    }
    for surface, result in kinds.items():
        keys = {id(item) for item in result.reading.items}
        mine = IngestCounts(
            new=sum(id(item) in keys for item in ingested.new_items),
            replayed=sum(id(item) in keys for item in ingested.known_items),
            new_items=tuple(item for item in ingested.new_items if id(item) in keys),
            known_items=tuple(item for item in ingested.known_items if id(item) in keys),
        )
        context.poll_metrics.record_read(surface, result.reading, mine)
    log_own_tokens(context, ingested)


OPERATIONS_SURFACE = Surface.ISSUE_OPERATOR_COMMANDS


class OperationsIssue:
    """Reads a repository's operations issue for the first time, retrying until it succeeds.

    A missing one is requested again after any change in the repository.
    """

    def __init__(self, context: PollContext, number: int) -> None:
        self._context = context
        self._number = number
        self._is_due = bool(number)
        self._missing = False

    def start(self) -> ThreadRead:
        """Read it for the first time, if that is not done yet."""
        if not self._is_due or self._missing:
            return ThreadRead(gone=self._missing)
        found = start_operations(self._context, self._number)
        self._is_due, self._missing = found.gone, found.gone
        return found

    def note_change(self) -> None:
        """Note that something in the repository has changed."""
        self._missing = False


def start_operations(context: PollContext, number: int) -> ThreadRead:
    """Read the whole issue once, store all comments as processed, and start its cursor."""
    with context.store.read() as tx:
        state = read_surface_state(tx, context, OPERATIONS_SURFACE, number)
    if state.cursor is not None:
        return ThreadRead()
    with context.translate_errors(OPERATIONS_SURFACE):
        try:
            reading = context.forge.changes(SurfaceFeed.THREAD_COMMENTS, None, number=number)
        except MISSING_ERRORS:
            return ThreadRead(gone=True)
        own_login = context.forge.own_login()
    found = SurfaceResult(state, start_cursor(None, context.forge.now(), context.window), reading)
    context.observe("read", OPERATIONS_SURFACE)
    with context.store.write(*context.scopes) as tx:
        ingested = ingest_items(tx, context.repo, own_login, reading.items, context.settled)
        _skip_old_comments(tx, context, number)
        advance_surface(tx, context, state, found.after)
    log_result(context, SurfaceResult(state, found.position, reading, ingested))
    return ThreadRead(ingested)


def _skip_old_comments(tx: Transaction, context: PollContext, number: int) -> None:
    """Mark old comments as processed. Comments on a task's own thread belong to the task."""
    if tasks_of_issue(tx, context.repo, number) or find_pull(tx, context.repo, number):
        return
    rows = pending_inbox_rows(tx, context.repo, number)
    old_keys = [row.event_key for row in rows if row.kind == ItemKind.ISSUE_COMMENT]
    consume_inbox_rows(tx, context.repo, old_keys)
