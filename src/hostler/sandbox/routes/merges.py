"""Merging: pull requests, their branches, and the question whether one is merged."""

from __future__ import annotations

from hostler.sandbox.call import Call
from hostler.sandbox.errors import not_found, unprocessable
from hostler.sandbox.http import Response, json_response, no_content
from hostler.sandbox.pull_merging import Wish, merge, update_branch
from hostler.sandbox.pull_rules import METHODS
from hostler.sandbox.router import REPO, Router
from hostler.sandbox.routes.pulls import find_pull

router = Router()
MERGE = REPO + "/pulls/{number}/merge"


@router.route("GET", MERGE)
def is_merged(call: Call) -> Response:
    """204 if it is merged, 404 if not."""
    if find_pull(call).merged_at is None:
        raise not_found()
    return no_content()


@router.route("PUT", MERGE, access="write")
async def merge_pull(call: Call) -> Response:
    """Merge, squash or rebase."""
    git, fields = call.git(), call.fields("PullRequest")
    wish = Wish(
        method=fields.choice("merge_method", METHODS) or "merge",
        title=fields.text("commit_title"),
        text=fields.text("commit_message"),
        sha=fields.text("sha"),
    )
    async with git.lock:
        made = await merge(call, git, call.issue(), find_pull(call), wish)
    return json_response(
        {"sha": made, "merged": True, "message": "Pull Request successfully merged"}
    )


@router.route("PUT", REPO + "/pulls/{number}/update-branch", access="write")
async def update(call: Call) -> Response:
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
