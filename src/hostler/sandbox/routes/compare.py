"""Commits and trees: list them, read them, set two against each other."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hostler.sandbox.call import Call
from hostler.sandbox.errors import ApiError, not_found, unprocessable
from hostler.sandbox.git import commits, compare, contents, diffs, names, refs
from hostler.sandbox.git.commits import Commit, History
from hostler.sandbox.git.errors import BadName, NoSuchObject
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.http import Response, json_response
from hostler.sandbox.paging import moment_of
from hostler.sandbox.plain_pages import asked_page, plain_page
from hostler.sandbox.router import REPO, Router
from hostler.sandbox.shapes import commits as shapes
from hostler.sandbox.shapes.issues import repo_url

router = Router()
MOST_FILES = 300
MOST_COMMITS = 250


@router.route("GET", REPO + "/commits")
async def list_commits(call: Call) -> Response:
    """A history, newest first."""
    git, page = call.git(), asked_page(call)
    wanted = await _history(call, git)
    found = await commits.log(git, _part(wanted, page.offset, page.size))
    total = await commits.count(git, wanted)
    return plain_page(call, found, lambda item: _commit(call, item), total)


async def _history(call: Call, git: Repository) -> History:
    query = call.request.query
    try:
        path = names.tree_path(query.get("path", ""))
    except BadName:
        raise unprocessable("path contains a malformed path component") from None
    return History(
        await commit_of(git, query.get("sha") or call.repo.default_branch),
        path=path,
        author=" ".join(query.get("author", "").replace("\0", " ").split()),
        since=_moment(query.get("since"), "since"),
        until=_moment(query.get("until"), "until"),
    )


def _part(wanted: History, skip: int, count: int) -> History:
    return History(
        wanted.start,
        path=wanted.path,
        author=wanted.author,
        since=wanted.since,
        until=wanted.until,
        skip=skip,
        count=count,
    )


def _moment(text: str | None, field: str) -> datetime | None:
    second = moment_of(text, field)
    return None if second is None else datetime.fromtimestamp(second, UTC)


async def commit_of(git: Repository, ref: str) -> str:
    """The commit behind a ref; GitHub's 409 for an empty repository, its 404 or 422 otherwise."""
    try:
        return await refs.resolve(git, ref)
    except NoSuchObject:
        if not await refs.snapshot(git):
            raise ApiError(409, "Git Repository is empty.") from None
        if names.is_sha(ref):
            raise unprocessable(f"No commit found for SHA: {ref}") from None
        raise not_found() from None


@router.route("GET", REPO + "/commits/{ref...}")
async def get_commit(call: Call) -> Response:
    """One commit with its files."""
    git = call.git()
    item = await commits.get(git, await commit_of(git, call.params["ref"]))
    old = item.parents[0] if item.parents else diffs.EMPTY_TREE
    files = (await diffs.between(git, old, item.sha))[:MOST_FILES]
    added, gone = sum(f.additions for f in files), sum(f.deletions for f in files)
    return json_response(
        _commit(call, item)
        | {
            "stats": {"total": added + gone, "additions": added, "deletions": gone},
            "files": [shapes.file(f, call.repo.id, item.sha, call.frame) for f in files],
        }
    )


@router.route("GET", REPO + "/git/commits/{sha}")
async def get_git_commit(call: Call) -> Response:
    """One commit as git stores it."""
    git, sha = call.git(), call.params["sha"]
    if not names.is_sha(sha) or await refs.object_kind(git, sha) != "commit":
        raise not_found()
    return json_response(shapes.git_commit(await commits.get(git, sha), call.repo.id, call.frame))


@router.route("GET", REPO + "/git/trees/{ref...}")
async def get_tree(call: Call) -> Response:
    """What a tree holds, with all below it where `recursive` is given."""
    git, ref = call.git(), call.params["ref"]
    tree = (
        ref
        if await _is_tree(git, ref)
        else (await commits.get(git, await commit_of(git, ref))).tree
    )
    found = await contents.listing(git, tree, recursive="recursive" in call.request.query)
    base = repo_url(call.repo.id, call.frame)
    rows = [
        {
            "path": item.path,
            "mode": item.mode,
            "type": item.kind,
            "sha": item.sha,
            "url": f"{base}/git/{item.kind}s/{item.sha}",
            **({"size": item.size} if item.size is not None else {}),
        }
        for item in found
    ]
    url = f"{base}/git/trees/{tree}"
    return json_response({"sha": tree, "url": url, "tree": rows, "truncated": False})


async def _is_tree(git: Repository, ref: str) -> bool:
    return names.is_sha(ref) and await refs.object_kind(git, ref) == "tree"


@router.route("GET", REPO + "/compare/{basehead...}")
async def get_comparison(call: Call) -> Response:
    """What the second has beyond the common ancestor with the first."""
    git = call.git()
    first, dots, second = call.params["basehead"].partition("...")
    if not dots:
        raise not_found()
    base = await commit_of(git, _branch(call, first))
    head = await commit_of(git, _branch(call, second))
    found = await compare.compare(git, base, head)
    if found.merge_base is None:
        raise ApiError(404, f"No common ancestor between {first[:80]} and {second[:80]}.")
    new = await compare.new_commits(git, base, head)
    files = (await diffs.between(git, found.merge_base, head))[:MOST_FILES]
    return json_response(
        {
            **_urls(call, first, second),
            "base_commit": _commit(call, await commits.get(git, base)),
            "merge_base_commit": _commit(call, await commits.get(git, found.merge_base)),
            "status": found.status,
            "ahead_by": found.ahead,
            "behind_by": found.behind,
            "total_commits": found.ahead,
            "commits": [_commit(call, item) for item in new[:MOST_COMMITS]],
            "files": [shapes.file(f, call.repo.id, head, call.frame) for f in files],
        }
    )


def _branch(call: Call, text: str) -> str:
    """A ref, perhaps with its owner before a colon."""
    owner, colon, branch = text.partition(":")
    if not colon:
        return text
    if owner.lower() != call.repo.owner.lower():
        raise not_found()
    return branch


def _urls(call: Call, first: str, second: str) -> dict[str, Any]:
    page = f"{shapes.page_url(call.repo.id, call.frame)}/compare/{first}...{second}"
    return {
        "url": f"{repo_url(call.repo.id, call.frame)}/compare/{first}...{second}",
        "html_url": page,
        "permalink_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
    }


def _commit(call: Call, item: Commit) -> dict[str, Any]:
    return shapes.commit(item, call.repo.id, call.frame)
