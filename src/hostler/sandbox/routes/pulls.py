"""Pull requests: list, open, read, change, their commits and files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hostler.sandbox import pull_checks, pull_moves
from hostler.sandbox.call import Call
from hostler.sandbox.entities import Issue
from hostler.sandbox.errors import forbidden, not_found
from hostler.sandbox.git import compare
from hostler.sandbox.http import Response
from hostler.sandbox.plain_pages import plain_page
from hostler.sandbox.pull_editing import edit
from hostler.sandbox.pull_entities import Pull
from hostler.sandbox.pull_opening import open_pull
from hostler.sandbox.router import REPO, Router
from hostler.sandbox.shapes import commits as shapes
from hostler.sandbox.shapes import pulls as _shapes  # noqa: F401 - registers the shapes
from hostler.sandbox.tables import Tables
from hostler.sandbox.world import World

router = Router()
ONE = REPO + "/pulls/{number}"
MOST_COMMITS = 250
MOST_FILES = 3000
_ORDERS = {"popularity": "comments", "long-running": "created", "updated": "updated"}


def attach(world: World) -> None:
    """Let pull requests follow every push."""
    world.push_listeners.append(partial(pull_moves.follow, world))


@dataclass(frozen=True)
class Filter:
    """What the query of a list of pull requests asks for."""

    tables: Tables
    state: str
    head: str
    base: str

    def __call__(self, issue: Issue) -> bool:
        if issue.pull is None or (self.state != "all" and issue.state != self.state):
            return False
        pull = self.tables.find(Pull, "issue", issue.id)
        if pull is None or (self.base and pull.base_ref != self.base):
            return False
        return not self.head or self.head == _lower_owner(pull.head_label)


def _lower_owner(label: str) -> str:
    owner, colon, branch = label.partition(":")
    return f"{owner.lower()}{colon}{branch}"


@router.route("GET", REPO + "/pulls")
def list_pulls(call: Call) -> Response:
    """Open ones, newest first, unless asked otherwise. There is no `since`."""
    query = call.request.query
    state, head, sort = query.get("state", "open"), query.get("head", ""), query.get("sort", "")
    wanted = Filter(
        call.tables,
        state if state in ("open", "closed", "all") else "open",
        # A head without its owner filters nothing, as on GitHub.
        _lower_owner(head) if ":" in head else "",
        query.get("base", ""),
    )
    order = _ORDERS.get(sort, "created")
    down = query.get("direction", "asc" if sort in _ORDERS else "desc") == "desc"
    issues = call.tables.group(Issue, "repo", call.repo.id)
    return call.page(issues.select(order, descending=down, where=wanted), "pull")


@router.route("POST", REPO + "/pulls", creates=True)
async def create(call: Call) -> Response:
    """Ask for a branch to be merged into another."""
    git, fields = call.git(), call.fields("PullRequest")
    async with git.lock:
        pull = await open_pull(call, git, fields)
    call.world.tell("pull_request", pull, "opened", call.actor)
    issue = pull_moves.issue_of(call.world, pull)
    url = f"{call.request.root}/repos/{call.repo.full_name}/pulls/{pull.number}"
    return call.one(issue, 201, "pull_full", Location=url)


@router.route("GET", ONE)
async def get(call: Call) -> Response:
    """One pull request. The first reader after a move does not learn whether it merges."""
    pull = find_pull(call)
    git = call.git()
    wanted = call.request.headers.get("accept", "")
    if ".diff" in wanted or ".patch" in wanted:
        return await _as_text(call, pull, patch=".patch" in wanted)
    waiting = pull_checks.under_way(call.world, pull.id)
    if waiting:
        await pull_checks.look(call.world, git, pull.id)
    response = call.one(call.issue(), variant="pull_full")
    if not waiting:
        await pull_checks.look(call.world, git, pull.id)
    return response


async def _as_text(call: Call, pull: Pull, *, patch: bool) -> Response:
    git = call.git()
    bases = await compare.merge_bases(git, pull.base_sha, pull.head_sha)
    span = f"{bases[0]}..{pull.head_sha}" if bases else pull.head_sha
    args = ("format-patch", "--stdout", span) if patch else ("diff", "--no-ext-diff", span)
    shown = await git.git(*args)
    return Response(200, shown.out, content_type="text/plain; charset=utf-8")


@router.route("PATCH", ONE)
async def change(call: Call) -> Response:
    """Change title, body, state or base: for the author and for those who may write."""
    git, fields = call.git(), call.fields("PullRequest")
    async with git.lock:
        pull, issue = find_pull(call), call.issue()
        if issue.user.lower() != call.actor.lower() and not call.can("write"):
            raise forbidden()
        after = await edit(call, git, issue, pull, fields)
    return call.one(after, variant="pull_full")


@router.route("GET", ONE + "/commits")
async def list_commits(call: Call) -> Response:
    """Its commits, oldest first, at most 250."""
    pull = find_pull(call)
    found = await compare.new_commits(call.git(), pull.base_sha, pull.head_sha)
    return plain_page(
        call, found[:MOST_COMMITS], lambda item: shapes.commit(item, call.repo.id, call.frame)
    )


@router.route("GET", ONE + "/files")
async def list_files(call: Call) -> Response:
    """Its files with their patches, at most 3,000."""
    pull = find_pull(call)
    found = await compare.new_files(call.git(), pull.base_sha, pull.head_sha)
    return plain_page(
        call,
        found[:MOST_FILES],
        lambda item: shapes.file(item, call.repo.id, pull.head_sha, call.frame),
    )


def find_pull(call: Call) -> Pull:
    """The pull request that the path names; 404 where the number is an issue's or nobody's."""
    pull = call.tables.find(Pull, call.repo.id, call.number())
    if pull is None or call.tables.get(Issue, pull.issue_id) is None:
        raise not_found()
    return pull
