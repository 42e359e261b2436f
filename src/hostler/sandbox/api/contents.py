"""Commits, trees, comparisons and files."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from hostler.sandbox.git import commits, diffs, files, names, refs
from hostler.sandbox.git.commits import Commit, CommitQuery
from hostler.sandbox.git.errors import BadName, NoSuchObject
from hostler.sandbox.git.files import FileEdit, FileEntry
from hostler.sandbox.git.names import ZERO
from hostler.sandbox.git.process import Signature
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.http.call import ApiCall, requested_page_of, respond_with_page
from hostler.sandbox.http.errors import (
    ApiError,
    conflict,
    forbidden,
    invalid,
    not_found,
    unprocessable,
)
from hostler.sandbox.http.pagination import parse_timestamp
from hostler.sandbox.http.requests import JsonFields, SandboxResponse, json_response
from hostler.sandbox.http.router import REPO, ApiRouter
from hostler.sandbox.pulls.pushes import announce_moves
from hostler.sandbox.serializers import repos as shapes
from hostler.sandbox.serializers.repos import repo_url
from hostler.sandbox.state.world import git_signature

router = ApiRouter()
MAX_FILES = 300
MAX_COMMITS = 250


@router.route("GET", REPO + "/commits")
async def list_commits(call: ApiCall) -> SandboxResponse:
    """Return a history, newest first."""
    git, page = call.git(), requested_page_of(call)
    wanted = await _commit_query(call, git)
    found = await commits.log(git, _page_query(wanted, page.offset, page.size))
    total = await commits.count_commits(git, wanted)
    return respond_with_page(call, found, lambda item: _serialize_commit(call, item), total)


async def _commit_query(call: ApiCall, git: Repository) -> CommitQuery:
    query = call.request.query
    try:
        path = names.tree_path(query.get("path", ""))
    except BadName:
        raise unprocessable("path contains a malformed path component") from None
    return CommitQuery(
        await resolve_commit(git, query.get("sha") or call.repo.default_branch),
        path=path,
        author=" ".join(query.get("author", "").replace("\0", " ").split()),
        since=_parse_time(query.get("since"), "since"),
        until=_parse_time(query.get("until"), "until"),
    )


def _page_query(wanted: CommitQuery, skip: int, count: int) -> CommitQuery:
    return CommitQuery(
        wanted.start,
        path=wanted.path,
        author=wanted.author,
        since=wanted.since,
        until=wanted.until,
        skip=skip,
        count=count,
    )


def _parse_time(text: str | None, field: str) -> datetime | None:
    second = parse_timestamp(text, field)
    return None if second is None else datetime.fromtimestamp(second, UTC)


async def resolve_commit(git: Repository, ref: str) -> str:
    """Return the commit behind a ref; 409 for an empty repository, otherwise 404 or 422."""
    try:
        return await refs.resolve(git, ref)
    except NoSuchObject:
        if not await refs.snapshot(git):
            raise ApiError(409, "Git Repository is empty.") from None
        if names.is_sha(ref):
            raise unprocessable(f"No commit found for SHA: {ref}") from None
        raise not_found() from None


@router.route("GET", REPO + "/commits/{ref...}")
async def get_commit(call: ApiCall) -> SandboxResponse:
    """Return one commit with its files."""
    git = call.git()
    item = await commits.get_commit(git, await resolve_commit(git, call.params["ref"]))
    old = item.parents[0] if item.parents else diffs.EMPTY_TREE
    files = (await diffs.changed_files_with_patches(git, old, item.sha))[:MAX_FILES]
    added, gone = sum(f.additions for f in files), sum(f.deletions for f in files)
    return json_response(
        _serialize_commit(call, item)
        | {
            "stats": {"total": added + gone, "additions": added, "deletions": gone},
            "files": [shapes.serialize_file(f, call.repo.id, item.sha, call.frame) for f in files],
        }
    )


@router.route("GET", REPO + "/git/commits/{sha}")
async def get_git_commit(call: ApiCall) -> SandboxResponse:
    """Return one commit as git stores it."""
    git, sha = call.git(), call.params["sha"]
    if not names.is_sha(sha) or await refs.object_kind(git, sha) != "commit":
        raise not_found()
    return json_response(
        shapes.serialize_git_commit(await commits.get_commit(git, sha), call.repo.id, call.frame)
    )


@router.route("GET", REPO + "/git/trees/{ref...}")
async def get_tree(call: ApiCall) -> SandboxResponse:
    """Return what a tree holds, with all below it where `recursive` is given."""
    git, ref = call.git(), call.params["ref"]
    tree = (
        ref
        if await _is_tree(git, ref)
        else (await commits.get_commit(git, await resolve_commit(git, ref))).tree
    )
    found = await files.list_tree(git, tree, recursive="recursive" in call.request.query)
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
async def get_comparison(call: ApiCall) -> SandboxResponse:
    """Return what the second has beyond the common ancestor with the first."""
    git = call.git()
    first, dots, second = call.params["basehead"].partition("...")
    if not dots:
        raise not_found()
    base = await resolve_commit(git, _branch_of(call, first))
    head = await resolve_commit(git, _branch_of(call, second))
    found = await commits.compare(git, base, head)
    if found.merge_base is None:
        raise ApiError(404, f"No common ancestor between {first[:80]} and {second[:80]}.")
    new = await commits.new_commits(git, base, head)
    files = (await diffs.changed_files_with_patches(git, found.merge_base, head))[:MAX_FILES]
    return json_response(
        {
            **_comparison_urls(call, first, second),
            "base_commit": _serialize_commit(call, await commits.get_commit(git, base)),
            "merge_base_commit": _serialize_commit(
                call, await commits.get_commit(git, found.merge_base)
            ),
            "status": found.status,
            "ahead_by": found.ahead,
            "behind_by": found.behind,
            "total_commits": found.ahead,
            "commits": [_serialize_commit(call, item) for item in new[:MAX_COMMITS]],
            "files": [shapes.serialize_file(f, call.repo.id, head, call.frame) for f in files],
        }
    )


def _branch_of(call: ApiCall, text: str) -> str:
    """Return a ref, perhaps with its owner before a colon."""
    owner, colon, branch = text.partition(":")
    if not colon:
        return text
    if owner.lower() != call.repo.owner.lower():
        raise not_found()
    return branch


def _comparison_urls(call: ApiCall, first: str, second: str) -> dict[str, Any]:
    page = f"{shapes.page_url(call.repo.id, call.frame)}/compare/{first}...{second}"
    return {
        "url": f"{repo_url(call.repo.id, call.frame)}/compare/{first}...{second}",
        "html_url": page,
        "permalink_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
    }


def _serialize_commit(call: ApiCall, item: Commit) -> dict[str, Any]:
    return shapes.serialize_commit(item, call.repo.id, call.frame)


FILE_PATH = REPO + "/contents/{path...}"
MAX_INLINE_BYTES = 1_000_000
MAX_FILE_BYTES = 100_000_000


@router.route("GET", REPO + "/contents")
async def get_root(call: ApiCall) -> SandboxResponse:
    """Return the files at the top."""
    return await _respond_with_content(call, "")


@router.route("GET", FILE_PATH)
async def get_content(call: ApiCall) -> SandboxResponse:
    """Return a file with its content, or what is in a folder."""
    return await _respond_with_content(call, _content_path(call))


@router.route("GET", REPO + "/readme")
async def get_readme(call: ApiCall) -> SandboxResponse:
    """Return the file that introduces the repository."""
    return await _respond_with_content(call, "README.md")


async def _respond_with_content(call: ApiCall, path: str) -> SandboxResponse:
    git, asked = call.git(), call.request.query.get("ref") or call.repo.default_branch
    try:
        commit = await refs.resolve(git, asked)
    except NoSuchObject:
        raise ApiError(404, f"No commit found for the ref {asked[:100]}") from None
    entry = await files.find_entry(git, commit, path)
    if entry is None:
        raise not_found()
    if entry.kind == "tree":
        inside = await files.list_tree(git, entry.sha)
        prefix = f"{path}/" if path else ""
        return json_response(
            [_serialize_entry(call, item, prefix + item.path, asked) for item in inside]
        )
    if ".raw" in call.request.headers.get("accept", ""):
        data = await files.read_blob(git, _check_size(entry))
        return SandboxResponse(200, data, content_type="application/octet-stream")
    return json_response(
        _serialize_entry(call, entry, path, asked) | await _content_fields(git, entry)
    )


async def _content_fields(git: Repository, entry: FileEntry) -> dict[str, Any]:
    """Return a file's text: empty if it is large, absent if the entry is another repository."""
    if entry.kind != "blob" or (entry.size or 0) > MAX_INLINE_BYTES:
        _check_size(entry)
        return {"encoding": "none", "content": ""}
    data = await files.read_blob(git, entry.sha)
    return {"encoding": "base64", "content": base64.encodebytes(data).decode()}


