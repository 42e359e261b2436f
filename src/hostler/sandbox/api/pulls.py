"""Pull requests, their merges and requested reviewers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from hostler.sandbox.auth import Identity
from hostler.sandbox.git import commits
from hostler.sandbox.http.call import ApiCall, respond_with_page
from hostler.sandbox.http.errors import forbidden, not_found, unprocessable
from hostler.sandbox.http.requests import SandboxResponse, json_response, no_content
from hostler.sandbox.http.router import REPO, ApiRouter
from hostler.sandbox.issues import touch_issue
from hostler.sandbox.pulls import mergeability, pushes
from hostler.sandbox.pulls.changes import (
    MergeOptions,
    edit_pull,
    merge_pull,
    open_pull,
    update_branch,
)
from hostler.sandbox.pulls.entities import PullRequest
from hostler.sandbox.pulls.mergeability import MERGE_METHODS
from hostler.sandbox.serializers import pulls as _shapes  # noqa: F401 - registers the shapes
from hostler.sandbox.serializers import repos as shapes
from hostler.sandbox.serializers.repos import simple_user
from hostler.sandbox.state.entities import Issue, User
from hostler.sandbox.state.tables import Tables
from hostler.sandbox.state.world import World

router = ApiRouter()
PULL = REPO + "/pulls/{number}"
MAX_COMMITS = 250
MAX_FILES = 3000
_ORDERS = {"popularity": "comments", "long-running": "created", "updated": "updated"}


def attach(world: World) -> None:
    """Let pull requests follow every push."""
    world.push_listeners.append(partial(pushes.follow_push, world))


@dataclass(frozen=True)
class PullFilter:
    """What the query of a list of pull requests asks for."""

    tables: Tables
    state: str
    head: str
    base: str

    def __call__(self, issue: Issue) -> bool:
        if issue.pull is None or (self.state != "all" and issue.state != self.state):
            return False
        pull = self.tables.find(PullRequest, "issue", issue.id)
        if pull is None or (self.base and pull.base_ref != self.base):
            return False
        return not self.head or self.head == _lower_owner(pull.head_label)


def _lower_owner(label: str) -> str:
    owner, colon, branch = label.partition(":")
    return f"{owner.lower()}{colon}{branch}"


@router.route("GET", REPO + "/pulls")
def list_pulls(call: ApiCall) -> SandboxResponse:
    """Return pull requests; by default open ones, newest first. There is no `since`."""
    query = call.request.query
    state, head, sort = query.get("state", "open"), query.get("head", ""), query.get("sort", "")
    wanted = PullFilter(
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
async def create_pull(call: ApiCall) -> SandboxResponse:
    """Open a pull request."""
    git, fields = call.git(), call.fields("PullRequest")
    async with git.lock:
        pull = await open_pull(call, git, fields)
    call.world.publish("pull_request", pull, "opened", call.actor)
    issue = pushes.issue_of(call.world, pull)
    url = f"{call.request.root}/repos/{call.repo.full_name}/pulls/{pull.number}"
    return call.one(issue, 201, "pull_full", Location=url)


@router.route("GET", PULL)
async def get_pull(call: ApiCall) -> SandboxResponse:
    """Return one pull request. The first reader after a push does not learn whether it merges."""
    pull = find_pull(call)
    git = call.git()
    wanted = call.request.headers.get("accept", "")
    if ".diff" in wanted or ".patch" in wanted:
        return await _diff_text(call, pull, patch=".patch" in wanted)
    waiting = mergeability.is_check_running(call.world, pull.id)
    if waiting:
        await mergeability.start_or_await_check(call.world, git, pull.id)
    response = call.one(call.issue(), variant="pull_full")
    if not waiting:
        await mergeability.start_or_await_check(call.world, git, pull.id)
    return response


async def _diff_text(call: ApiCall, pull: PullRequest, *, patch: bool) -> SandboxResponse:
    git = call.git()
    bases = await commits.merge_bases(git, pull.base_sha, pull.head_sha)
    span = f"{bases[0]}..{pull.head_sha}" if bases else pull.head_sha
    args = ("format-patch", "--stdout", span) if patch else ("diff", "--no-ext-diff", span)
    shown = await git.git(*args)
    return SandboxResponse(200, shown.out, content_type="text/plain; charset=utf-8")


@router.route("PATCH", PULL)
async def change_pull(call: ApiCall) -> SandboxResponse:
    """Change title, body, state or base: for the author and for those who may write."""
    git, fields = call.git(), call.fields("PullRequest")
    async with git.lock:
        pull, issue = find_pull(call), call.issue()
        if issue.user.lower() != call.actor.lower() and not call.can("write"):
            raise forbidden()
        after = await edit_pull(call, git, issue, pull, fields)
    return call.one(after, variant="pull_full")


@router.route("GET", PULL + "/commits")
async def list_pull_commits(call: ApiCall) -> SandboxResponse:
    """Return its commits, oldest first, at most 250."""
    pull = find_pull(call)
    found = await commits.new_commits(call.git(), pull.base_sha, pull.head_sha)
    return respond_with_page(
        call,
        found[:MAX_COMMITS],
        lambda item: shapes.serialize_commit(item, call.repo.id, call.frame),
    )


@router.route("GET", PULL + "/files")
async def list_pull_files(call: ApiCall) -> SandboxResponse:
    """Return its files with their patches, at most 3,000."""
    pull = find_pull(call)
    found = await commits.new_files(call.git(), pull.base_sha, pull.head_sha)
    return respond_with_page(
        call,
        found[:MAX_FILES],
        lambda item: shapes.serialize_file(item, call.repo.id, pull.head_sha, call.frame),
    )


def find_pull(call: ApiCall) -> PullRequest:
    """Return the pull request that the path names; 404 if the number is not a pull request's."""
    pull = call.tables.find(PullRequest, call.repo.id, call.number())
    if pull is None or call.tables.get(Issue, pull.issue_id) is None:
        raise not_found()
    return pull


