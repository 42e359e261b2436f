"""Read one list from its cursor, and store events and cursor in one transaction."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hostler.errors import Gone
from hostler.forge.github.client.repository import format_since
from hostler.forge.github.polling.context import PollContext
from hostler.forge.github.polling.cursors import (
    CursorState,
    advance_cursor,
    cursor_state,
    decode_chains,
    encode_chains,
    is_same_cursor,
    is_settled,
    keep_chain,
    read_since,
    read_since_after,
    start_cursor,
)
from hostler.forge.github.polling.ingest import IngestCounts, ingest_items
from hostler.forge.port import ListReading, PageChain, SurfaceFeed
from hostler.model import EPOCH, PollCursor, Surface, format_timestamp
from hostler.store.pull_requests import pulls_in
from hostler.store.repositories import (
    PULL_SURFACES,
    Repo,
    find_feed_pages,
    mark_pull_requests_changed,
    save_feed_pages,
)
from hostler.store.transaction import Transaction
from hostler.telemetry import names

SURFACE_FEEDS: dict[Surface, SurfaceFeed] = {
    Surface.REPO_ISSUES: SurfaceFeed.ISSUES,
    Surface.REPO_ISSUE_COMMENTS: SurfaceFeed.ISSUE_COMMENTS,
    Surface.REPO_REVIEW_COMMENTS: SurfaceFeed.REVIEW_COMMENTS,
    Surface.REPO_WORKFLOW_RUNS: SurfaceFeed.WORKFLOW_RUNS,
    Surface.PR_ISSUE_COMMENTS: SurfaceFeed.THREAD_COMMENTS,
    Surface.PR_REVIEW_COMMENTS: SurfaceFeed.THREAD_REVIEW_COMMENTS,
    Surface.ISSUE_PRE_PR_FOLLOWUPS: SurfaceFeed.THREAD_COMMENTS,
    Surface.ISSUE_POST_PR_REDIRECTS: SurfaceFeed.THREAD_COMMENTS,
    Surface.ISSUE_OPERATOR_COMMANDS: SurfaceFeed.THREAD_COMMENTS,
}


# Lists of a whole repository, ordered by change.
REPOSITORY_SURFACES = (
    Surface.REPO_ISSUES,
    Surface.REPO_ISSUE_COMMENTS,
    Surface.REPO_REVIEW_COMMENTS,
)


@dataclass(frozen=True, slots=True)
class SurfaceState:
    """The stored cursor and chain of a surface."""

    surface: Surface
    number: int = 0
    cursor: PollCursor | None = None
    chain: PageChain = ()
    # How much further back to read this time.
    back: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class SurfaceResult:
    """What was read of a surface, and what was stored."""

    state: SurfaceState
    position: CursorState
    reading: ListReading
    ingested: IngestCounts = field(default_factory=IngestCounts)

    @property
    def after(self) -> CursorState:
        """Return the new position of the surface."""
        # A list by id was read as far as possible.
        by_id = SURFACE_FEEDS[self.state.surface] is SurfaceFeed.THREAD_COMMENTS
        return advance_cursor(
            self.position, self.reading.items, complete=self.reading.complete or by_id
        )

    @property
    def is_quiet(self) -> bool:
        """Return whether there is nothing to store."""
        same = keep_chain(self.reading) == self.state.chain and is_same_cursor(
            self.after, self.state.cursor
        )
        return same and not self.reading.items


def read_surface_state(
    tx: Transaction, context: PollContext, surface: Surface, number: int = 0
) -> SurfaceState:
    """Read the state of a surface."""
    cursor = Repo(context.repo).get_poll_cursor(tx, surface, number)
    return SurfaceState(
        surface, number, cursor, decode_chains(find_feed_pages(tx, context.repo, surface, number))
    )


def starts_behind(state: SurfaceState, position: CursorState) -> bool:
    """Return whether the last reading started after the position: nothing before it can change."""
    known = (
        state.surface in REPOSITORY_SURFACES
        and state.chain
        and not (position.fresh or position.invalid or state.back)
    )
    return bool(known) and state.chain[0].anchor == format_since(read_since_after(position))


def _may_settle(context: PollContext, state: SurfaceState) -> datetime | None:
    """Return GitHub's time before a reading that may be long; None for a short one."""
    known = state.surface in REPOSITORY_SURFACES and state.cursor is not None
    return context.forge.now() if known and len(state.chain) != 1 else None


def _is_settled_here(
    context: PollContext, found: SurfaceResult, started_at: datetime | None
) -> SurfaceResult:
    """Read again from after the position if the last changes fill several pages.

    Otherwise every poll would request them until something else changes.
    """
    reading, position = found.reading, found.after
    if started_at is None or found.position.fresh or not reading.complete or len(reading.chain) < 2:
        return found
    # Compare with the start: late items may have come after the first page was read.
    if not is_settled(position, started_at, context.window):
        return found
    more = context.forge.changes(SURFACE_FEEDS[found.state.surface], read_since_after(position))
    asked, pages = reading.asked + more.asked, reading.pages + more.pages
    items = (*reading.items, *more.items)
    return replace(found, reading=replace(more, items=items, asked=asked, pages=pages))