def _check_size(entry: FileEntry) -> str:
    if (entry.size or 0) > MAX_FILE_BYTES:
        raise forbidden("This API returns blobs up to 100 MB in size.")
    if entry.kind != "blob":
        raise not_found()
    return entry.sha


def _serialize_entry(call: ApiCall, item: FileEntry, path: str, ref: str) -> dict[str, Any]:
    base, page = repo_url(call.repo.id, call.frame), shapes.page_url(call.repo.id, call.frame)
    kind = {"tree": "dir", "commit": "submodule"}.get(item.kind, "file")
    kind = "symlink" if item.mode == "120000" else kind
    where = quote(path)
    url = f"{base}/contents/{where}?ref={quote(ref)}"
    blob = f"{base}/git/{item.kind}s/{item.sha}"
    html = f"{page}/{'tree' if kind == 'dir' else 'blob'}/{quote(ref)}/{where}"
    return {
        "type": kind,
        "name": path.rpartition("/")[2],
        "path": path,
        "sha": item.sha,
        "size": item.size or 0,
        "url": url,
        "git_url": blob,
        "html_url": html,
        "download_url": None if kind == "dir" else f"{page}/raw/{quote(ref)}/{where}",
        "_links": {"self": url, "git": blob, "html": html},
    }


@router.route("PUT", FILE_PATH, access="write", creates=True)
async def write_content(call: ApiCall) -> SandboxResponse:
    """Make or change a file; to change one, its present sha must be named."""
    fields = call.fields("Content")
    data = _decode_content(fields)
    git, path = call.git(), _content_path(call)
    if not path:
        raise unprocessable("path must name a file")
    async with git.lock:
        branch, parent = await _target_branch(call, git, fields)
        if parent and await files.is_path_blocked(git, parent, path):
            raise unprocessable(f"{path} is in the way of another file or folder")
        old = await files.find_entry(git, parent, path) if parent else None
        _check_sha(fields, old, path)
        commit = await _commit_edit(call, git, fields, branch, parent, path, data)
        made = await files.find_entry(git, commit, path)
    assert made is not None
    shown = {"content": _serialize_entry(call, made, path, branch)}
    return json_response(shown | await _commit_fields(call, git, commit), 200 if old else 201)


