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
from hostler.store.repositories import PULL_SURFACES, Repo, find_chain, mark_moved, save_chain
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


# Feeds of a whole repository, in the order of change.
REPOSITORY_SURFACES = (
    Surface.REPO_ISSUES,
    Surface.REPO_ISSUE_COMMENTS,
    Surface.REPO_REVIEW_COMMENTS,
)


@dataclass(frozen=True, slots=True)
class SurfaceState:
    """Where a surface stands: its cursor and its chain, as stored."""

    surface: Surface
    number: int = 0
    cursor: PollCursor | None = None
    chain: PageChain = ()
    # How much farther back to read this time.
    back: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class SurfaceResult:
    """What a surface gave, and what became of it."""

    place: SurfaceState
    mark: CursorState
    reading: ListReading
    ingested: IngestCounts = field(default_factory=IngestCounts)

    @property
    def after(self) -> CursorState:
        """Where the surface stands now."""
        # A list by id was read as far as it ever can be.
        by_id = SURFACE_FEEDS[self.place.surface] is SurfaceFeed.THREAD_COMMENTS
        return advance_cursor(
            self.mark, self.reading.items, complete=self.reading.complete or by_id
        )

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to store."""
        same = keep_chain(self.reading) == self.place.chain and is_same_cursor(
            self.after, self.place.cursor
        )
        return same and not self.reading.items


def read_surface_state(
    tx: Transaction, tap: PollContext, surface: Surface, number: int = 0
) -> SurfaceState:
    """Where a surface stands."""
    cursor = Repo(tap.repo).get_poll_cursor(tx, surface, number)
    return SurfaceState(
        surface, number, cursor, decode_chains(find_chain(tx, tap.repo, surface, number))
    )


def starts_behind(place: SurfaceState, mark: CursorState) -> bool:
    """Whether the last reading began behind the mark, because nothing before it can change."""
    known = (
        place.surface in REPOSITORY_SURFACES
        and place.chain
        and not (mark.fresh or mark.invalid or place.back)
    )
    return bool(known) and place.chain[0].anchor == format_since(read_since_after(mark))


def _may_settle(tap: PollContext, place: SurfaceState) -> datetime | None:
    """When a reading begins that may be long, by GitHub's time; None: it is as short as can be."""
    known = place.surface in REPOSITORY_SURFACES and place.cursor is not None
    return tap.forge.now() if known and len(place.chain) != 1 else None


def _is_settled_here(
    tap: PollContext, found: SurfaceResult, begun: datetime | None
) -> SurfaceResult:
    """Read on from behind the mark, where so much happened last that it fills several pages.

    They would be asked for in each poll until something else happens.
    """
    reading, mark = found.reading, found.after
    if begun is None or found.mark.fresh or not reading.complete or len(reading.chain) < 2:
        return found
    # By its beginning: what is shown late may have come after its first page was read.
    if not is_settled(mark, begun, tap.window):
        return found
    more = tap.forge.changes(SURFACE_FEEDS[found.place.surface], read_since_after(mark))
    asked, pages = reading.asked + more.asked, reading.pages + more.pages
    items = (*reading.items, *more.items)
    return replace(found, reading=replace(more, items=items, asked=asked, pages=pages))


def request_changes(tap: PollContext, place: SurfaceState) -> SurfaceResult:
    """Read a surface on from where it stands. GitHub's answer tells whether that can be."""
    mark = cursor_state(place.cursor) or start_cursor(place.cursor, tap.forge.now(), tap.window)
    reading = _read_changes(tap, place, mark)
    judged = start_cursor(place.cursor, tap.forge.now(), tap.window)
    if judged.invalid and not mark.invalid:
        mark, reading = judged, _read_changes(tap, place, judged)
    tap.observe("read", place.surface)
    _log_surface(tap, place, mark)
    return SurfaceResult(place, mark, reading)


def poll_surface(tap: PollContext, place: SurfaceState) -> SurfaceResult:
    """Read a surface, and store what it gave together with its cursor."""
    with tap.polling(place.surface):
        begun = _may_settle(tap, place)
        found = _is_settled_here(tap, request_changes(tap, place), begun)
        me = tap.forge.myself()
    if not found.quiet:
        with tap.store.write(*tap.scopes) as tx:
            ingested = ingest_items(tx, tap.repo, me, found.reading.items, tap.settled)
            found = SurfaceResult(place, found.mark, found.reading, ingested)
            note_result(tx, tap, found)
    log_result(tap, found)
    return found