def request_changes(context: PollContext, state: SurfaceState) -> SurfaceResult:
    """Read a surface from its position. GitHub's answer tells whether the position is valid."""
    position = cursor_state(state.cursor) or start_cursor(
        state.cursor, context.forge.now(), context.window
    )
    reading = _read_changes(context, state, position)
    judged = start_cursor(state.cursor, context.forge.now(), context.window)
    if judged.invalid and not position.invalid:
        position, reading = judged, _read_changes(context, state, judged)
    context.observe("read", state.surface)
    _log_surface(context, state, position)
    return SurfaceResult(state, position, reading)


def poll_surface(context: PollContext, state: SurfaceState) -> SurfaceResult:
    """Read a surface, and store its items together with its cursor."""
    with context.translate_errors(state.surface):
        started_at = _may_settle(context, state)
        found = _is_settled_here(context, request_changes(context, state), started_at)
        own_login = context.forge.own_login()
    if not found.is_quiet:
        with context.store.write(*context.scopes) as tx:
            ingested = ingest_items(
                tx, context.repo, own_login, found.reading.items, context.settled
            )
            found = SurfaceResult(state, found.position, found.reading, ingested)
            note_result(tx, context, found)
    log_result(context, found)
    return found


def note_result(tx: Transaction, context: PollContext, found: SurfaceResult) -> None:
    """Store cursor and chain of a surface, and which pull requests changed."""
    state = found.state
    advance_surface(tx, context, state, found.after)
    store_surface(tx, context, state, found.reading)
    if state.surface is Surface.REPO_ISSUES:
        shown = {item.number for item in found.ingested.new_items}
        mark_pull_requests_changed(
            tx, context.repo, sorted(shown & _followed_items(tx, context)) if shown else ()
        )


def advance_surface(
    tx: Transaction, context: PollContext, state: SurfaceState, position: CursorState
) -> None:
    """Store the position of a surface, if it has changed."""
    if is_same_cursor(position, state.cursor):
        return
    Repo(context.repo).upsert_poll_cursor(
        tx,
        state.surface,
        state.number,
        last_updated_at=format_timestamp(position.at),
        last_comment_id=position.comment_id,
        bootstrap_complete=not position.fresh,
    )


def store_surface(
    tx: Transaction, context: PollContext, state: SurfaceState, reading: ListReading
) -> None:
    """Store the chain of a reading, if it has changed."""
    chain = keep_chain(reading)
    if chain != state.chain:
        save_feed_pages(tx, context.repo, state.surface, state.number, encode_chains(chain))


def log_result(
    context: PollContext, found: SurfaceResult, position: CursorState | None = None
) -> None:
    """Log and count what was stored, and how old the position is."""
    context.observe("stored", found.state.surface)
    now = context.forge.now()
    context.poll_metrics.record_read(found.state.surface, found.reading, found.ingested)
    context.poll_metrics.record_lag(
        found.state.surface, (now - (position or found.after).at).total_seconds()
    )
    log_own_tokens(context, found.ingested)
    if not found.position.fresh:
        context.poll_metrics.record_new_items(now, found.ingested.new_items)


def log_own_tokens(context: PollContext, ingested: IngestCounts) -> None:
    """Log which of our writes were observed."""
    for token in ingested.tokens:
        context.log_event(names.TOKEN_OBSERVED, token=token)


def _followed_items(tx: Transaction, context: PollContext) -> set[int]:
    return {pull.pr_number for pull in pulls_in(tx, context.repo)}


def _read_changes(context: PollContext, state: SurfaceState, position: CursorState) -> ListReading:
    try:
        return context.forge.changes(
            SURFACE_FEEDS[state.surface],
            _read_from(context, state, position),
            number=state.number,
            # At first, all open issues are new to us, however old they are.
            only_open=state.surface is Surface.REPO_ISSUES and position.fresh,
            known=state.chain,
        )
    except Gone:
        # Issues are disabled; pull requests still have comments.
        if state.surface in PULL_SURFACES:
            raise
        return ListReading((), asked=1)


def _read_from(context: PollContext, state: SurfaceState, position: CursorState) -> datetime | None:
    """Return from when to read; None: everything."""
    whole = state.surface is Surface.REPO_ISSUES or state.surface in PULL_SURFACES
    if state.cursor is None and whole:
        return None
    if state.surface in PULL_SURFACES and position.fresh:
        # Resumed: read what was said meanwhile, but not all of a long pause.
        return max(
            read_since(position, context.window), context.forge.now() - context.window.safe_backfill
        )
    if starts_behind(state, position):
        return read_since_after(position)
    return max(read_since(position, context.window) - state.back, EPOCH)


def _log_surface(context: PollContext, state: SurfaceState, position: CursorState) -> None:
    where = {"surface": state.surface.value, "number": state.number}
    if position.invalid:
        found = state.cursor.last_updated_at if state.cursor else ""
        context.log_event(names.CURSOR_INVALID, found=str(found), **where)
    if position.invalid or position.fresh:
        started_at = _read_from(context, state, position)
        context.log_event(
            names.INCREMENTAL_SCAN_BACKFILL,
            since=format_timestamp(started_at) if started_at else "",
            **where,
        )