@router.route("DELETE", FILE_PATH, access="write")
async def delete_content(call: ApiCall) -> SandboxResponse:
    """Remove a file; its present sha must be named."""
    fields, git, path = call.fields("Content"), call.git(), _content_path(call)
    async with git.lock:
        branch, parent = await _target_branch(call, git, fields)
        old = await files.find_entry(git, parent, path) if parent and path else None
        if old is None or old.kind != "blob":
            raise not_found()
        _check_sha(fields, old, path)
        commit = await _commit_edit(call, git, fields, branch, parent, path, None)
    return json_response({"content": None} | await _commit_fields(call, git, commit))


def _content_path(call: ApiCall) -> str:
    try:
        return names.tree_path(call.params["path"])
    except BadName:
        raise unprocessable("path contains a malformed path component") from None


def _decode_content(fields: JsonFields) -> bytes:
    text = fields.text("content")
    if text is None:
        raise invalid("Content", "content", "missing_field")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise unprocessable("content is not valid Base64") from None


async def _target_branch(
    call: ApiCall, git: Repository, fields: JsonFields
) -> tuple[str, str | None]:
    """Return the branch to write to and its head; only the default branch may not exist yet."""
    branch = fields.text("branch") or call.repo.default_branch
    head = await refs.branch(git, branch) if names.is_branch_name(branch) else None
    empty = head is None and not await refs.snapshot(git, "refs/heads/")
    if head is None and not (empty and branch == call.repo.default_branch):
        raise ApiError(404, f"Branch {branch[:100]} not found")
    return branch, head


def _check_sha(fields: JsonFields, old: FileEntry | None, path: str) -> None:
    given = fields.text("sha")
    if old is not None and given is None:
        raise unprocessable('Invalid request.\n\n"sha" wasn\'t supplied.')
    if given is not None and (old is None or given != old.sha):
        raise conflict(f"{path} does not match {given[:80]}")


async def _commit_edit(
    call: ApiCall,
    git: Repository,
    fields: JsonFields,
    branch: str,
    parent: str | None,
    path: str,
    data: bytes | None,
) -> str:
    message = fields.text("message", required=True) or ""
    who = git_signature(call.world, call.actor)
    author, committer = (
        _signature_field(fields, "author", who),
        _signature_field(fields, "committer", who),
    )
    made = await files.write_file(git, FileEdit(parent, path, data, message, author, committer))
    move = await refs.move(git, f"refs/heads/{branch}", made, expected=parent or ZERO)
    await announce_moves(call, move)
    return made


def _signature_field(fields: JsonFields, role: str, who: Signature) -> Signature:
    value = fields.values.get(role)
    if not isinstance(value, dict):
        return who
    inner = JsonFields("Content", value)
    name, email = inner.text("name", required=True), inner.text("email", required=True)
    plain = f"{name}{email}"
    # Git drops punctuation from a name's ends, and takes none that is nothing else.
    wordless = not any(letter.isalnum() for letter in name or "")
    if wordless or any(letter in plain for letter in "<>\n\0"):
        raise invalid("Content", role, "invalid")
    return Signature(name or who.name, email or who.email, who.when)


async def _commit_fields(call: ApiCall, git: Repository, sha: str) -> dict[str, Any]:
    made = await commits.get_commit(git, sha)
    return {"commit": shapes.serialize_git_commit(made, call.repo.id, call.frame)}
