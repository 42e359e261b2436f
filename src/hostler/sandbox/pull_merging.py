"""Merging a pull request, and bringing its branch up to date."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.sandbox import people, pull_checks, pull_moves, pull_rules, pull_standing, ref_moves
from hostler.sandbox.call import Call
from hostler.sandbox.entities import Issue
from hostler.sandbox.errors import ApiError, unprocessable
from hostler.sandbox.git import compare, merging, refs
from hostler.sandbox.git.errors import MergeConflict
from hostler.sandbox.git.merging import Merge
from hostler.sandbox.git.names import ZERO
from hostler.sandbox.git.refs import Move
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.pull_entities import Pull

_WAYS = {"merge": merging.merge, "squash": merging.squash, "rebase": merging.rebase}


@dataclass(frozen=True, slots=True)
class Wish:
    """How somebody wants it merged."""

    method: str
    title: str | None
    text: str | None
    sha: str | None


async def merge(call: Call, git: Repository, issue: Issue, pull: Pull, wish: Wish) -> str:
    """Merge; the new head of the base. The caller holds the repository's lock."""
    refusal = pull_rules.refuse_merge(
        issue,
        pull,
        call.repo,
        sha=wish.sha,
        method=wish.method,
        lacking=pull_standing.lacking(call.world.truth, pull),
    )
    if refusal is not None:
        raise ApiError(refusal.status, refusal.message)
    await pull_checks.settle(call.world, git, pull.id)
    try:
        made = await _WAYS[wish.method](git, await _plan(call, git, issue, pull, wish))
    except MergeConflict:
        raise ApiError(405, "Pull Request is not mergeable") from None
    await _record(call, git, pull, made)
    return made


async def _plan(call: Call, git: Repository, issue: Issue, pull: Pull, wish: Wish) -> Merge:
    new = await compare.new_commits(git, pull.base_sha, pull.head_sha)
    log = [commit.message for commit in new]
    words = pull_rules.merge_message(issue, pull, wish.method, wish.title, wish.text, log)
    author = people.person(call.world, issue.user if wish.method == "squash" else call.actor)
    committer = people.host(call.world)
    return Merge(pull.base_sha, pull.head_sha, words, author, committer)


async def _record(call: Call, git: Repository, pull: Pull, made: str) -> None:
    ref = f"refs/heads/{pull.base_ref}"
    moves = [await refs.move(git, ref, made, expected=pull.base_sha)]
    await pull_checks.drop(git, f"refs/pull/{pull.number}/merge")
    pull_moves.mark_merged(call.world, pull, call.actor, made)
    if pull_rules.options(call.repo).get("delete_branch_on_merge", False):
        moves += await _delete_head(call, git, pull)
    await ref_moves.announce_call(call, *moves)


async def _delete_head(call: Call, git: Repository, pull: Pull) -> list[Move]:
    sha = await refs.branch(git, pull.head_ref)
    if sha is None or pull.head_ref == call.repo.default_branch:
        return []
    call.world.note(pull_moves.issue_of(call.world, pull), "head_ref_deleted", call.actor)
    return [await refs.move(git, f"refs/heads/{pull.head_ref}", ZERO, expected=sha)]


async def update_branch(call: Call, git: Repository, pull: Pull, expected: str | None) -> None:
    """Merge the base into the head; the caller holds the repository's lock."""
    if expected is not None and expected != pull.head_sha:
        raise unprocessable("expected head sha didn’t match current head ref.")
    if await refs.contains(git, pull.head_sha, pull.base_sha):
        raise unprocessable("There are no new commits on the base branch.")
    who = people.person(call.world, call.actor)
    words = f"Merge branch '{pull.base_ref}' into {pull.head_ref}\n"
    plan = Merge(pull.head_sha, pull.base_sha, words, who, people.host(call.world))
    try:
        made = await merging.merge(git, plan)
    except MergeConflict:
        raise unprocessable("merge conflict between base and head") from None
    move = await refs.move(git, f"refs/heads/{pull.head_ref}", made, expected=pull.head_sha)
    await ref_moves.announce_call(call, move)