def note_result(tx: Transaction, tap: PollContext, found: SurfaceResult) -> None:
    """What is stored with the events of a surface: cursor, chain, pull requests that moved."""
    place = found.place
    advance_surface(tx, tap, place, found.after)
    store_surface(tx, tap, place, found.reading)
    if place.surface is Surface.REPO_ISSUES:
        shown = {item.number for item in found.ingested.news}
        mark_moved(tx, tap.repo, sorted(shown & _followed_items(tx, tap)) if shown else ())


def advance_surface(
    tx: Transaction, tap: PollContext, place: SurfaceState, mark: CursorState
) -> None:
    """Store where a surface stands, if that is elsewhere now."""
    if is_same_cursor(mark, place.cursor):
        return
    Repo(tap.repo).upsert_poll_cursor(
        tx,
        place.surface,
        place.number,
        last_updated_at=format_timestamp(mark.at),
        last_comment_id=mark.comment_id,
        bootstrap_complete=not mark.fresh,
    )


def store_surface(
    tx: Transaction, tap: PollContext, place: SurfaceState, reading: ListReading
) -> None:
    """Store the chain of a reading, if it is another one."""
    chain = keep_chain(reading)
    if chain != place.chain:
        save_chain(tx, tap.repo, place.surface, place.number, encode_chains(chain))


def log_result(tap: PollContext, found: SurfaceResult, mark: CursorState | None = None) -> None:
    """Say and count what was stored, and how old the mark is."""
    tap.observe("stored", found.place.surface)
    now = tap.forge.now()
    tap.meter.read(found.place.surface, found.reading, found.ingested)
    tap.meter.lag(found.place.surface, (now - (mark or found.after).at).total_seconds())
    log_own_tokens(tap, found.ingested)
    if not found.mark.fresh:
        tap.meter.noticed(now, found.ingested.news)


def log_own_tokens(tap: PollContext, ingested: IngestCounts) -> None:
    """Say which of our writes were seen."""
    for token in ingested.tokens:
        tap.say(names.TOKEN_OBSERVED, token=token)


def _followed_items(tx: Transaction, tap: PollContext) -> set[int]:
    return {pull.pr_number for pull in pulls_in(tx, tap.repo)}


def _read_changes(tap: PollContext, place: SurfaceState, mark: CursorState) -> ListReading:
    try:
        return tap.forge.changes(
            SURFACE_FEEDS[place.surface],
            _read_from(tap, place, mark),
            number=place.number,
            # At first, whatever is open is news to us, however old it is.
            only_open=place.surface is Surface.REPO_ISSUES and mark.fresh,
            known=place.chain,
        )
    except Gone:
        # Issues are switched off; pull requests are talked about all the same.
        if place.surface in PULL_SURFACES:
            raise
        return ListReading((), asked=1)


def _read_from(tap: PollContext, place: SurfaceState, mark: CursorState) -> datetime | None:
    """From when to read; None: everything."""
    whole = place.surface is Surface.REPO_ISSUES or place.surface in PULL_SURFACES
    if place.cursor is None and whole:
        return None
    if place.surface in PULL_SURFACES and mark.fresh:
        # Resumed: what was said meanwhile, but not the whole of a long pause.
        return max(read_since(mark, tap.window), tap.forge.now() - tap.window.safe_backfill)
    if starts_behind(place, mark):
        return read_since_after(mark)
    return max(read_since(mark, tap.window) - place.back, EPOCH)


def _log_surface(tap: PollContext, place: SurfaceState, mark: CursorState) -> None:
    where = {"surface": place.surface.value, "number": place.number}
    if mark.invalid:
        found = place.cursor.last_updated_at if place.cursor else ""
        tap.say(names.CURSOR_INVALID, found=str(found), **where)
    if mark.invalid or mark.fresh:
        begun = _read_from(tap, place, mark)
        tap.say(
            names.INCREMENTAL_SCAN_BACKFILL, since=format_timestamp(begun) if begun else "", **where
        )
