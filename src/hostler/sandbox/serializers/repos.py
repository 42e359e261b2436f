"""The JSON of users, repositories, and what git knows: commits, files, refs."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from hostler.sandbox.git.commits import Commit
from hostler.sandbox.git.diffs import FileChange
from hostler.sandbox.git.process import Signature
from hostler.sandbox.git.refs import GitRef
from hostler.sandbox.serializers.base import RenderContext, serializer
from hostler.sandbox.state.clock import iso
from hostler.sandbox.state.entities import (
    PERMISSIONS,
    Issue,
    Repo,
    User,
)
from hostler.sandbox.state.tables import Tables
from hostler.sandbox.state.world import login_of_email

GHOST = User(id=10137, login="ghost", created_at=0)
_USER_URLS = ("followers", "subscriptions", "organizations", "repos", "received_events")


def node_id(kind: str, number: int) -> str:
    """Return an opaque id as GraphQL has it."""
    return base64.b64encode(f"{kind}:{number}".encode()).decode().rstrip("=")


def user_of(tables: Tables, login: str) -> User:
    """Return the user of a login; GitHub's ghost where the account is gone."""
    return tables.find(User, login.lower()) or GHOST


def simple_user(login: str, frame: RenderContext) -> dict[str, Any]:
    """Return a user inside other JSON."""
    user = user_of(frame.tables, login)
    url = f"{frame.root}/users/{user.login}"
    return {
        "login": user.login,
        "id": user.id,
        "node_id": node_id("User", user.id),
        "avatar_url": f"{frame.root}/avatars/{user.id}",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{html_root(frame)}/{user.login}",
        **{f"{part}_url": f"{url}/{part}" for part in _USER_URLS},
        "following_url": url + "/following{/other_user}",
        "gists_url": url + "/gists{/gist_id}",
        "starred_url": url + "/starred{/owner}{/repo}",
        "events_url": url + "/events{/privacy}",
        "type": user.type,
        "user_view_type": "public",
        "site_admin": user.site_admin,
    }


def html_root(frame: RenderContext) -> str:
    """Return the URL under which web pages would be."""
    return frame.root.removesuffix("/api/v3")


@serializer(User, kept=False)
def serialize_user(user: User, frame: RenderContext) -> dict[str, Any]:
    """Return a user on their own."""
    return {
        **simple_user(user.login, frame),
        "name": user.name,
        "company": None,
        "blog": "",
        "location": None,
        "email": user.email,
        "notification_email": None,
        "hireable": None,
        "bio": None,
        "twitter_username": None,
        "public_repos": 0,
        "public_gists": 0,
        "followers": 0,
        "following": 0,
        "created_at": iso(user.created_at),
        "updated_at": iso(user.created_at),
    }


_REPO_URLS = {
    "archive": "/{archive_format}{/ref}",
    "assignees": "/assignees{/user}",
    "blobs": "/git/blobs{/sha}",
    "branches": "/branches{/branch}",
    "collaborators": "/collaborators{/collaborator}",
    "comments": "/comments{/number}",
    "commits": "/commits{/sha}",
    "compare": "/compare/{base}...{head}",
    "contents": "/contents/{+path}",
    "contributors": "/contributors",
    "deployments": "/deployments",
    "downloads": "/downloads",
    "events": "/events",
    "forks": "/forks",
    "git_commits": "/git/commits{/sha}",
    "git_refs": "/git/refs{/sha}",
    "git_tags": "/git/tags{/sha}",
    "hooks": "/hooks",
    "issue_comment": "/issues/comments{/number}",
    "issue_events": "/issues/events{/number}",
    "issues": "/issues{/number}",
    "keys": "/keys{/key_id}",
    "labels": "/labels{/name}",
    "languages": "/languages",
    "merges": "/merges",
    "milestones": "/milestones{/number}",
    "notifications": "/notifications{?since,all,participating}",
    "pulls": "/pulls{/number}",
    "releases": "/releases{/id}",
    "stargazers": "/stargazers",
    "statuses": "/statuses/{sha}",
    "subscribers": "/subscribers",
    "subscription": "/subscription",
    "tags": "/tags",
    "teams": "/teams",
    "trees": "/git/trees{/sha}",
}
# Switches that GitHub keeps per repository, with their defaults.
OPTIONS = {
    "has_projects": True,
    "has_wiki": True,
    "has_discussions": False,
    "is_template": False,
    "allow_forking": True,
    "allow_merge_commit": True,
    "allow_squash_merge": True,
    "allow_rebase_merge": True,
    "allow_auto_merge": False,
    "allow_update_branch": False,
    "delete_branch_on_merge": False,
    "web_commit_signoff_required": False,
}


@dataclass(frozen=True)
class OpenIssues:
    """The filter for issues and pull requests that are open."""

    def __call__(self, issue: Issue) -> bool:
        return issue.state == "open"


@serializer(Repo, kept=False)
def serialize_repo(repo: Repo, frame: RenderContext) -> dict[str, Any]:
    """Return a repository as the viewer sees it."""
    count = len(frame.tables.group(Issue, "repo", repo.id).select(where=OpenIssues()))
    permission = frame.viewer.permission(frame.tables, repo)
    return {
        **_name_fields(repo, frame),
        "private": repo.private,
        "visibility": "private" if repo.private else "public",
        "description": repo.description,
        "homepage": repo.homepage,
        "fork": False,
        "language": None,
        "license": None,
        "topics": [],
        "size": 0,
        "default_branch": repo.default_branch,
        "archived": repo.archived,
        "disabled": False,
        "has_issues": repo.has_issues,
        "has_pages": False,
        "has_downloads": True,
        **OPTIONS,
        **dict(repo.options),
        **_count_fields(count),
        "mirror_url": None,
        "created_at": iso(repo.created_at),
        "updated_at": iso(repo.updated_at),
        "pushed_at": iso(repo.pushed_at),
        "permissions": permission_flags(permission),
    }


