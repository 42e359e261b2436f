"""Open, edit and merge pull requests."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hostler.sandbox.git import commits, names, refs
from hostler.sandbox.git.commits import Merge
from hostler.sandbox.git.errors import MergeConflict
from hostler.sandbox.git.names import ZERO
from hostler.sandbox.git.refs import RefMove
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.http.call import ApiCall
from hostler.sandbox.http.errors import ApiError, forbidden, invalid, unprocessable
from hostler.sandbox.http.requests import JsonFields
from hostler.sandbox.issues import open_issue, touch_issue
from hostler.sandbox.pulls import mergeability, pushes
from hostler.sandbox.pulls.entities import PullRequest
from hostler.sandbox.pulls.pushes import measure_pull, open_pulls, update_head
from hostler.sandbox.state.entities import Issue, PullState
from hostler.sandbox.state.world import git_signature, host_signature


@dataclass(frozen=True, slots=True)
class PullSides:
    """What is to be merged, and into what."""

    owner: str
    head: str
    head_sha: str
    base: str
    base_sha: str


async def _read_sides(call: ApiCall, git: Repository, fields: JsonFields) -> PullSides:
    """Return the two branches that a request names; 422 where one is missing or not there."""
    head, base = fields.text("head", required=True), fields.text("base", required=True)
    assert head is not None and base is not None
    owner, colon, branch = head.partition(":")
    if not colon:
        owner, branch = call.repo.owner, head
    if owner.lower() != call.repo.owner.lower():
        raise invalid("PullRequest", "head", "invalid")
    head_sha = await _branch_sha(git, branch, "head")
    base_sha = await _branch_sha(git, base, "base")
    return PullSides(call.repo.owner, branch, head_sha, base, base_sha)


async def _branch_sha(git: Repository, branch: str, field: str) -> str:
    """Return where a branch stands; 422 on `field` where there is none."""
    found = await refs.branch(git, branch) if names.is_branch_name(branch) else None
    if found is None:
        raise invalid("PullRequest", field, "invalid")
    return found


def _custom_error(message: str) -> ApiError:
    """Return a 422 with one of GitHub's messages."""
    detail = {"resource": "PullRequest", "code": "custom", "message": message}
    return unprocessable("Validation Failed", [detail])


def _check_no_duplicate(call: ApiCall, owner: str, head: str, base: str, besides: int = 0) -> None:
    """At most one open pull request may stand between two branches."""
    for pull in open_pulls(call.world, "head", call.repo.id, head):
        if pull.base_ref == base and pull.id != besides:
            raise _custom_error(f"A pull request already exists for {owner}:{head}.")


async def _check_mergeable_history(git: Repository, sides: PullSides) -> None:
    """There must be something to merge, on a common history."""
    found = await commits.compare(git, sides.base_sha, sides.head_sha)
    if found.merge_base is None:
        raise _custom_error(f"The {sides.head} branch has no history in common with {sides.base}")
    if not found.ahead:
        raise _custom_error(f"No commits between {sides.base} and {sides.head}")


async def open_pull(call: ApiCall, git: Repository, fields: JsonFields) -> PullRequest:
    """Make a pull request from a JSON body; the caller holds the repository's lock."""
    if not call.can("write"):
        raise forbidden("Must have push access to the head repository")
    source = _source_issue(call, fields)
    title = source.title if source else fields.text("title", required=True, limit=256)
    body, draft = fields.body(), fields.flag("draft")
    may_modify = fields.flag("maintainer_can_modify", True)
    sides = await _read_sides(call, git, fields)
    _check_no_duplicate(call, sides.owner, sides.head, sides.base)
    await _check_mergeable_history(git, sides)
    size = await measure_pull(git, sides.base_sha, sides.head_sha)
    mark = PullState(draft=draft)
    issue = touch_issue(call, source, pull=mark) if source else None
    issue = issue or open_issue(call, title or "", body, mark)
    pull = call.world.put(
        PullRequest(
            id=call.world.new_id("pull"),
            repo_id=call.repo.id,
            number=issue.number,
            issue_id=issue.id,
            head_owner=sides.owner,
            head_ref=sides.head,
            head_sha=sides.head_sha,
            base_ref=sides.base,
            base_sha=sides.base_sha,
            created_at=call.world.now(),
            size=size,
            maintainer_can_modify=may_modify,
        )
    )
    await refs.move(git, f"refs/pull/{pull.number}/head", pull.head_sha)
    return pull


def _source_issue(call: ApiCall, fields: JsonFields) -> Issue | None:
    """Return the issue that is to become a pull request, where one is named."""
    number = fields.number("issue")
    if number is None:
        return None
    issue = call.world.truth.find(Issue, call.repo.id, number)
    if issue is None or issue.pull is not None or issue.state == "closed":
        raise invalid("PullRequest", "issue", "invalid")
    return issue


async def edit_pull(
    call: ApiCall, git: Repository, issue: Issue, pull: PullRequest, fields: JsonFields
) -> Issue:
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
    return issue if after == issue else _save_changes(call, pull, issue, after)


def _save_changes(call: ApiCall, pull: PullRequest, before: Issue, after: Issue) -> Issue:
    """Put the new version into the world, with its events."""
    world, actor, told = call.world, call.actor, []
    if after.title != before.title:
        world.add_issue_event(before, "renamed", actor, **{"from": before.title, "to": after.title})
    if (after.title, after.body) != (before.title, before.body):
        told.append("edited")
    if after.state != before.state:
        closed = after.state == "closed"
        told.append("closed" if closed else "reopened")
        world.add_issue_event(before, told[-1], actor)
        when, who = (world.now(), actor) if closed else (None, None)
        after = replace(after, closed_at=when, closed_by=who)
    after = touch_issue(call, after)
    for action in told:
        world.publish("pull_request", pull, action, actor)
    return after


