"""The JSON of what git knows: commits, files, refs, branches."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

from hostler.sandbox.git.commits import Commit
from hostler.sandbox.git.diffs import FileChange
from hostler.sandbox.git.process import Person
from hostler.sandbox.git.refs import Ref
from hostler.sandbox.moments import iso
from hostler.sandbox.people import login_of
from hostler.sandbox.render import Frame
from hostler.sandbox.shapes.issues import full_name, repo_url
from hostler.sandbox.shapes.people import html_root, simple_user


def text_id(kind: str, text: str) -> str:
    """An opaque id for something that is known by a text."""
    return base64.b64encode(f"{kind}:{text}".encode()).decode().rstrip("=")


def page_url(repo_id: int, frame: Frame) -> str:
    """A repository's page for people."""
    return f"{html_root(frame)}/{full_name(repo_id, frame)}"


def git_user(person: Person) -> dict[str, Any]:
    """Who git says it was."""
    when = iso(int(person.when.timestamp()))
    return {"name": person.name, "email": person.email, "date": when}


def commit(item: Commit, repo_id: int, frame: Frame) -> dict[str, Any]:
    """A commit as the lists show it."""
    base, page = repo_url(repo_id, frame), page_url(repo_id, frame)
    url = f"{base}/commits/{item.sha}"
    return {
        "sha": item.sha,
        "node_id": text_id("Commit", item.sha),
        "url": url,
        "html_url": f"{page}/commit/{item.sha}",
        "comments_url": f"{url}/comments",
        "commit": _inner(item, base),
        "author": _account(item.author, frame),
        "committer": _account(item.committer, frame),
        "parents": [_parent(sha, base, page) for sha in item.parents],
    }


def _inner(item: Commit, base: str) -> dict[str, Any]:
    return {
        "url": f"{base}/git/commits/{item.sha}",
        "author": git_user(item.author),
        "committer": git_user(item.committer),
        "message": item.message,
        "comment_count": 0,
        "tree": {"sha": item.tree, "url": f"{base}/git/trees/{item.tree}"},
        "verification": unsigned(),
    }


def unsigned() -> dict[str, Any]:
    """What GitHub says of a commit without a signature."""
    return {
        "verified": False,
        "reason": "unsigned",
        "signature": None,
        "payload": None,
        "verified_at": None,
    }


def _parent(sha: str, base: str, page: str) -> dict[str, Any]:
    return {"sha": sha, "url": f"{base}/commits/{sha}", "html_url": f"{page}/commit/{sha}"}


def _account(person: Person, frame: Frame) -> dict[str, Any] | None:
    login = login_of(frame.tables, person.email)
    return simple_user(login, frame) if login else None


def git_commit(item: Commit, repo_id: int, frame: Frame) -> dict[str, Any]:
    """A commit as git's own part of the API shows it."""
    base, page = repo_url(repo_id, frame), page_url(repo_id, frame)
    inner = _inner(item, base)
    del inner["comment_count"]
    return {
        "sha": item.sha,
        "node_id": text_id("Commit", item.sha),
        **inner,
        "html_url": f"{page}/commit/{item.sha}",
        "parents": [_parent(sha, base, page) for sha in item.parents],
    }


def file(item: FileChange, repo_id: int, sha: str, frame: Frame) -> dict[str, Any]:
    """One file of a diff."""
    page, path = page_url(repo_id, frame), quote(item.path)
    shown: dict[str, Any] = {
        "sha": item.blob,
        "filename": item.path,
        "status": item.status,
        "additions": item.additions,
        "deletions": item.deletions,
        "changes": item.additions + item.deletions,
        "blob_url": f"{page}/blob/{sha}/{path}",
        "raw_url": f"{page}/raw/{sha}/{path}",
        "contents_url": f"{repo_url(repo_id, frame)}/contents/{path}?ref={sha}",
    }
    if item.patch is not None:
        shown["patch"] = item.patch
    if item.previous is not None:
        shown["previous_filename"] = item.previous
    return shown


def ref(item: Ref, repo_id: int, frame: Frame) -> dict[str, Any]:
    """A ref and what it names."""
    base = repo_url(repo_id, frame)
    return {
        "ref": item.name,
        "node_id": text_id("Ref", f"{repo_id}:{item.name}"),
        "url": f"{base}/git/{quote(item.name)}",
        "object": {
            "sha": item.sha,
            "type": item.kind,
            "url": f"{base}/git/{item.kind}s/{item.sha}",
        },
    }
