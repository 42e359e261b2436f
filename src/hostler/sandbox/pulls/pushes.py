"""What moved refs do to pull requests, and to the issues that their commits close."""

from __future__ import annotations

import re
from dataclasses import replace

from hostler.sandbox.git import commits, diffs, refs
from hostler.sandbox.git.commits import Commit, CommitQuery
from hostler.sandbox.git.names import ZERO
from hostler.sandbox.git.refs import RefMove
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.git.smart_http import GitPush
from hostler.sandbox.http.call import ApiCall
from hostler.sandbox.pulls import mergeability, review_comments
from hostler.sandbox.pulls.entities import PullRequest, PullSize, PushRecord
from hostler.sandbox.state.entities import Issue, PullState, Repo
from hostler.sandbox.state.world import World


async def announce_push(world: World, push: GitPush) -> None:
    """Tell all listeners; the caller holds the repository's lock."""
    repo = world.truth.get(Repo, push.number)
    if repo is not None:
        now = world.now()
        world.put(replace(repo, pushed_at=now, updated_at=now))
    for listener in world.push_listeners:
        await listener(push)


async def announce_moves(call: ApiCall, *moves: RefMove) -> None:
    """The same for what the present caller did."""
    await announce_push(call.world, GitPush(call.repo.id, call.actor, moves))


_CLOSING_KEYWORDS = re.compile(
    r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+"
    r"(?P<repo>[A-Za-z0-9-]+/[A-Za-z0-9._-]+)?#(?P<number>[0-9]{1,9})\b",
    re.IGNORECASE,
)


def _closed_issue_numbers(text: str | None, full_name: str) -> list[int]:
    """Return the numbers of this repository's issues that a text closes, each once."""
    found = (
        int(match["number"])
        for match in _CLOSING_KEYWORDS.finditer(text or "")
        if match["repo"] is None or match["repo"].lower() == full_name.lower()
    )
    return list(dict.fromkeys(found))


async def measure_pull(git: Repository, base: str, head: str) -> PullSize:
    """Count commits, files and lines between the common ancestor and the head."""
    found = await commits.compare(git, base, head)
    files = await diffs.changed_files(git, found.merge_base or diffs.EMPTY_TREE, head)
    return PullSize(
        commits=found.ahead,
        additions=sum(file.additions for file in files),
        deletions=sum(file.deletions for file in files),
        files=len(files),
    )


MAX_PUSH_COMMITS = 20


async def follow_push(world: World, push: GitPush) -> None:
    """Update everything that depends on the moved refs."""
    repo = world.truth.get(Repo, push.number)
    if repo is None or world.repo_store is None:
        return
    git = world.repo_store.get(push.number)
    for move in push.moves:
        new = await _new_commits(git, move)
        await _record_push(world, git, repo, push.login, move, new)
        if move.ref.startswith("refs/heads/"):
            await _follow_branch(world, git, repo, push.login, move)
        if move.ref == f"refs/heads/{repo.default_branch}":
            for commit in new:
                _close_mentioned_issues(world, repo, push.login, commit.message, commit.sha)


async def _follow_branch(
    world: World, git: Repository, repo: Repo, actor: str, move: RefMove
) -> None:
    branch = move.ref.removeprefix("refs/heads/")
    for pull in open_pulls(world, "head", repo.id, branch):
        if move.deleted:
            _close_pull(world, pull, actor, "head_ref_deleted")
        else:
            await update_head(world, git, pull, move.new, actor)
    for pull in open_pulls(world, "base", repo.id, branch):
        if move.deleted:
            _close_pull(world, pull, actor, "base_ref_deleted")
        else:
            await _update_base(world, git, pull, move.new, actor)


def open_pulls(world: World, side: str, repo_id: int, branch: str) -> list[PullRequest]:
    """Open pull requests with this branch as head or base."""
    found: list[PullRequest] = list(world.truth.group(PullRequest, side, repo_id, branch).select())
    return [pull for pull in found if _is_open(world.truth.get(Issue, pull.issue_id))]


def _is_open(issue: Issue | None) -> bool:
    # The issue is None if a test deleted it.
    return issue is not None and issue.state == "open"


def issue_of(world: World, pull: PullRequest) -> Issue:
    """Return the issue that a pull request is."""
    issue = world.truth.get(Issue, pull.issue_id)
    assert issue is not None, "a pull request has lost its issue"
    return issue


