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

# Return whether the first commit is the second, or one of its ancestors.
IsAncestor = Callable[[Sha, Sha], bool]


class HistoryVerdict(StrEnum):
    """How the history has changed."""

    GROWN = "grown"
    UNCHANGED = "unchanged"
    BASE_LOST = "base lost"
    PUSHED_LOST = "pushed head lost"


def judge_history(
    is_ancestor: IsAncestor, head: Sha, *, base: Sha, pushed: Sha | None
) -> HistoryVerdict:
    """Check that the base and the last pushed commit are part of the head's history."""
    if pushed is not None and not is_ancestor(pushed, head):
        return HistoryVerdict.PUSHED_LOST
    if not is_ancestor(base, head):
        return HistoryVerdict.BASE_LOST
    return HistoryVerdict.UNCHANGED if head == (pushed or base) else HistoryVerdict.GROWN


def require_history(
    is_ancestor: IsAncestor, head: Sha, *, base: Sha, pushed: Sha | None
) -> HistoryVerdict:
    """Return the verdict if it permits a push. Raise otherwise."""
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
    """Decide by the remote's current commit and the expected one."""
    if found == new:
        return PushMove.ALREADY
    if found != expected:
        return PushMove.RACED
    return PushMove.CREATE if found is None else PushMove.ADVANCE


def has_arrived(is_ancestor: IsAncestor, found: Sha | None, new: Sha) -> bool:
    """Return whether the remote has the new commit, possibly with other commits on top."""
    return found is not None and (found == new or is_ancestor(new, found))


@dataclass(frozen=True, slots=True)
class PushResult:
    """A branch that is on the remote; `move` says what was needed."""

    branch: str
    commit: Sha
    move: PushMove


def check_history(mirror: Mirror, head: Sha, *, base: Sha, pushed: Sha | None) -> HistoryVerdict:
    """Check by the mirror's history that this head may be pushed. Raises `HistoryRewritten`."""
    return require_history(partial(is_ancestor, mirror), head, base=base, pushed=pushed)


def push_commit(
    mirror: Mirror, remote: Remote, branch: str, new: Sha, expected: Sha | None
) -> PushResult:
    """Push a commit of the mirror to a branch of the remote. Never force-pushes.

    `expected` is the last known commit of the branch; None: it did not exist.
    """
    require_branch_name(branch)
    found = read_remote_head(mirror.git(), remote, branch)
    move = plan_push(found, expected, new)
    if move is PushMove.RACED:
        raise PushRaced(branch, expected, found)
    if move is not PushMove.ALREADY:
        # The lease makes git skip its own fast-forward check, so check here.
        if expected is not None and not is_ancestor(mirror, expected, new):
            raise HistoryRewritten("head that was pushed before,", expected, new)
        _run_git_push(mirror, remote, branch, new, expected)
    verify_push(mirror, remote, branch, new)
    return PushResult(branch, new, move)


def verify_push(mirror: Mirror, remote: Remote, branch: str, new: Sha) -> None:
    """Check that the remote shows the commit, possibly with others on top, and record it."""
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
    """Judge a failed push by the remote's refs, not by git's message."""
    found = read_remote_head(mirror.git(), remote, branch)
    if found == new:
        return  # The push succeeded, and only the answer was lost.
    if found != expected:
        raise PushRaced(branch, expected, found) from None
    if isinstance(error, RemoteUnreachable):
        raise error
    raise PushRefused(branch, error.output) from None
