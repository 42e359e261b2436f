"""Files of a repository: read them, and write them as commits."""

from __future__ import annotations

import base64
import binascii
from typing import Any
from urllib.parse import quote

from hostler.sandbox import people
from hostler.sandbox.call import Call
from hostler.sandbox.errors import ApiError, conflict, forbidden, invalid, not_found, unprocessable
from hostler.sandbox.fields import Fields
from hostler.sandbox.git import commits, contents, names, refs
from hostler.sandbox.git.contents import Entry, FileEdit
from hostler.sandbox.git.errors import BadName, NoSuchObject
from hostler.sandbox.git.names import ZERO
from hostler.sandbox.git.process import Person
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.http import Response, json_response
from hostler.sandbox.ref_moves import announce_call
from hostler.sandbox.router import REPO, Router
from hostler.sandbox.shapes import commits as shapes
from hostler.sandbox.shapes.issues import repo_url

router = Router()
FILE = REPO + "/contents/{path...}"
LARGEST_INLINE = 1_000_000
LARGEST = 100_000_000


@router.route("GET", REPO + "/contents")
async def get_root(call: Call) -> Response:
    """The files at the top."""
    return await _show(call, "")


@router.route("GET", FILE)
async def get_path(call: Call) -> Response:
    """A file with its content, or what is in a folder."""
    return await _show(call, _path(call))


@router.route("GET", REPO + "/readme")
async def readme(call: Call) -> Response:
    """The file that introduces the repository."""
    return await _show(call, "README.md")


async def _show(call: Call, path: str) -> Response:
    git, asked = call.git(), call.request.query.get("ref") or call.repo.default_branch
    try:
        commit = await refs.resolve(git, asked)
    except NoSuchObject:
        raise ApiError(404, f"No commit found for the ref {asked[:100]}") from None
    entry = await contents.entry(git, commit, path)
    if entry is None:
        raise not_found()
    if entry.kind == "tree":
        inside = await contents.listing(git, entry.sha)
        prefix = f"{path}/" if path else ""
        return json_response([_entry(call, item, prefix + item.path, asked) for item in inside])
    if ".raw" in call.request.headers.get("accept", ""):
        data = await contents.blob(git, _small_enough(entry))
        return Response(200, data, content_type="application/octet-stream")
    return json_response(_entry(call, entry, path, asked) | await _content(git, entry))


async def _content(git: Repository, entry: Entry) -> dict[str, Any]:
    """A file's text; left out where it is large, and absent where it is another repository."""
    if entry.kind != "blob" or (entry.size or 0) > LARGEST_INLINE:
        _small_enough(entry)
        return {"encoding": "none", "content": ""}
    data = await contents.blob(git, entry.sha)
    return {"encoding": "base64", "content": base64.encodebytes(data).decode()}


def _small_enough(entry: Entry) -> str:
    if (entry.size or 0) > LARGEST:
        raise forbidden("This API returns blobs up to 100 MB in size.")
    if entry.kind != "blob":
        raise not_found()
    return entry.sha


def _entry(call: Call, item: Entry, path: str, ref: str) -> dict[str, Any]:
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


@router.route("PUT", FILE, access="write", creates=True)
async def write(call: Call) -> Response:
    """Make or change a file; to change one, its present sha must be named."""
    fields = call.fields("Content")
    data = _decoded(fields)
    git, path = call.git(), _path(call)
    if not path:
        raise unprocessable("path must name a file")
    async with git.lock:
        branch, parent = await _branch(call, git, fields)
        if parent and await contents.in_the_way(git, parent, path):
            raise unprocessable(f"{path} is in the way of another file or folder")
        old = await contents.entry(git, parent, path) if parent else None
        _check_sha(fields, old, path)
        commit = await _commit(call, git, fields, branch, parent, path, data)
        made = await contents.entry(git, commit, path)
    assert made is not None
    shown = {"content": _entry(call, made, path, branch)}
    return json_response(shown | await _commit_part(call, git, commit), 200 if old else 201)


@router.route("DELETE", FILE, access="write")
async def delete(call: Call) -> Response:
    """Remove a file; its present sha must be named."""
    fields, git, path = call.fields("Content"), call.git(), _path(call)
    async with git.lock:
        branch, parent = await _branch(call, git, fields)
        old = await contents.entry(git, parent, path) if parent and path else None
        if old is None or old.kind != "blob":
            raise not_found()
        _check_sha(fields, old, path)
        commit = await _commit(call, git, fields, branch, parent, path, None)
    return json_response({"content": None} | await _commit_part(call, git, commit))


def _path(call: Call) -> str:
    try:
        return names.tree_path(call.params["path"])
    except BadName:
        raise unprocessable("path contains a malformed path component") from None


def _decoded(fields: Fields) -> bytes:
    text = fields.text("content")
    if text is None:
        raise invalid("Content", "content", "missing_field")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise unprocessable("content is not valid Base64") from None


async def _branch(call: Call, git: Repository, fields: Fields) -> tuple[str, str | None]:
    """The branch to write to and its head; only the default branch may not exist yet."""
    branch = fields.text("branch") or call.repo.default_branch
    head = await refs.branch(git, branch) if names.is_branch_name(branch) else None
    empty = head is None and not await refs.snapshot(git, "refs/heads/")
    if head is None and not (empty and branch == call.repo.default_branch):
        raise ApiError(404, f"Branch {branch[:100]} not found")
    return branch, head


def _check_sha(fields: Fields, old: Entry | None, path: str) -> None:
    given = fields.text("sha")
    if old is not None and given is None:
        raise unprocessable('Invalid request.\n\n"sha" wasn\'t supplied.')
    if given is not None and (old is None or given != old.sha):
        raise conflict(f"{path} does not match {given[:80]}")


async def _commit(
    call: Call,
    git: Repository,
    fields: Fields,
    branch: str,
    parent: str | None,
    path: str,
    data: bytes | None,
) -> str:
    message = fields.text("message", required=True) or ""
    who = people.person(call.world, call.actor)
    author, committer = _named(fields, "author", who), _named(fields, "committer", who)
    made = await contents.write(git, FileEdit(parent, path, data, message, author, committer))
    move = await refs.move(git, f"refs/heads/{branch}", made, expected=parent or ZERO)
    await announce_call(call, move)
    return made


def _named(fields: Fields, role: str, who: Person) -> Person:
    value = fields.values.get(role)
    if not isinstance(value, dict):
        return who
    inner = Fields("Content", value)
    name, email = inner.text("name", required=True), inner.text("email", required=True)
    plain = f"{name}{email}"
    # Git drops punctuation from a name's ends, and takes none that is nothing else.
    wordless = not any(letter.isalnum() for letter in name or "")
    if wordless or any(letter in plain for letter in "<>\n\0"):
        raise invalid("Content", role, "invalid")
    return Person(name or who.name, email or who.email, who.when)


async def _commit_part(call: Call, git: Repository, sha: str) -> dict[str, Any]:
    made = await commits.get(git, sha)
    return {"commit": shapes.git_commit(made, call.repo.id, call.frame)}