async def update_head(
    world: World, git: Repository, pull: PullRequest, sha: str, actor: str
) -> PullRequest:
    """Record that the head moved: new commits, unknown mergeability, outdated comments."""
    if sha == pull.head_sha:
        return pull
    forced = not await refs.contains(git, sha, pull.head_sha)
    base = await refs.branch(git, pull.base_ref) or pull.base_sha
    moved = replace(pull, head_sha=sha, base_sha=base, mergeable=None, merge_sha=None)
    moved = world.put(replace(moved, size=await measure_pull(git, base, sha)))
    await refs.move(git, f"refs/pull/{pull.number}/head", sha)
    await mergeability.delete_ref(git, f"refs/pull/{pull.number}/merge")
    issue = issue_of(world, pull)
    world.put(replace(issue, updated_at=world.now()))
    if forced:
        world.add_issue_event(issue, "head_ref_force_pushed", actor, commit_id=sha)
    await review_comments.move_review_comments(world, git, pull, moved)
    world.publish("pull_request", moved, "synchronize", actor)
    return moved


async def _update_base(
    world: World, git: Repository, pull: PullRequest, sha: str, actor: str
) -> None:
    if pull.size.commits and await refs.contains(git, sha, pull.head_sha):
        mark_merged(world, pull, actor, sha)
        return
    await mergeability.delete_ref(git, f"refs/pull/{pull.number}/merge")
    world.put(replace(pull, base_sha=sha, mergeable=None, merge_sha=None))


def _close_pull(world: World, pull: PullRequest, actor: str, why: str = "") -> None:
    """Close without merging."""
    now, issue = world.now(), issue_of(world, pull)
    world.add_issue_event(issue, "closed", actor)
    if why:
        world.add_issue_event(issue, why, actor)
    world.put(replace(issue, state="closed", closed_at=now, closed_by=actor, updated_at=now))
    world.publish("pull_request", pull, "closed", actor)


def mark_merged(world: World, pull: PullRequest, actor: str, sha: str) -> PullRequest:
    """Record that the pull request has become part of its base."""
    now, issue = world.now(), issue_of(world, pull)
    world.add_issue_event(issue, "merged", actor, commit_id=sha)
    world.add_issue_event(issue, "closed", actor)
    mark = PullState(merged_at=now, draft=bool(issue.pull and issue.pull.draft))
    world.put(
        replace(issue, state="closed", closed_at=now, closed_by=actor, updated_at=now, pull=mark)
    )
    merged = world.put(replace(pull, merged_at=now, merged_by=actor, merge_sha=sha, mergeable=None))
    repo = world.truth.get(Repo, pull.repo_id)
    if repo is not None and repo.default_branch == pull.base_ref:
        _close_mentioned_issues(world, repo, actor, issue.body, sha)
    world.publish("pull_request", merged, "closed", actor)
    return merged


def _close_mentioned_issues(
    world: World, repo: Repo, actor: str, text: str | None, sha: str
) -> None:
    """Close the issues that a text says it fixes."""
    for number in _closed_issue_numbers(text, repo.full_name):
        issue = world.truth.find(Issue, repo.id, number)
        if issue is None or issue.state == "closed" or issue.pull is not None:
            continue
        now = world.now()
        world.add_issue_event(issue, "closed", actor, commit_id=sha)
        closed = replace(
            issue,
            state="closed",
            state_reason="completed",
            closed_at=now,
            closed_by=actor,
            updated_at=now,
        )
        world.publish("issues", world.put(closed), "closed", actor)


async def _new_commits(git: Repository, move: RefMove) -> list[Commit]:
    """Return the newest commits that a move brought to a branch, oldest first."""
    if move.deleted or not move.ref.startswith("refs/heads/"):
        return []
    known = () if move.created else (move.old,)
    if move.created:
        head = await refs.find(git, "HEAD")
        known = (head,) if head and head != move.new else ()
    found = await commits.log(git, CommitQuery(move.new, exclude=known, count=MAX_PUSH_COMMITS))
    return found[::-1]


async def _record_push(
    world: World, git: Repository, repo: Repo, actor: str, move: RefMove, new: list[Commit]
) -> None:
    kept = ZERO in (move.old, move.new) or await refs.contains(git, move.new, move.old)
    told = PushRecord(
        id=world.new_id("push"),
        repo_id=repo.id,
        ref=move.ref,
        before=move.old,
        after=move.new,
        pusher=actor,
        created_at=world.now(),
        forced=not kept,
        commits=tuple((commit.sha, commit.message) for commit in new),
    )
    world.publish("push", told, "", actor)
    if move.created:
        world.publish("create", told, "", actor)
    if move.deleted:
        world.publish("delete", told, "", actor)
