"""GitHub's limits, and which part of them is ours."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

# What polls should come to use of a share, by stretching; in the hour they never use more.
AIM_PERCENT = 90
# What polls may use of the minute and of the places at most: bursts are ordinary.
MOST_PERCENT = 95
MINUTE, HOUR = 60.0, 3600.0


class Kind(Enum):
    """What a request is, for GitHub's limits and for who goes first."""

    # A poll: it can be asked later as well.
    READ = ("read", 1)
    # A read that a write depends on.
    URGENT = ("urgent", 1)
    WRITE = ("write", 5)
    CREATION = ("creation", 5)

    def __init__(self, _name: str, points: int) -> None:
        # What it costs of the minute.
        self.points = points


@dataclass(frozen=True, slots=True)
class Caps:
    """The limits that GitHub documents, and how much of each may be used."""

    points_per_minute: int = 900
    creations_per_minute: int = 80
    creations_per_hour: int = 500
    concurrent: int = 100
    percent: int = 80

    def share(self, limit: int) -> int:
        """Our part of a limit: never nothing."""
        return max(limit * self.percent // 100, 1)

    def points(self, kind: Kind) -> int:
        """The points that requests of a kind may bring the minute to."""
        share = self.share(self.points_per_minute)
        return for_polls(share, MOST_PERCENT, Kind.WRITE.points) if kind is Kind.READ else share

    def places(self, kind: Kind) -> int:
        """How many may be under way once one of this kind is."""
        share = self.share(self.concurrent)
        return for_polls(share, MOST_PERCENT) if kind is Kind.READ else share

    def hourly(self, kind: Kind, limit: int) -> int:
        """What requests of a kind may bring the hour to."""
        share = self.share(limit)
        return for_polls(share, AIM_PERCENT) if kind is Kind.READ else share


def for_polls(share: int, percent: int, write: int = 1) -> int:
    """What polls may use of a share: so much of it, and so that one write has room."""
    return max(min(share * percent // 100, share - write), 1)
