"""What a poll must know of a repository before it asks: who is followed, and what is owed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hostler.forge.feeds.cadence import REST, TRIPWIRE
from hostler.forge.feeds.chains import unpack
from hostler.forge.feeds.surfaces import Place
from hostler.forge.feeds.tap import Tap
from hostler.model import Surface
from hostler.store.pull_requests import PullStatus, watched_heads
from hostler.store.repositories import chains_at, cursors_at, pulls_moved, threads_in_step
from hostler.store.tasks import OVER, TaskState, tasks_in
from hostler.store.transaction import Transaction

_UNFINISHED = tuple(state for state in TaskState if state not in OVER)


@dataclass(frozen=True, slots=True)
class Standing:
    """A repository's pull requests and threads, by number."""

    awaiting: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()
    # Pull requests by their present heads.
    heads: Mapping[str, int] = field(default_factory=dict)
    # Threads that were scanned and follow the feed.
    in_step: frozenset[int] = frozenset()
    # Where the repository's own feeds stand.
    places: Mapping[Surface, Place] = field(default_factory=dict)
    # Whether an earlier poll has left a pull request to be fetched.
    owed: bool = False

    @property
    def followed(self) -> list[int]:
        """Pull requests that are read at all."""
        return sorted(self.awaiting | self.blocked)

    @property
    def active(self) -> bool:
        """Whether somebody's word may come at any time."""
        return bool(self.awaiting or self.blocked)

    @property
    def unscanned(self) -> list[int]:
        """Threads that begin to be followed."""
        return sorted(self.awaiting - self.in_step)

    @property
    def lapsed(self) -> frozenset[int]:
        """Threads that were followed, and are blocked or over now."""
        return self.in_step - self.awaiting


def stand(tx: Transaction, tap: Tap) -> Standing:
    """How a repository stands."""
    pulls = watched_heads(tx, tap.repo)
    blocked = frozenset(number for number, status, _ in pulls if status is PullStatus.BLOCKED)
    return Standing(
        awaiting=frozenset(number for number, _, _ in pulls) - blocked,
        blocked=blocked,
        heads={head: number for number, _, head in sorted(pulls) if head},
        in_step=frozenset(threads_in_step(tx, tap.repo)),
        places=_places(tx, tap),
        owed=bool(pulls_moved(tx, tap.repo)),
    )


def _places(tx: Transaction, tap: Tap) -> dict[Surface, Place]:
    cursors, chains = cursors_at(tx, tap.repo, 0), chains_at(tx, tap.repo, 0)
    return {
        surface: Place(surface, 0, cursors.get(surface), unpack(chains.get(surface.value, "")))
        for surface in (TRIPWIRE, *REST, Surface.REPO_WORKFLOW_RUNS)
    }


def issue_threads(tx: Transaction, tap: Tap) -> dict[int, Surface]:
    """Issues whose tasks are not over, and as what their conversations are read."""
    return {
        task.number: Surface.ISSUE_POST_PR_REDIRECTS
        if task.pr_number
        else Surface.ISSUE_PRE_PR_FOLLOWUPS
        for task in tasks_in(tx, _UNFINISHED, tap.repo)
        if not task.by_hand
    }
