"""Whole threads: a pull request's when it begins to be followed, or all of them in each poll."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hostler.errors import GitHubPollingError
from hostler.forge.feeds.cursors import Mark, since, start
from hostler.forge.feeds.inbox import Ingested, Sifted, observe, sift, summed
from hostler.forge.feeds.pulls import MISSING, Chains, Fetched, chains_of, keep_chains
from hostler.forge.feeds.surfaces import Drawn, Place, ask, draw, find, keep, tell_tokens
from hostler.forge.feeds.tap import Tap
from hostler.forge.port import Feed, Item
from hostler.model import Surface, stamp
from hostler.store.inbox import FeedbackScan, Observed, Watermark
from hostler.store.outbox import WriteState
from hostler.store.repositories import Repo, clear_moved
from hostler.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Thread:
    """What is stored about a pull request's thread."""

    number: int
    reviewed: Place
    talked: Place
    chains: Chains

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

    ingested: Ingested = field(default_factory=Ingested)
    reset: tuple[Surface, ...] = ()
    gone: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """Everything that was read of a thread."""

    reviewed: Drawn
    talked: Drawn
    fetched: Fetched

    @property
    def items(self) -> list[Item]:
        lists = (self.reviewed.reading, self.talked.reading)
        more = (self.fetched.pull, self.fetched.reviews)
        return [item for one in (*lists, *more) if one is not None for item in one.items]


def scan_thread(tap: Tap, number: int) -> ThreadRead:
    """Read a pull request's thread on from its cursors; all of it, where it has none."""
    with tap.store.read() as tx:
        thread = _thread(tx, tap, number)
    with tap.polling(Surface.PR_ISSUE_COMMENTS):
        try:
            found = _read(tap, thread)
        except MISSING:
            return _gone(tap, thread)
        me = tap.forge.myself()
    if not thread.whole and _quiet(found):
        return ThreadRead()
    with tap.store.write(*tap.scopes) as tx:
        sifted = sift(tx, tap.repo, me, found.items)
        ingested = _store(tx, tap, thread, found, sifted)
    _tell(tap, found, ingested)
    resets = (d.place.surface for d in (found.reviewed, found.talked) if d.mark.invalid)
    return ThreadRead(ingested, tuple(resets))


def read_issue(tap: Tap, surface: Surface, number: int) -> ThreadRead:
    """Read the conversation of an issue on from its cursor."""
    with tap.store.read() as tx:
        place = find(tx, tap, surface, number)
    try:
        found = draw(tap, place)
    except GitHubPollingError as error:
        if not isinstance(error.cause, MISSING):
            raise
        return ThreadRead(gone=True)
    return ThreadRead(found.ingested, (surface,) if found.mark.invalid else ())


def _thread(tx: Transaction, tap: Tap, number: int) -> Thread:
    return Thread(
        number,
        find(tx, tap, Surface.PR_REVIEW_COMMENTS, number),
        find(tx, tap, Surface.PR_ISSUE_COMMENTS, number),
        chains_of(tx, tap, number),
    )


def _read(tap: Tap, thread: Thread) -> _Found:
    """A whole scan relies on nothing that was read before."""
    number, whole = thread.number, thread.whole
    known = Chains() if whole else thread.chains
    reviewed, talked = thread.reviewed, thread.talked
    if whole:
        reviewed, talked = replace(reviewed, chain=()), replace(talked, chain=())
    fetched = Fetched(
        tap.forge.changes(Feed.PULL, None, number=number, known=known.pull),
        tap.forge.changes(Feed.REVIEWS, None, number=number, known=known.reviews[-1:]),
    )
    lines = _to_the_end(tap, ask(tap, reviewed)) if whole else ask(tap, reviewed)
    return _Found(lines, ask(tap, talked), fetched)


def _to_the_end(tap: Tap, found: Drawn) -> Drawn:
    """Read on where a first reading was cut short: it is stored as the whole thread.

    A conversation comes by id, and is always read as far as it goes.
    """
    while not found.reading.complete:
        reached = found.after
        more = tap.forge.changes(
            Feed.THREAD_REVIEW_COMMENTS, since(reached, tap.window), number=found.place.number
        )
        reading = replace(more, items=(*found.reading.items, *more.items))
        found = replace(found, reading=reading)
        if found.after == reached:
            # More lines in one moment than GitHub pages through: there is no way behind them.
            break
    return found


def _quiet(found: _Found) -> bool:
    return found.reviewed.quiet and found.talked.quiet and found.fetched.quiet


def _store(tx: Transaction, tap: Tap, thread: Thread, found: _Found, sifted: Sifted) -> Ingested:
    """Events, seen writes, cursors and chains of a thread, and that it need not be fetched."""
    for write, item in sifted.seen:
        if write.state is not WriteState.SENT:
            observe(tx, write, item, tap.settled)
    scan = FeedbackScan(
        pr_number=thread.number,
        events=tuple(sifted.rows.values()),
        observed=tuple(
            Observed(write.token, item.id, item.updated_at)
            for write, item in sifted.seen
            if write.state is WriteState.SENT
        ),
        review_comments=_watermark(found.reviewed.after),
        issue_comments=_watermark(found.talked.after),
    )
    repo = Repo(tap.repo)
    if thread.whole:
        stored = repo.seed_feedback_cursors_from_full_scan(tx, scan)
    else:
        stored = repo.ingest_feedback_scan_batch(tx, scan)
    keep(tx, tap, thread.reviewed, found.reviewed.reading)
    keep(tx, tap, thread.talked, found.talked.reading)
    keep_chains(tx, tap, thread.number, thread.chains, found.fetched)
    clear_moved(tx, tap.repo, thread.number)
    return summed(sifted, stored.new)


def _gone(tap: Tap, thread: Thread) -> ThreadRead:
    """One that is not there any more is not asked for again."""
    if thread.whole:
        mark = _watermark(start(None, tap.forge.now(), tap.window))
        scan = FeedbackScan(thread.number, review_comments=mark, issue_comments=mark)
        with tap.store.write(*tap.scopes) as tx:
            Repo(tap.repo).seed_feedback_cursors_from_full_scan(tx, scan)
            clear_moved(tx, tap.repo, thread.number)
    return ThreadRead(gone=True)


def _watermark(mark: Mark) -> Watermark:
    return Watermark(stamp(mark.at), mark.comment_id)


def _tell(tap: Tap, found: _Found, ingested: Ingested) -> None:
    tap.observe("stored", "thread")
    kinds = {found.reviewed.place.surface: found.reviewed, found.talked.place.surface: found.talked}
    for surface, drawn in kinds.items():
        keys = {id(item) for item in drawn.reading.items}
        mine = Ingested(
            new=sum(id(item) in keys for item in ingested.news),
            replayed=sum(id(item) in keys for item in ingested.known),
            news=tuple(item for item in ingested.news if id(item) in keys),
            known=tuple(item for item in ingested.known if id(item) in keys),
        )
        tap.meter.read(surface, drawn.reading, mine)
    tell_tokens(tap, ingested)
