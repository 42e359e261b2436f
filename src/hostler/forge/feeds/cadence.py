"""Rules of cadence: what one poll reads, and what its one request of the sweep is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from hostler.model import Surface

TRIPWIRE = Surface.REPO_ISSUES
REST = (Surface.REPO_ISSUE_COMMENTS, Surface.REPO_REVIEW_COMMENTS)


@dataclass(frozen=True, slots=True)
class Pulse:
    """Where a repository's rhythm stands, after so many polls. A new one owes everything.

    `phase`: at which poll of the rhythm it reads everything, whatever it has read in between, so
    that many repositories which begin together, or are touched together, do not do it at once.
    """

    polls: int = 0
    owed: bool = True
    phase: int = 0


def rest_due(pulse: Pulse, *, active: bool, touched: bool, every: int) -> bool:
    """Whether this poll reads more than the tripwire."""
    return active or touched or pulse.owed or (pulse.polls + pulse.phase) % every == 0


def after(pulse: Pulse) -> Pulse:
    """The rhythm after a poll that came through."""
    return Pulse(pulse.polls + 1, owed=False, phase=pulse.phase)


def phase_of(name: str, every: int) -> int:
    """Where in its rhythm a repository begins: anywhere, and always the same."""
    return crc32(name.encode()) % every


@dataclass(frozen=True, slots=True)
class Spot:
    """One thing to sweep: page 0 is the pull request itself, others are pages of its reviews,
    or the workflow runs of its head.
    """

    number: int
    page: int


# The page of reviews where new ones turn up.
NEWEST = -1
# The workflow runs of a head.
RUNS = -2


def next_spot(
    last: Spot | None, pages: int, numbers: Sequence[int], *, runs: bool = False
) -> Spot | None:
    """What to sweep after the last, round and round; `pages` of reviews has the last one."""
    if not numbers:
        return None
    if last is not None and last.number in numbers and last.page != RUNS:
        if last.page < max(pages, 1):
            return Spot(last.number, last.page + 1)
        if runs:
            return Spot(last.number, RUNS)
    behind = [number for number in numbers if last is not None and number > last.number]
    return Spot(min(behind or numbers), 0)
