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
    """The number of polls of a repository. In a new one, a full poll is due.

    `phase`: at which poll of the cycle it reads everything, so that many repositories that start
    together do not do it at once.
    """

    polls: int = 0
    is_due: bool = True
    phase: int = 0


def is_full_poll_due(poll_count: PollCount, *, active: bool, touched: bool, every: int) -> bool:
    """Return whether this poll reads more than the probe."""
    return (
        active or touched or poll_count.is_due or (poll_count.polls + poll_count.phase) % every == 0
    )


def after_poll(poll_count: PollCount) -> PollCount:
    """Return the count after a successful poll."""
    return PollCount(poll_count.polls + 1, is_due=False, phase=poll_count.phase)


def poll_phase(name: str, every: int) -> int:
    """Return where in the cycle a repository starts; constant per name."""
    return crc32(name.encode()) % every


@dataclass(frozen=True, slots=True)
class SweepTarget:
    """One part of the sweep: page 0 is the pull request itself, others are pages of its reviews,
    or the workflow runs of its head.
    """

    number: int
    page: int


# The last page of reviews, where new ones appear.
NEWEST_REVIEW_PAGE = -1
# The workflow runs of a head.
RUNS_PAGE = -2


def next_sweep_target(
    last: SweepTarget | None, pages: int, numbers: Sequence[int], *, runs: bool = False
) -> SweepTarget | None:
    """Return the target after the last one, in cycles; there are `pages` pages of reviews."""
    if not numbers:
        return None
    if last is not None and last.number in numbers and last.page != RUNS_PAGE:
        if last.page < max(pages, 1):
            return SweepTarget(last.number, last.page + 1)
        if runs:
            return SweepTarget(last.number, RUNS_PAGE)
    later = [number for number in numbers if last is not None and number > last.number]
    return SweepTarget(min(later or numbers), 0)


class SweepSchedule:
    """Remembers the last target of the sweep. A new one starts at the first pull request."""

    def __init__(self, *, runs: bool = False) -> None:
        """`runs`: whether workflow runs are used."""
        self._runs = runs
        self._last: SweepTarget | None = None
        self._pages = 1
        # Pull requests that changed, and until when new reviews may appear late.
        self._recently_moved: dict[int, datetime] = {}
        self._is_round_turn = True

    def note_move(self, number: int, until: datetime) -> None:
        """Note that a pull request has changed: reviews may appear until then."""
        self._recently_moved[number] = until

    def next_target(self, followed: Sequence[int], now: datetime) -> SweepTarget | None:
        """Return the next target. Every second one is a pull request that changed, if any."""
        known = {number: until for number, until in self._recently_moved.items() if until > now}
        self._recently_moved = {number: known[number] for number in known if number in followed}
        self._is_round_turn = not self._is_round_turn or not self._recently_moved
        if self._is_round_turn:
            return next_sweep_target(self._last, self._pages, followed, runs=self._runs)
        number, until = next(iter(self._recently_moved.items()))
        # Move it to the end of the queue.
        del self._recently_moved[number]
        self._recently_moved[number] = until
        return SweepTarget(number, NEWEST_REVIEW_PAGE)

    def note_sweep(self, target: SweepTarget, pages: int) -> None:
        """Note that a target was read; its pull request has this many pages of reviews."""
        if target.page != NEWEST_REVIEW_PAGE:
            self._last, self._pages = target, pages
