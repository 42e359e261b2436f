"""One look at a repository: what changed goes into the inbox, and the cursors move with it.

Every surface is read first and then stored in one transaction of its own, so that a cursor
never moves without its events. Nothing is held while GitHub is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from hostler.errors import ForgeError, GitHubPollingError, Gone, Moved, NotFound
from hostler.forge.feeds.cursors import Mark, Window, is_same, moved, since, start
from hostler.forge.feeds.inbox import Ingested, ingest
from hostler.forge.outbox.sender import SCOPE
from hostler.forge.outbox.settling import Settled, ignore
from hostler.forge.port import Feed, Forge, Item, Reading
from hostler.model import PollCursor, RepoName, Surface, stamp
from hostler.store.repo import Repo
from hostler.store.store import Store
from hostler.store.transaction import Transaction

FEEDS: dict[Surface, Feed] = {
    Surface.REPO_ISSUES: Feed.ISSUES,
    Surface.REPO_ISSUE_COMMENTS: Feed.ISSUE_COMMENTS,
    Surface.REPO_REVIEW_COMMENTS: Feed.REVIEW_COMMENTS,
}
PULLS = "pulls"


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a scan found."""

    ingested: Ingested = field(default_factory=Ingested)
    # Feeds that were too long for one scan: the next goes on from there.
    unfinished: tuple[Surface, ...] = ()
    # Cursors that could not be believed and were set back.
    reset: tuple[Surface, ...] = ()
    # Watched pull requests that are not there any more.
    gone: tuple[int, ...] = ()
    # The repository's present name, where it has another one now.
    renamed_to: RepoName | None = None
    requests: int = 0


def scan(
    store: Store,
    forge: Forge,
    repo: RepoName,
    window: Window | None = None,
    *,
    pulls: Sequence[int] = (),
    settled: Settled = ignore,
    scopes: tuple[str, ...] = (),
) -> Scanned:
    """Read what changed, and the pull requests that are watched. Raises `GitHubPollingError`.

    `scopes`: what `settled` writes beside the outbox.
    """
    return _Scan(store, forge, repo, window or Window(), settled, (SCOPE, *scopes)).run(pulls)


@dataclass(frozen=True, slots=True)
class _Scan:
    """One scan under way."""

    store: Store
    forge: Forge
    repo: RepoName
    window: Window
    settled: Settled
    scopes: tuple[str, ...]

    def run(self, pulls: Sequence[int]) -> Scanned:
        before = self.forge.cost().requests
        scanned = Scanned()
        for surface in FEEDS:
            with _polling(self.repo, surface):
                scanned = self._feed(surface, scanned)
        with _polling(self.repo, PULLS):
            scanned = self._pulls(pulls, scanned)
            name = self.forge.repository().name if self.forge.renamed() else self.repo
        return replace(
            scanned,
            renamed_to=None if name == self.repo else name,
            requests=self.forge.cost().requests - before,
        )

    def _feed(self, surface: Surface, scanned: Scanned) -> Scanned:
        with self.store.read() as tx:
            cursor = Repo(self.repo).get_poll_cursor(tx, surface, 0)
        me = self.forge.myself()
        mark = start(cursor, self.forge.now(), self.window)
        reading = self._read(surface, cursor, mark)
        with self.store.write(*self.scopes) as tx:
            ingested = ingest(tx, self.repo, me, reading.items, self.settled)
            after = moved(mark, reading.items, complete=reading.complete)
            _advance(tx, self.repo, surface, cursor, after)
        return replace(
            scanned,
            ingested=scanned.ingested + ingested,
            unfinished=scanned.unfinished + (() if reading.complete else (surface,)),
            reset=scanned.reset + ((surface,) if mark.invalid else ()),
        )

    def _read(self, surface: Surface, cursor: PollCursor | None, mark: Mark) -> Reading:
        from_when = since(mark, self.window)
        if surface is not Surface.REPO_ISSUES:
            return self.forge.changes(FEEDS[surface], from_when)
        try:
            # At first, whatever is open is news to us, however old it is.
            oldest = None if cursor is None else from_when
            return self.forge.changes(Feed.ISSUES, oldest, only_open=mark.fresh)
        except Gone:
            # Issues are switched off; pull requests are talked about all the same.
            return Reading(())

    def _pulls(self, numbers: Sequence[int], scanned: Scanned) -> Scanned:
        items: list[Item] = []
        gone: list[int] = []
        for number in numbers:
            try:
                items += [self.forge.pull(number), *self.forge.reviews(number)]
            except (NotFound, Gone, Moved):
                gone.append(number)
        if items:
            me = self.forge.myself()
            with self.store.write(*self.scopes) as tx:
                ingested = ingest(tx, self.repo, me, items, self.settled)
            scanned = replace(scanned, ingested=scanned.ingested + ingested)
        return replace(scanned, gone=tuple(gone))


def _advance(
    tx: Transaction, repo: RepoName, surface: Surface, cursor: PollCursor | None, mark: Mark
) -> None:
    if is_same(mark, cursor):
        return
    Repo(repo).upsert_poll_cursor(
        tx,
        surface,
        0,
        last_updated_at=stamp(mark.at),
        last_comment_id=mark.comment_id,
        bootstrap_complete=not mark.fresh,
    )


@contextmanager
def _polling(repo: RepoName, surface: str) -> Iterator[None]:
    try:
        yield
    except ForgeError as error:
        raise GitHubPollingError(str(repo), str(surface), error) from error