async def check_reopening(call: ApiCall, issue: Issue) -> None:
    """Raise what stands against opening a pull request again by way of its issue."""
    pull = call.world.truth.find(PullRequest, "issue", issue.id)
    if pull is not None:
        git = call.git()
        async with git.lock:
            await _check_reopening(call, git, pull)


async def _check_reopening(call: ApiCall, git: Repository, pull: PullRequest) -> PullRequest:
    """Reopening needs its branch, and that no other pull request took its place."""
    refused = "state cannot be changed. "
    if pull.merged_at is not None:
        raise invalid("PullRequest", "state", "invalid", refused + "It is merged.")
    head = await refs.branch(git, pull.head_ref) if names.is_branch_name(pull.head_ref) else None
    if head is None:
        text = f"{refused}The {pull.head_ref} branch has been deleted."
        raise invalid("PullRequest", "state", "invalid", text)
    await _branch_sha(git, pull.base_ref, "base")
    _check_no_duplicate(call, pull.head_owner, pull.head_ref, pull.base_ref, besides=pull.id)
    return await update_head(call.world, git, pull, head, call.actor)


async def _retarget(
    call: ApiCall, git: Repository, issue: Issue, pull: PullRequest, base: str
) -> PullRequest:
    sha = await _branch_sha(git, base, "base")
    if issue.state == "closed":
        raise invalid("PullRequest", "base", "invalid", "Cannot change the base of a closed PR.")
    _check_no_duplicate(call, pull.head_owner, pull.head_ref, base, besides=pull.id)
    sides = PullSides(pull.head_owner, pull.head_ref, pull.head_sha, base, sha)
    await _check_mergeable_history(git, sides)
    size = await measure_pull(git, sha, pull.head_sha)
    await mergeability.delete_ref(git, f"refs/pull/{pull.number}/merge")
    moved = replace(pull, base_ref=base, base_sha=sha, mergeable=None, merge_sha=None, size=size)
    call.world.add_issue_event(issue, "base_ref_changed", call.actor)
    touch_issue(call, issue)
    return call.world.put(moved)


_MERGE_FUNCTIONS = {"merge": commits.merge, "squash": commits.squash, "rebase": commits.rebase}


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """The options of a merge request."""

    method: str
    title: str | None
    text: str | None
    sha: str | None


async def merge_pull(
    call: ApiCall, git: Repository, issue: Issue, pull: PullRequest, options: MergeOptions
) -> str:
    """Merge; the new head of the base. The caller holds the repository's lock."""
    refusal = mergeability.merge_refusal(
        issue,
        pull,
        call.repo,
        sha=options.sha,
        method=options.method,
        lacking=mergeability.missing_requirements(call.world.truth, pull),
    )
    if refusal is not None:
        raise ApiError(refusal.status, refusal.message)
    await mergeability.check_now(call.world, git, pull.id)
    try:
        made = await _MERGE_FUNCTIONS[options.method](
            git, await _plan_merge(call, git, issue, pull, options)
        )
    except MergeConflict:
        raise ApiError(405, "Pull Request is not mergeable") from None
    await _record_merge(call, git, pull, made)
    return made


async def _plan_merge(
    call: ApiCall, git: Repository, issue: Issue, pull: PullRequest, options: MergeOptions
) -> Merge:
    new = await commits.new_commits(git, pull.base_sha, pull.head_sha)
    log = [commit.message for commit in new]
    words = mergeability.merge_message(
        issue, pull, options.method, options.title, options.text, log
    )
    author = git_signature(call.world, issue.user if options.method == "squash" else call.actor)
    committer = host_signature(call.world)
    return Merge(pull.base_sha, pull.head_sha, words, author, committer)


async def _record_merge(call: ApiCall, git: Repository, pull: PullRequest, made: str) -> None:
    ref = f"refs/heads/{pull.base_ref}"
    moves = [await refs.move(git, ref, made, expected=pull.base_sha)]
    await mergeability.delete_ref(git, f"refs/pull/{pull.number}/merge")
    pushes.mark_merged(call.world, pull, call.actor, made)
    if mergeability.repo_options(call.repo).get("delete_branch_on_merge", False):
        moves += await _delete_head(call, git, pull)
    await pushes.announce_moves(call, *moves)


async def _delete_head(call: ApiCall, git: Repository, pull: PullRequest) -> list[RefMove]:
    sha = await refs.branch(git, pull.head_ref)
    if sha is None or pull.head_ref == call.repo.default_branch:
        return []
    call.world.add_issue_event(pushes.issue_of(call.world, pull), "head_ref_deleted", call.actor)
    return [await refs.move(git, f"refs/heads/{pull.head_ref}", ZERO, expected=sha)]


async def update_branch(
    call: ApiCall, git: Repository, pull: PullRequest, expected: str | None
) -> None:
    """Merge the base into the head; the caller holds the repository's lock."""
    if expected is not None and expected != pull.head_sha:
        raise unprocessable("expected head sha didn’t match current head ref.")
    if await refs.contains(git, pull.head_sha, pull.base_sha):
        raise unprocessable("There are no new commits on the base branch.")
    who = git_signature(call.world, call.actor)
    words = f"Merge branch '{pull.base_ref}' into {pull.head_ref}\n"
    plan = Merge(pull.head_sha, pull.base_sha, words, who, host_signature(call.world))
    try:
        made = await commits.merge(git, plan)
    except MergeConflict:
        raise unprocessable("merge conflict between base and head") from None
    move = await refs.move(git, f"refs/heads/{pull.head_ref}", made, expected=pull.head_sha)
    await pushes.announce_moves(call, move)
