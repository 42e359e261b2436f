"""One look by hand: all feeds of a repository, and some pull requests."""

from __future__ import annotations

from collections.abc import Sequence

from hostler.forge.feeds.cadence import REST, TRIPWIRE
from hostler.forge.feeds.cursors import Window
from hostler.forge.feeds.polling import Gathered, Scanned, renamed
from hostler.forge.feeds.pulls import fetch
from hostler.forge.feeds.surfaces import draw, find
from hostler.forge.feeds.tap import Tap
from hostler.forge.outbox.sender import SCOPE
from hostler.forge.outbox.settling import Settled, ignore
from hostler.forge.port import Forge
from hostler.model import RepoName
from hostler.store.store import Store


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
    """Read what changed, and these pull requests. Raises `GitHubPollingError`.

    `scopes`: what `settled` writes beside the outbox.
    """
    tap = Tap(store, forge, repo, window or Window(), settled, (SCOPE, *scopes))
    before, found = forge.cost().requests, Gathered()
    for surface in (TRIPWIRE, *REST):
        with store.read() as tx:
            place = find(tx, tap, surface)
        found.drawn(draw(tap, place))
    for number in pulls:
        found.fetched(number, fetch(tap, number))
    return Scanned(
        found.ingested,
        tuple(found.unfinished),
        tuple(found.reset),
        tuple(found.gone),
        renamed(tap),
        forge.cost().requests - before,
    )
