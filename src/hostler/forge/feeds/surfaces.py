"""One surface: read from its cursor on, and stored with it in one transaction."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hostler.errors import Gone
from hostler.forge.changing import since_text
from hostler.forge.feeds.chains import kept, pack, unpack
from hostler.forge.feeds.cursors import (
    Mark,
    behind,
    is_same,
    is_settled,
    moved,
    since,
    start,
    stored,
)
from hostler.forge.feeds.inbox import Ingested, ingest
from hostler.forge.feeds.tap import Tap
from hostler.forge.port import Chain, Feed, Reading
from hostler.model import EPOCH, PollCursor, Surface, stamp
from hostler.store.pull_requests import pulls_in
from hostler.store.repositories import PULL_SURFACES, Repo, find_chain, mark_moved, save_chain
from hostler.store.transaction import Transaction
from hostler.telemetry import names

FEEDS: dict[Surface, Feed] = {
    Surface.REPO_ISSUES: Feed.ISSUES,
    Surface.REPO_ISSUE_COMMENTS: Feed.ISSUE_COMMENTS,
    Surface.REPO_REVIEW_COMMENTS: Feed.REVIEW_COMMENTS,
    Surface.REPO_WORKFLOW_RUNS: Feed.WORKFLOW_RUNS,
    Surface.PR_ISSUE_COMMENTS: Feed.THREAD_COMMENTS,
    Surface.PR_REVIEW_COMMENTS: Feed.THREAD_REVIEW_COMMENTS,
    Surface.ISSUE_PRE_PR_FOLLOWUPS: Feed.THREAD_COMMENTS,
    Surface.ISSUE_POST_PR_REDIRECTS: Feed.THREAD_COMMENTS,
    Surface.ISSUE_OPERATOR_COMMANDS: Feed.THREAD_COMMENTS,
}


# Feeds of a whole repository, in the order of change.
WIDE = (Surface.REPO_ISSUES, Surface.REPO_ISSUE_COMMENTS, Surface.REPO_REVIEW_COMMENTS)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a surface stands: its cursor and its chain, as stored."""

    surface: Surface
    number: int = 0
    cursor: PollCursor | None = None
    chain: Chain = ()
    # How much farther back to read this time.
    back: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a surface gave, and what became of it."""

    place: Place
    mark: Mark
    reading: Reading
    ingested: Ingested = field(default_factory=Ingested)

    @property
    def after(self) -> Mark:
        """Where the surface stands now."""
        # A list by id was read as far as it ever can be.
        by_id = FEEDS[self.place.surface] is Feed.THREAD_COMMENTS
        return moved(self.mark, self.reading.items, complete=self.reading.complete or by_id)

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to store."""
        same = kept(self.reading) == self.place.chain and is_same(self.after, self.place.cursor)
        return same and not self.reading.items


def find(tx: Transaction, tap: Tap, surface: Surface, number: int = 0) -> Place:
    """Where a surface stands."""
    cursor = Repo(tap.repo).get_poll_cursor(tx, surface, number)
    return Place(surface, number, cursor, unpack(find_chain(tx, tap.repo, surface, number)))


def begins_behind(place: Place, mark: Mark) -> bool:
    """Whether the last reading began behind the mark, because nothing before it can change."""
    known = place.surface in WIDE and place.chain and not (mark.fresh or mark.invalid or place.back)
    return bool(known) and place.chain[0].anchor == since_text(behind(mark))


def _may_settle(tap: Tap, place: Place) -> datetime | None:
    """When a reading begins that may be long, by GitHub's time; None: it is as short as can be."""
    known = place.surface in WIDE and place.cursor is not None
    return tap.forge.now() if known and len(place.chain) != 1 else None


def _settled(tap: Tap, found: Drawn, begun: datetime | None) -> Drawn:
    """Read on from behind the mark, where so much happened last that it fills several pages.

    They would be asked for in each poll until something else happens.
    """
    reading, mark = found.reading, found.after
    if begun is None or found.mark.fresh or not reading.complete or len(reading.chain) < 2:
        return found
    # By its beginning: what is shown late may have come after its first page was read.
    if not is_settled(mark, begun, tap.window):
        return found
    more = tap.forge.changes(FEEDS[found.place.surface], behind(mark))
    asked, pages = reading.asked + more.asked, reading.pages + more.pages
    items = (*reading.items, *more.items)
    return replace(found, reading=replace(more, items=items, asked=asked, pages=pages))


