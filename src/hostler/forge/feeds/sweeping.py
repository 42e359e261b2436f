"""Whose turn it is in the slow sweep: everybody's in a round, and between them who has moved."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from hostler.forge.feeds.cadence import NEWEST, Spot, next_spot


class Sweeper:
    """Remembers where the round is. A new one begins at the first pull request."""

    def __init__(self, *, runs: bool = False) -> None:
        """`runs`: whether workflow runs are of use to anybody."""
        self._runs = runs
        self._last: Spot | None = None
        self._pages = 1
        # Pull requests that moved, and until when their reviews may still turn up.
        self._warm: dict[int, datetime] = {}
        self._round = True

    def moved(self, number: int, until: datetime) -> None:
        """A pull request has moved: its reviews may be shown later than that."""
        self._warm[number] = until

    def next(self, followed: Sequence[int], now: datetime) -> Spot | None:
        """What to ask for now. Every second turn is for those that moved, if there are any."""
        known = {number: until for number, until in self._warm.items() if until > now}
        self._warm = {number: known[number] for number in known if number in followed}
        self._round = not self._round or not self._warm
        if self._round:
            return next_spot(self._last, self._pages, followed, runs=self._runs)
        number, until = next(iter(self._warm.items()))
        # To the end of the line.
        del self._warm[number]
        self._warm[number] = until
        return Spot(number, NEWEST)

    def swept(self, spot: Spot, pages: int) -> None:
        """This was asked for; its pull request has so many pages of reviews."""
        if spot.page != NEWEST:
            self._last, self._pages = spot, pages