MERGE = REPO + "/pulls/{number}/merge"


@router.route("GET", MERGE)
def check_merged(call: ApiCall) -> SandboxResponse:
    """204 if it is merged, 404 if not."""
    if find_pull(call).merged_at is None:
        raise not_found()
    return no_content()


@router.route("PUT", MERGE, access="write")
async def merge_pull_request(call: ApiCall) -> SandboxResponse:
    """Merge, squash or rebase."""
    git, fields = call.git(), call.fields("PullRequest")
    options = MergeOptions(
        method=fields.choice("merge_method", MERGE_METHODS) or "merge",
        title=fields.text("commit_title"),
        text=fields.text("commit_message"),
        sha=fields.text("sha"),
    )
    async with git.lock:
        made = await merge_pull(call, git, call.issue(), find_pull(call), options)
    return json_response(
        {"sha": made, "merged": True, "message": "Pull Request successfully merged"}
    )


@router.route("PUT", REPO + "/pulls/{number}/update-branch", access="write")
async def update_pull_branch(call: ApiCall) -> SandboxResponse:
    """Bring the base's new commits into the head."""
    git = call.git()
    expected = call.fields("PullRequest").text("expected_head_sha")
    async with git.lock:
        pull = find_pull(call)
        if call.issue().state == "closed":
            raise unprocessable("Cannot update a closed pull request.")
        await update_branch(call, git, pull, expected)
    url = f"{call.request.root}/repos/{call.repo.full_name}/pulls/{pull.number}"
    return json_response({"message": "Updating pull request branch.", "url": url}, 202)


REQUESTED_REVIEWERS = REPO + "/pulls/{number}/requested_reviewers"


@router.route("GET", REQUESTED_REVIEWERS)
def list_reviewers(call: ApiCall) -> SandboxResponse:
    """Return the requested reviewers who have not reviewed yet."""
    users = [simple_user(login, call.frame) for login in find_pull(call).reviewers]
    return json_response({"users": users, "teams": []})


@router.route("POST", REQUESTED_REVIEWERS, access="triage")
def request_reviewers(call: ApiCall) -> SandboxResponse:
    """Request reviews from collaborators."""
    pull = find_pull(call)
    wanted = [
        _check_reviewer(call, login)
        for login in call.fields("PullRequest").texts("reviewers") or []
    ]
    new = [login for login in dict.fromkeys(wanted) if login not in pull.reviewers]
    return _save_reviewers(call, pull, (*pull.reviewers, *new), new, "review_requested", 201)


@router.route("DELETE", REQUESTED_REVIEWERS, access="triage")
def remove_reviewers(call: ApiCall) -> SandboxResponse:
    """Withdraw requests for review."""
    pull = find_pull(call)
    gone = {login.lower() for login in call.fields("PullRequest").texts("reviewers") or []}
    left = tuple(login for login in pull.reviewers if login.lower() not in gone)
    changed = [login for login in pull.reviewers if login.lower() in gone]
    return _save_reviewers(call, pull, left, changed, "review_request_removed", 200)


def _save_reviewers(
    call: ApiCall,
    pull: PullRequest,
    now: tuple[str, ...],
    changed: list[str],
    event: str,
    status: int,
) -> SandboxResponse:
    issue = call.issue()
    if changed:
        pull = call.world.put(replace(pull, reviewers=now))
        issue = touch_issue(call, issue)
        for login in changed:
            call.world.add_issue_event(issue, event, call.actor, requested_reviewer=login)
            call.world.publish("pull_request", pull, event, call.actor)
    return call.one(issue, status, "pull")


def _check_reviewer(call: ApiCall, login: str) -> str:
    user = call.world.truth.find(User, login.lower())
    if login.lower() == call.issue().user.lower():
        raise unprocessable("Review cannot be requested from pull request author.")
    known = (
        user and Identity(key="", login=user.login).association(call.tables, call.repo) != "NONE"
    )
    if user is None or not known:
        raise unprocessable(
            "Reviews may only be requested from collaborators. One or more of the users or teams "
            f"you specified is not a collaborator of the {call.repo.full_name} repository."
        )
    return user.login
