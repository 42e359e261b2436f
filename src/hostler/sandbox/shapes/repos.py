"""The JSON of repositories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hostler.sandbox.entities import PERMISSIONS, Issue, Repo
from hostler.sandbox.moments import iso
from hostler.sandbox.render import Frame, shape
from hostler.sandbox.shapes.people import html_root, node_id, simple_user

_URLS = {
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


@shape(Repo, kept=False)
def repository(repo: Repo, frame: Frame) -> dict[str, Any]:
    """A repository as the viewer sees it."""
    count = len(frame.tables.group(Issue, "repo", repo.id).select(where=OpenIssues()))
    permission = frame.viewer.permission(frame.tables, repo)
    return {
        **_names(repo, frame),
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
        **_counts(count),
        "mirror_url": None,
        "created_at": iso(repo.created_at),
        "updated_at": iso(repo.updated_at),
        "pushed_at": iso(repo.pushed_at),
        "permissions": permissions(permission),
    }


def permissions(permission: str) -> dict[str, bool]:
    """A permission as the switches that GitHub shows."""
    level = PERMISSIONS.index(permission)
    wanted = {"admin": "admin", "maintain": "maintain", "push": "write", "triage": "triage"}
    return {name: level >= PERMISSIONS.index(needed) for name, needed in wanted.items()} | {
        "pull": level >= PERMISSIONS.index("read")
    }


def _names(repo: Repo, frame: Frame) -> dict[str, Any]:
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
        **{f"{name}_url": url + rest for name, rest in _URLS.items()},
    }


def _counts(open_issues: int) -> dict[str, int]:
    zero = ("forks", "forks_count", "stargazers_count", "watchers", "watchers_count")
    return {
        **dict.fromkeys((*zero, "subscribers_count", "network_count"), 0),
        "open_issues": open_issues,
        "open_issues_count": open_issues,
    }