def ask(tap: Tap, place: Place) -> Drawn:
    """Read a surface on from where it stands. GitHub's answer tells whether that can be."""
    mark = stored(place.cursor) or start(place.cursor, tap.forge.now(), tap.window)
    reading = _read(tap, place, mark)
    judged = start(place.cursor, tap.forge.now(), tap.window)
    if judged.invalid and not mark.invalid:
        mark, reading = judged, _read(tap, place, judged)
    tap.observe("read", place.surface)
    _tell(tap, place, mark)
    return Drawn(place, mark, reading)


def draw(tap: Tap, place: Place) -> Drawn:
    """Read a surface, and store what it gave together with its cursor."""
    with tap.polling(place.surface):
        begun = _may_settle(tap, place)
        found = _settled(tap, ask(tap, place), begun)
        me = tap.forge.myself()
    if not found.quiet:
        with tap.store.write(*tap.scopes) as tx:
            ingested = ingest(tx, tap.repo, me, found.reading.items, tap.settled)
            found = Drawn(place, found.mark, found.reading, ingested)
            note(tx, tap, found)
    told(tap, found)
    return found


def note(tx: Transaction, tap: Tap, found: Drawn) -> None:
    """What is stored with the events of a surface: cursor, chain, pull requests that moved."""
    place = found.place
    advance(tx, tap, place, found.after)
    keep(tx, tap, place, found.reading)
    if place.surface is Surface.REPO_ISSUES:
        shown = {item.number for item in found.ingested.news}
        mark_moved(tx, tap.repo, sorted(shown & _followed(tx, tap)) if shown else ())


def advance(tx: Transaction, tap: Tap, place: Place, mark: Mark) -> None:
    """Store where a surface stands, if that is elsewhere now."""
    if is_same(mark, place.cursor):
        return
    Repo(tap.repo).upsert_poll_cursor(
        tx,
        place.surface,
        place.number,
        last_updated_at=stamp(mark.at),
        last_comment_id=mark.comment_id,
        bootstrap_complete=not mark.fresh,
    )


def keep(tx: Transaction, tap: Tap, place: Place, reading: Reading) -> None:
    """Store the chain of a reading, if it is another one."""
    chain = kept(reading)
    if chain != place.chain:
        save_chain(tx, tap.repo, place.surface, place.number, pack(chain))


def told(tap: Tap, found: Drawn, mark: Mark | None = None) -> None:
    """Say and count what was stored, and how old the mark is."""
    tap.observe("stored", found.place.surface)
    now = tap.forge.now()
    tap.meter.read(found.place.surface, found.reading, found.ingested)
    tap.meter.lag(found.place.surface, (now - (mark or found.after).at).total_seconds())
    tell_tokens(tap, found.ingested)
    if not found.mark.fresh:
        tap.meter.noticed(now, found.ingested.news)


def tell_tokens(tap: Tap, ingested: Ingested) -> None:
    """Say which of our writes were seen."""
    for token in ingested.tokens:
        tap.say(names.TOKEN_OBSERVED, token=token)


def _followed(tx: Transaction, tap: Tap) -> set[int]:
    return {pull.pr_number for pull in pulls_in(tx, tap.repo)}


def _read(tap: Tap, place: Place, mark: Mark) -> Reading:
    try:
        return tap.forge.changes(
            FEEDS[place.surface],
            _from(tap, place, mark),
            number=place.number,
            # At first, whatever is open is news to us, however old it is.
            only_open=place.surface is Surface.REPO_ISSUES and mark.fresh,
            known=place.chain,
        )
    except Gone:
        # Issues are switched off; pull requests are talked about all the same.
        if place.surface in PULL_SURFACES:
            raise
        return Reading((), asked=1)


def _from(tap: Tap, place: Place, mark: Mark) -> datetime | None:
    """From when to read; None: everything."""
    whole = place.surface is Surface.REPO_ISSUES or place.surface in PULL_SURFACES
    if place.cursor is None and whole:
        return None
    if place.surface in PULL_SURFACES and mark.fresh:
        # Resumed: what was said meanwhile, but not the whole of a long pause.
        return max(since(mark, tap.window), tap.forge.now() - tap.window.safe_backfill)
    if begins_behind(place, mark):
        return behind(mark)
    return max(since(mark, tap.window) - place.back, EPOCH)


def _tell(tap: Tap, place: Place, mark: Mark) -> None:
    where = {"surface": place.surface.value, "number": place.number}
    if mark.invalid:
        found = place.cursor.last_updated_at if place.cursor else ""
        tap.say(names.CURSOR_INVALID, found=str(found), **where)
    if mark.invalid or mark.fresh:
        begun = _from(tap, place, mark)
        tap.say(names.INCREMENTAL_SCAN_BACKFILL, since=stamp(begun) if begun else "", **where)
