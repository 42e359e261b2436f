"""Decide what one poll reads, and which pull request its sweep request is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zlib import crc32

from hostler.model import Surface

PROBE_SURFACE = Surface.REPO_ISSUES
OTHER_SURFACES = (Surface.REPO_ISSUE_COMMENTS, Surface.REPO_REVIEW_COMMENTS)


@dataclass(frozen=True, slots=True)
class PollCount:
    """Where a repository's rhythm stands, after so many polls. A new one owes everything.

    `phase`: at which poll of the rhythm it reads everything, whatever it has read in between, so
    that many repositories which begin together, or are touched together, do not do it at once.
    """

    polls: int = 0
    owed: bool = True
    phase: int = 0


def is_full_poll_due(pulse: PollCount, *, active: bool, touched: bool, every: int) -> bool:
    """Whether this poll reads more than the tripwire."""
    return active or touched or pulse.owed or (pulse.polls + pulse.phase) % every == 0


def after_poll(pulse: PollCount) -> PollCount:
    """The rhythm after a poll that came through."""
    return PollCount(pulse.polls + 1, owed=False, phase=pulse.phase)


def poll_phase(name: str, every: int) -> int:
    """Where in its rhythm a repository begins: anywhere, and always the same."""
    return crc32(name.encode()) % every


@dataclass(frozen=True, slots=True)
class SweepTarget:
    """One thing to sweep: page 0 is the pull request itself, others are pages of its reviews,
    or the workflow runs of its head.
    """

    number: int
    page: int


# The page of reviews where new ones turn up.
NEWEST_REVIEW_PAGE = -1
# The workflow runs of a head.
RUNS_PAGE = -2


def next_sweep_target(
    last: SweepTarget | None, pages: int, numbers: Sequence[int], *, runs: bool = False
) -> SweepTarget | None:
    """What to sweep after the last, round and round; `pages` of reviews has the last one."""
    if not numbers:
        return None
    if last is not None and last.number in numbers and last.page != RUNS_PAGE:
        if last.page < max(pages, 1):
            return SweepTarget(last.number, last.page + 1)
        if runs:
            return SweepTarget(last.number, RUNS_PAGE)
    behind = [number for number in numbers if last is not None and number > last.number]
    return SweepTarget(min(behind or numbers), 0)


class SweepSchedule:
    """Remembers where the round is. A new one begins at the first pull request."""

    def __init__(self, *, runs: bool = False) -> None:
        """`runs`: whether workflow runs are of use to anybody."""
        self._runs = runs
        self._last: SweepTarget | None = None
        self._pages = 1
        # Pull requests that moved, and until when their reviews may still turn up.
        self._warm: dict[int, datetime] = {}
        self._round = True

    def moved(self, number: int, until: datetime) -> None:
        """A pull request has moved: its reviews may be shown later than that."""
        self._warm[number] = until

    def next(self, followed: Sequence[int], now: datetime) -> SweepTarget | None:
        """What to ask for now. Every second turn is for those that moved, if there are any."""
        known = {number: until for number, until in self._warm.items() if until > now}
        self._warm = {number: known[number] for number in known if number in followed}
        self._round = not self._round or not self._warm
        if self._round:
            return next_sweep_target(self._last, self._pages, followed, runs=self._runs)
        number, until = next(iter(self._warm.items()))
        # To the end of the line.
        del self._warm[number]
        self._warm[number] = until
        return SweepTarget(number, NEWEST_REVIEW_PAGE)

    def swept(self, spot: SweepTarget, pages: int) -> None:
        """This was asked for; its pull request has so many pages of reviews."""
        if spot.page != NEWEST_REVIEW_PAGE:
            self._last, self._pages = spot, pages