def permission_flags(permission: str) -> dict[str, bool]:
    """Return a permission as the switches that GitHub shows."""
    level = PERMISSIONS.index(permission)
    wanted = {"admin": "admin", "maintain": "maintain", "push": "write", "triage": "triage"}
    return {name: level >= PERMISSIONS.index(needed) for name, needed in wanted.items()} | {
        "pull": level >= PERMISSIONS.index("read")
    }


def _name_fields(repo: Repo, frame: RenderContext) -> dict[str, Any]:
    url = f"{frame.root}/repos/{repo.full_name}"
    page = f"{html_root(frame)}/{repo.full_name}"
    plain = page.removeprefix("http://")
    return {
        "id": repo.id,
        "node_id": node_id("Repository", repo.id),
        "name": repo.name,
        "full_name": repo.full_name,
        "owner": simple_user(repo.owner, frame),
        "url": url,
        "html_url": page,
        "clone_url": f"{page}.git",
        "git_url": f"git://{plain}.git",
        "ssh_url": f"git@{plain}.git",
        "svn_url": page,
        **{f"{name}_url": url + rest for name, rest in _REPO_URLS.items()},
    }


def _count_fields(open_issues: int) -> dict[str, int]:
    zero = ("forks", "forks_count", "stargazers_count", "watchers", "watchers_count")
    return {
        **dict.fromkeys((*zero, "subscribers_count", "network_count"), 0),
        "open_issues": open_issues,
        "open_issues_count": open_issues,
    }


def _text_node_id(kind: str, text: str) -> str:
    """Return an opaque id for something that is known by a text."""
    return base64.b64encode(f"{kind}:{text}".encode()).decode().rstrip("=")


def page_url(repo_id: int, frame: RenderContext) -> str:
    """Return the URL of a repository's web page."""
    return f"{html_root(frame)}/{full_name(repo_id, frame)}"


def _git_user(person: Signature) -> dict[str, Any]:
    """Return a commit's author or committer as git has it."""
    when = iso(int(person.when.timestamp()))
    return {"name": person.name, "email": person.email, "date": when}


def serialize_commit(item: Commit, repo_id: int, frame: RenderContext) -> dict[str, Any]:
    """Return a commit as the lists show it."""
    base, page = repo_url(repo_id, frame), page_url(repo_id, frame)
    url = f"{base}/commits/{item.sha}"
    return {
        "sha": item.sha,
        "node_id": _text_node_id("Commit", item.sha),
        "url": url,
        "html_url": f"{page}/commit/{item.sha}",
        "comments_url": f"{url}/comments",
        "commit": _commit_fields(item, base),
        "author": _account(item.author, frame),
        "committer": _account(item.committer, frame),
        "parents": [_parent(sha, base, page) for sha in item.parents],
    }


def _commit_fields(item: Commit, base: str) -> dict[str, Any]:
    return {
        "url": f"{base}/git/commits/{item.sha}",
        "author": _git_user(item.author),
        "committer": _git_user(item.committer),
        "message": item.message,
        "comment_count": 0,
        "tree": {"sha": item.tree, "url": f"{base}/git/trees/{item.tree}"},
        "verification": _unsigned_verification(),
    }


def _unsigned_verification() -> dict[str, Any]:
    """Return GitHub's verification of a commit without a signature."""
    return {
        "verified": False,
        "reason": "unsigned",
        "signature": None,
        "payload": None,
        "verified_at": None,
    }


def _parent(sha: str, base: str, page: str) -> dict[str, Any]:
    return {"sha": sha, "url": f"{base}/commits/{sha}", "html_url": f"{page}/commit/{sha}"}


def _account(person: Signature, frame: RenderContext) -> dict[str, Any] | None:
    login = login_of_email(frame.tables, person.email)
    return simple_user(login, frame) if login else None


def serialize_git_commit(item: Commit, repo_id: int, frame: RenderContext) -> dict[str, Any]:
    """Return a commit as git's own part of the API shows it."""
    base, page = repo_url(repo_id, frame), page_url(repo_id, frame)
    inner = _commit_fields(item, base)
    del inner["comment_count"]
    return {
        "sha": item.sha,
        "node_id": _text_node_id("Commit", item.sha),
        **inner,
        "html_url": f"{page}/commit/{item.sha}",
        "parents": [_parent(sha, base, page) for sha in item.parents],
    }


def serialize_file(
    item: FileChange, repo_id: int, sha: str, frame: RenderContext
) -> dict[str, Any]:
    """Return one file of a diff."""
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


def serialize_ref(item: GitRef, repo_id: int, frame: RenderContext) -> dict[str, Any]:
    """Return a ref and what it names."""
    base = repo_url(repo_id, frame)
    return {
        "ref": item.name,
        "node_id": _text_node_id("Ref", f"{repo_id}:{item.name}"),
        "url": f"{base}/git/{quote(item.name)}",
        "object": {
            "sha": item.sha,
            "type": item.kind,
            "url": f"{base}/git/{item.kind}s/{item.sha}",
        },
    }


def repo_url(repo_id: int, frame: RenderContext) -> str:
    """Return the API's address of a repository."""
    return f"{frame.root}/repos/{full_name(repo_id, frame)}"


def full_name(repo_id: int, frame: RenderContext) -> str:
    """owner/name of a repository, also while it is not visible yet."""
    repo = frame.tables.get(Repo, repo_id)
    return repo.full_name if repo else f"ghost/{repo_id}"
