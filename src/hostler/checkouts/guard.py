"""Rules: which history may be pushed, and what a push would do. Touches nothing."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from hostler.checkouts.errors import HistoryRewritten
from hostler.checkouts.names import Sha

# Whether the first commit is the second, or one of its ancestors.
Ancestry = Callable[[Sha, Sha], bool]


class Verdict(StrEnum):
    """What became of the history."""

    GROWN = "grown"
    UNCHANGED = "unchanged"
    BASE_LOST = "base lost"
    PUSHED_LOST = "pushed head lost"


def judge(is_ancestor: Ancestry, head: Sha, *, base: Sha, pushed: Sha | None) -> Verdict:
    """The base and what was pushed before must be part of the head's history."""
    if pushed is not None and not is_ancestor(pushed, head):
        return Verdict.PUSHED_LOST
    if not is_ancestor(base, head):
        return Verdict.BASE_LOST
    return Verdict.UNCHANGED if head == (pushed or base) else Verdict.GROWN


def require_history(is_ancestor: Ancestry, head: Sha, *, base: Sha, pushed: Sha | None) -> Verdict:
    """The verdict, where it allows a push."""
    verdict = judge(is_ancestor, head, base=base, pushed=pushed)
    if verdict is Verdict.PUSHED_LOST and pushed is not None:
        raise HistoryRewritten("head that was pushed before,", pushed, head)
    if verdict is Verdict.BASE_LOST:
        raise HistoryRewritten("base", base, head)
    return verdict


class Move(StrEnum):
    """What a push would do to the remote branch."""

    ALREADY = "already there"
    CREATE = "create"
    ADVANCE = "advance"
    RACED = "raced"


def plan_push(found: Sha | None, expected: Sha | None, new: Sha) -> Move:
    """Decide by what the remote has now and what we expected there."""
    if found == new:
        return Move.ALREADY
    if found != expected:
        return Move.RACED
    return Move.CREATE if found is None else Move.ADVANCE


def arrived(is_ancestor: Ancestry, found: Sha | None, new: Sha) -> bool:
    """Whether the remote has the new commit, perhaps with somebody's commits on top."""
    return found is not None and (found == new or is_ancestor(new, found))
