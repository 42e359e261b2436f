"""Check the history and push it from the mirror without force, then verify the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from hostler.checkouts.checkout import PUSHED_REFS
from hostler.checkouts.errors import (
    GitFailed,
    HistoryRewritten,
    PushRaced,
    PushRefused,
    PushUnverified,
    RemoteUnreachable,
)
from hostler.checkouts.mirror import (
    Mirror,
    Remote,
    fetch_mirror,
    is_ancestor,
    lock_mirror,
    read_remote_head,
    set_ref,
)
from hostler.checkouts.names import Sha, require_branch_name

# Whether the first commit is the second, or one of its ancestors.
IsAncestor = Callable[[Sha, Sha], bool]


class HistoryVerdict(StrEnum):
    """What became of the history."""

    GROWN = "grown"
    UNCHANGED = "unchanged"
    BASE_LOST = "base lost"
    PUSHED_LOST = "pushed head lost"


def judge_history(
    is_ancestor: IsAncestor, head: Sha, *, base: Sha, pushed: Sha | None
) -> HistoryVerdict:
    """The base and what was pushed before must be part of the head's history."""
    if pushed is not None and not is_ancestor(pushed, head):
        return HistoryVerdict.PUSHED_LOST
    if not is_ancestor(base, head):
        return HistoryVerdict.BASE_LOST
    return HistoryVerdict.UNCHANGED if head == (pushed or base) else HistoryVerdict.GROWN


def require_history(
    is_ancestor: IsAncestor, head: Sha, *, base: Sha, pushed: Sha | None
) -> HistoryVerdict:
    """The verdict, where it allows a push."""
    verdict = judge_history(is_ancestor, head, base=base, pushed=pushed)
    if verdict is HistoryVerdict.PUSHED_LOST and pushed is not None:
        raise HistoryRewritten("head that was pushed before,", pushed, head)
    if verdict is HistoryVerdict.BASE_LOST:
        raise HistoryRewritten("base", base, head)
    return verdict


class PushMove(StrEnum):
    """What a push would do to the remote branch."""

    ALREADY = "already there"
    CREATE = "create"
    ADVANCE = "advance"
    RACED = "raced"


def plan_push(found: Sha | None, expected: Sha | None, new: Sha) -> PushMove:
    """Decide by what the remote has now and what we expected there."""
    if found == new:
        return PushMove.ALREADY
    if found != expected:
        return PushMove.RACED
    return PushMove.CREATE if found is None else PushMove.ADVANCE


def has_arrived(is_ancestor: IsAncestor, found: Sha | None, new: Sha) -> bool:
    """Whether the remote has the new commit, perhaps with somebody's commits on top."""
    return found is not None and (found == new or is_ancestor(new, found))


@dataclass(frozen=True, slots=True)
class PushResult:
    """A branch that is on the remote; `move` says what it took."""

    branch: str
    commit: Sha
    move: PushMove


def check_history(mirror: Mirror, head: Sha, *, base: Sha, pushed: Sha | None) -> HistoryVerdict:
    """Whether this head may be pushed, by the mirror's history; raises `HistoryRewritten`."""
    return require_history(partial(is_ancestor, mirror), head, base=base, pushed=pushed)


def push_commit(
    mirror: Mirror, remote: Remote, branch: str, new: Sha, expected: Sha | None
) -> PushResult:
    """Bring a commit that the mirror has to a branch of the remote. Nothing is ever forced.

    `expected` is what the branch was at when we last saw it; None: it was not there.
    """
    require_branch_name(branch)
    found = read_remote_head(mirror.git(), remote, branch)
    move = plan_push(found, expected, new)
    if move is PushMove.RACED:
        raise PushRaced(branch, expected, found)
    if move is not PushMove.ALREADY:
        # The lease lets git skip its own check, so the proof has to be ours.
        if expected is not None and not is_ancestor(mirror, expected, new):
            raise HistoryRewritten("head that was pushed before,", expected, new)
        _run_git_push(mirror, remote, branch, new, expected)
    verify_push(mirror, remote, branch, new)
    return PushResult(branch, new, move)


def verify_push(mirror: Mirror, remote: Remote, branch: str, new: Sha) -> None:
    """The remote must show the commit, perhaps with others on top; then we note it."""
    found = read_remote_head(mirror.git(), remote, branch)
    if found is not None and found != new:
        fetch_mirror(mirror, remote)
    if not has_arrived(partial(is_ancestor, mirror), found, new):
        raise PushUnverified(branch, new, found)
    with lock_mirror(mirror) as git:
        set_ref(git, f"{PUSHED_REFS}{branch}", new)
        set_ref(git, f"refs/heads/{branch}", found or new)


def _run_git_push(
    mirror: Mirror, remote: Remote, branch: str, new: Sha, expected: Sha | None
) -> None:
    ref = f"refs/heads/{branch}"
    git = mirror.git().using(remote.access())
    try:
        git(
            *("push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed"),
            *(f"--force-with-lease={ref}:{expected or ''}", remote.url, f"{new}:{ref}"),
        )
    except (GitFailed, RemoteUnreachable) as error:
        _handle_push_error(mirror, remote, branch, new, expected, error)


def _handle_push_error(
    mirror: Mirror,
    remote: Remote,
    branch: str,
    new: Sha,
    expected: Sha | None,
    error: GitFailed | RemoteUnreachable,
) -> None:
    """A push that failed is judged by what the remote has, not by what git said."""
    found = read_remote_head(mirror.git(), remote, branch)
    if found == new:
        return  # It went through, and only the answer was lost.
    if found != expected:
        raise PushRaced(branch, expected, found) from None
    if isinstance(error, RemoteUnreachable):
        raise error
    raise PushRefused(branch, error.said) from None
