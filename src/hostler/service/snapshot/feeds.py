"""How far the lists of a repository were read: what is stored of the delay of polls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hostler.model import RepoName
from hostler.store import Transaction
from hostler.store.repositories import cursors_at

# The feeds of a repository as a whole, not those of one thread.
WHOLE = 0


@dataclass(frozen=True, slots=True)
class FeedRead:
    """One list, and the newest change in it that was read, by GitHub's clock."""

    surface: str
    newest: str

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {"surface": self.surface, "newest": self.newest}


def feeds_read(tx: Transaction, repo: RepoName) -> tuple[FeedRead, ...]:
    """All lists of a repository, by name."""
    found = cursors_at(tx, repo, WHOLE)
    read = (FeedRead(str(name), one.last_updated_at) for name, one in found.items())
    return tuple(sorted(read, key=lambda one: one.surface))
