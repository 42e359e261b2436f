"""Pushing from the mirror: asked first, compared by the server, looked at afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hostler.checkouts.errors import (
    GitFailed,
    HistoryRewritten,
    PushRaced,
    PushRefused,
    PushUnverified,
    RemoteUnreachable,
)
from hostler.checkouts.guard import Move, Verdict, arrived, plan_push, require_history
from hostler.checkouts.mirror import Mirror, is_ancestor, set_ref, update, writing
from hostler.checkouts.names import Sha, checked_branch
from hostler.checkouts.place import PUSHED
from hostler.checkouts.remote import Remote, remote_head


@dataclass(frozen=True, slots=True)
class Pushed:
    """A branch that is on the remote; `move` says what it took."""

    branch: str
    commit: Sha
    move: Move


def guard(mirror: Mirror, head: Sha, *, base: Sha, pushed: Sha | None) -> Verdict:
    """Whether this head may be pushed, by the mirror's history; raises `HistoryRewritten`."""
    return require_history(partial(is_ancestor, mirror), head, base=base, pushed=pushed)


def push(mirror: Mirror, remote: Remote, branch: str, new: Sha, expected: Sha | None) -> Pushed:
    """Bring a commit that the mirror has to a branch of the remote. Nothing is ever forced.

    `expected` is what the branch was at when we last saw it; None: it was not there.
    """
    checked_branch(branch)
    found = remote_head(mirror.git(), remote, branch)
    move = plan_push(found, expected, new)
    if move is Move.RACED:
        raise PushRaced(branch, expected, found)
    if move is not Move.ALREADY:
        # The lease lets git skip its own check, so the proof has to be ours.
        if expected is not None and not is_ancestor(mirror, expected, new):
            raise HistoryRewritten("head that was pushed before,", expected, new)
        _send(mirror, remote, branch, new, expected)
    verify(mirror, remote, branch, new)
    return Pushed(branch, new, move)


def verify(mirror: Mirror, remote: Remote, branch: str, new: Sha) -> None:
    """The remote must show the commit, perhaps with others on top; then we note it."""
    found = remote_head(mirror.git(), remote, branch)
    if found is not None and found != new:
        update(mirror, remote)
    if not arrived(partial(is_ancestor, mirror), found, new):
        raise PushUnverified(branch, new, found)
    with writing(mirror) as git:
        set_ref(git, f"{PUSHED}{branch}", new)
        set_ref(git, f"refs/heads/{branch}", found or new)


def _send(mirror: Mirror, remote: Remote, branch: str, new: Sha, expected: Sha | None) -> None:
    ref = f"refs/heads/{branch}"
    git = mirror.git().using(remote.access())
    try:
        git(
            *("push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed"),
            *(f"--force-with-lease={ref}:{expected or ''}", remote.url, f"{new}:{ref}"),
        )
    except (GitFailed, RemoteUnreachable) as error:
        _judge_failure(mirror, remote, branch, new, expected, error)


def _judge_failure(
    mirror: Mirror,
    remote: Remote,
    branch: str,
    new: Sha,
    expected: Sha | None,
    error: GitFailed | RemoteUnreachable,
) -> None:
    """A push that failed is judged by what the remote has, not by what git said."""
    found = remote_head(mirror.git(), remote, branch)
    if found == new:
        return  # It went through, and only the answer was lost.
    if found != expected:
        raise PushRaced(branch, expected, found) from None
    if isinstance(error, RemoteUnreachable):
        raise error
    raise PushRefused(branch, error.said) from None
