"""Changing a pull request: words, state, base."""

from __future__ import annotations

from dataclasses import replace

from hostler.sandbox import pull_checks
from hostler.sandbox.call import Call
from hostler.sandbox.entities import Issue
from hostler.sandbox.errors import invalid
from hostler.sandbox.fields import Fields
from hostler.sandbox.git import names, refs
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.issuing import touch
from hostler.sandbox.pull_entities import Pull
from hostler.sandbox.pull_moves import synchronize
from hostler.sandbox.pull_opening import Sides, branch_sha, check_sides, check_single
from hostler.sandbox.pull_sizes import measure


async def edit(call: Call, git: Repository, issue: Issue, pull: Pull, fields: Fields) -> Issue:
    """Apply what a PATCH asks for; the caller holds the repository's lock."""
    title = fields.text("title", required="title" in fields, limit=256)
    body, state = fields.body(), fields.choice("state", ("open", "closed"))
    base, may = fields.text("base"), fields.flag("maintainer_can_modify")
    if base is not None and base != pull.base_ref:
        pull = await _retarget(call, git, issue, pull, base)
    if state == "open" and issue.state == "closed":
        pull = await _check_reopening(call, git, pull)
    if "maintainer_can_modify" in fields:
        pull = call.world.put(replace(pull, maintainer_can_modify=may))
    # What came before in this request may have touched the issue.
    issue = call.world.truth.get(Issue, issue.id) or issue
    after = replace(issue, title=title or issue.title, state=state or issue.state)
    after = replace(after, body=body) if "body" in fields else after
    return issue if after == issue else _changed(call, pull, issue, after)


def _changed(call: Call, pull: Pull, before: Issue, after: Issue) -> Issue:
    """Put the new version into the world, with its events."""
    world, actor, told = call.world, call.actor, []
    if after.title != before.title:
        world.note(before, "renamed", actor, **{"from": before.title, "to": after.title})
    if (after.title, after.body) != (before.title, before.body):
        told.append("edited")
    if after.state != before.state:
        closed = after.state == "closed"
        told.append("closed" if closed else "reopened")
        world.note(before, told[-1], actor)
        when, who = (world.now(), actor) if closed else (None, None)
        after = replace(after, closed_at=when, closed_by=who)
    after = touch(call, after)
    for action in told:
        world.tell("pull_request", pull, action, actor)
    return after


async def allow_reopening(call: Call, issue: Issue) -> None:
    """Raise what stands against opening a pull request again by way of its issue."""
    pull = call.world.truth.find(Pull, "issue", issue.id)
    if pull is not None:
        git = call.git()
        async with git.lock:
            await _check_reopening(call, git, pull)


async def _check_reopening(call: Call, git: Repository, pull: Pull) -> Pull:
    """Reopening needs its branch, and that no other pull request took its place."""
    refused = "state cannot be changed. "
    if pull.merged_at is not None:
        raise invalid("PullRequest", "state", "invalid", refused + "It is merged.")
    head = await refs.branch(git, pull.head_ref) if names.is_branch_name(pull.head_ref) else None
    if head is None:
        text = f"{refused}The {pull.head_ref} branch has been deleted."
        raise invalid("PullRequest", "state", "invalid", text)
    await branch_sha(git, pull.base_ref, "base")
    check_single(call, pull.head_owner, pull.head_ref, pull.base_ref, besides=pull.id)
    return await synchronize(call.world, git, pull, head, call.actor)


async def _retarget(call: Call, git: Repository, issue: Issue, pull: Pull, base: str) -> Pull:
    sha = await branch_sha(git, base, "base")
    if issue.state == "closed":
        raise invalid("PullRequest", "base", "invalid", "Cannot change the base of a closed PR.")
    check_single(call, pull.head_owner, pull.head_ref, base, besides=pull.id)
    sides = Sides(pull.head_owner, pull.head_ref, pull.head_sha, base, sha)
    await check_sides(git, sides)
    size = await measure(git, sha, pull.head_sha)
    await pull_checks.drop(git, f"refs/pull/{pull.number}/merge")
    moved = replace(pull, base_ref=base, base_sha=sha, mergeable=None, merge_sha=None, size=size)
    call.world.note(issue, "base_ref_changed", call.actor)
    touch(call, issue)
    return call.world.put(moved)
