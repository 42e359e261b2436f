"""Opening a pull request: what must be true of its two sides."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.sandbox.call import Call
from hostler.sandbox.entities import Issue, PullMark
from hostler.sandbox.errors import ApiError, forbidden, invalid, unprocessable
from hostler.sandbox.fields import Fields
from hostler.sandbox.git import compare, names, refs
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.issuing import open_issue, touch
from hostler.sandbox.pull_entities import Pull
from hostler.sandbox.pull_moves import open_pulls
from hostler.sandbox.pull_sizes import measure


@dataclass(frozen=True, slots=True)
class Sides:
    """What is to be merged, and into what."""

    owner: str
    head: str
    head_sha: str
    base: str
    base_sha: str


async def read_sides(call: Call, git: Repository, fields: Fields) -> Sides:
    """The two branches that a request names; 422 where one is missing or not there."""
    head, base = fields.text("head", required=True), fields.text("base", required=True)
    assert head is not None and base is not None
    owner, colon, branch = head.partition(":")
    if not colon:
        owner, branch = call.repo.owner, head
    if owner.lower() != call.repo.owner.lower():
        raise invalid("PullRequest", "head", "invalid")
    head_sha = await branch_sha(git, branch, "head")
    base_sha = await branch_sha(git, base, "base")
    return Sides(call.repo.owner, branch, head_sha, base, base_sha)


async def branch_sha(git: Repository, branch: str, field: str) -> str:
    """Where a branch stands; 422 on `field` where there is none."""
    found = await refs.branch(git, branch) if names.is_branch_name(branch) else None
    if found is None:
        raise invalid("PullRequest", field, "invalid")
    return found


def custom(message: str) -> ApiError:
    """A refusal in GitHub's words."""
    detail = {"resource": "PullRequest", "code": "custom", "message": message}
    return unprocessable("Validation Failed", [detail])


def check_single(call: Call, owner: str, head: str, base: str, besides: int = 0) -> None:
    """At most one open pull request may stand between two branches."""
    for pull in open_pulls(call.world, "head", call.repo.id, head):
        if pull.base_ref == base and pull.id != besides:
            raise custom(f"A pull request already exists for {owner}:{head}.")


async def check_sides(git: Repository, sides: Sides) -> None:
    """There must be something to merge, on a common history."""
    found = await compare.compare(git, sides.base_sha, sides.head_sha)
    if found.merge_base is None:
        raise custom(f"The {sides.head} branch has no history in common with {sides.base}")
    if not found.ahead:
        raise custom(f"No commits between {sides.base} and {sides.head}")


async def open_pull(call: Call, git: Repository, fields: Fields) -> Pull:
    """Make a pull request from a JSON body; the caller holds the repository's lock."""
    if not call.can("write"):
        raise forbidden("Must have push access to the head repository")
    source = _source(call, fields)
    title = source.title if source else fields.text("title", required=True, limit=256)
    body, draft = fields.body(), fields.flag("draft")
    may_modify = fields.flag("maintainer_can_modify", True)
    sides = await read_sides(call, git, fields)
    check_single(call, sides.owner, sides.head, sides.base)
    await check_sides(git, sides)
    size = await measure(git, sides.base_sha, sides.head_sha)
    mark = PullMark(draft=draft)
    issue = touch(call, source, pull=mark) if source else None
    issue = issue or open_issue(call, title or "", body, mark)
    pull = call.world.put(
        Pull(
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


def _source(call: Call, fields: Fields) -> Issue | None:
    """The issue that is to become a pull request, where one is named."""
    number = fields.number("issue")
    if number is None:
        return None
    issue = call.world.truth.find(Issue, call.repo.id, number)
    if issue is None or issue.pull is not None or issue.state == "closed":
        raise invalid("PullRequest", "issue", "invalid")
    return issue
