"""Pull requests fetched singly: those that have moved, and one at a time for the slow sweep."""

from __future__ import annotations

from dataclasses import dataclass, field

from hostler.errors import Gone, Moved, NotFound
from hostler.forge.feeds.cadence import NEWEST, Spot
from hostler.forge.feeds.chains import pack, page_count, page_of, spliced, unpack
from hostler.forge.feeds.inbox import Ingested, ingest
from hostler.forge.feeds.surfaces import tell_tokens
from hostler.forge.feeds.tap import Tap
from hostler.forge.port import Chain, Feed, Reading
from hostler.store.repositories import chains_at, clear_moved, save_chain
from hostler.store.transaction import Transaction

# Lists that know no `since`: they have a chain and no cursor.
PULL, REVIEWS = "pull", "pull_reviews"
MISSING = (NotFound, Gone, Moved)


@dataclass(frozen=True, slots=True)
class Chains:
    """What is known of a pull request and of its reviews."""

    pull: Chain = ()
    reviews: Chain = ()


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a pull request gave; None where it was not asked. `gone`: it is not there any more."""

    pull: Reading | None = None
    reviews: Reading | None = None
    ingested: Ingested = field(default_factory=Ingested)
    gone: bool = False
    pages: int = 1

    @property
    def quiet(self) -> bool:
        """Whether nothing is new."""
        return all(one is None or one.unchanged for one in (self.pull, self.reviews))


def chains_of(tx: Transaction, tap: Tap, number: int) -> Chains:
    """What is known of a pull request."""
    found = chains_at(tx, tap.repo, number)
    return Chains(unpack(found.get(PULL, "")), unpack(found.get(REVIEWS, "")))


def fetch(tap: Tap, number: int) -> Fetched:
    """A pull request that has moved: itself, and its reviews from the last known page on."""
    with tap.store.read() as tx:
        known = chains_of(tx, tap, number)
    with tap.polling(PULL):
        try:
            found = Fetched(
                tap.forge.changes(Feed.PULL, None, number=number, known=known.pull),
                tap.forge.changes(Feed.REVIEWS, None, number=number, known=known.reviews[-1:]),
            )
        except MISSING:
            found = Fetched(gone=True)
    return _store(tap, number, known, found, moved=True)


def sweep(tap: Tap, spot: Spot) -> Fetched:
    """One request for one thing of a pull request, in case it changed and nothing said so."""
    with tap.store.read() as tx:
        known = chains_of(tx, tap, spot.number)
    with tap.polling(PULL):
        try:
            found = _glance(tap, spot, known)
        except MISSING:
            found = Fetched(gone=True)
    return _store(tap, spot.number, known, found, moved=False)


def _glance(tap: Tap, spot: Spot, known: Chains) -> Fetched:
    if spot.page == 0:
        feed = tap.forge.changes(Feed.PULL, None, number=spot.number, known=known.pull)
        return Fetched(pull=feed)
    number = max(len(known.reviews), 1) if spot.page == NEWEST else spot.page
    page = page_of(known.reviews, number)
    feed = tap.forge.changes(Feed.REVIEWS, None, number=spot.number, known=(page,), one_page=True)
    return Fetched(reviews=feed)


def _store(tap: Tap, number: int, known: Chains, found: Fetched, *, moved: bool) -> Fetched:
    tap.observe("read", PULL)
    ingested, reviews = Ingested(), known.reviews
    if moved or not (found.gone or found.quiet):
        me = tap.forge.myself()
        with tap.store.write(*tap.scopes) as tx:
            items = [item for one in (found.pull, found.reviews) if one for item in one.items]
            ingested = ingest(tx, tap.repo, me, items, tap.settled)
            reviews = keep_chains(tx, tap, number, known, found)
            if moved:
                clear_moved(tx, tap.repo, number)
    tap.observe("stored", PULL)
    _count(tap, found, ingested)
    return Fetched(found.pull, found.reviews, ingested, found.gone, page_count(reviews))


def keep_chains(tx: Transaction, tap: Tap, number: int, known: Chains, found: Fetched) -> Chain:
    """Store what is known from now on; the chain of the reviews."""
    if found.pull is not None and found.pull.chain != known.pull:
        save_chain(tx, tap.repo, PULL, number, pack(found.pull.chain))
    if found.reviews is None:
        return known.reviews
    reviews = spliced(known.reviews, found.reviews.chain)
    if reviews != known.reviews:
        save_chain(tx, tap.repo, REVIEWS, number, pack(reviews))
    return reviews


def _count(tap: Tap, found: Fetched, ingested: Ingested) -> None:
    for surface, one in ((PULL, found.pull), (REVIEWS, found.reviews)):
        if one is not None:
            # What was new is told once, with the last list.
            last = surface == REVIEWS or found.reviews is None
            tap.meter.read(surface, one, ingested if last else Ingested())
    tell_tokens(tap, ingested)
