"""The JSON of pull requests: their issue, their git side and links, in a short and a full form."""

from __future__ import annotations

from typing import Any

from hostler.sandbox import pull_standing
from hostler.sandbox.entities import Issue, Repo
from hostler.sandbox.moments import iso, iso_or_none
from hostler.sandbox.payloads import payload
from hostler.sandbox.pull_entities import Pull, RefPush
from hostler.sandbox.render import Frame, shape, shaped
from hostler.sandbox.shapes.commits import page_url
from hostler.sandbox.shapes.issues import labels_of, repo_url
from hostler.sandbox.shapes.people import node_id, simple_user


@shape(Issue, "pull", kept=False)
def short_pull(issue: Issue, frame: Frame) -> dict[str, Any]:
    """A pull request in a list."""
    pull = pull_of(issue, frame)
    base, page = repo_url(pull.repo_id, frame), page_url(pull.repo_id, frame)
    url, links = f"{base}/pulls/{pull.number}", _urls(pull, base)
    return {
        "id": pull.id,
        "node_id": node_id("PullRequest", pull.id),
        "url": url,
        "html_url": f"{page}/pull/{pull.number}",
        "diff_url": f"{page}/pull/{pull.number}.diff",
        "patch_url": f"{page}/pull/{pull.number}.patch",
        **{f"{name}_url": link for name, link in links.items()},
        "_links": {
            "self": {"href": url},
            "html": {"href": f"{page}/pull/{pull.number}"},
            **{name: {"href": link} for name, link in links.items()},
        },
        "head": _side(pull.head_owner, pull.head_ref, pull.head_sha, pull.repo_id, frame),
        "base": _side(_owner(pull, frame), pull.base_ref, pull.base_sha, pull.repo_id, frame),
        "merge_commit_sha": pull.merge_sha,
        "merged_at": iso_or_none(pull.merged_at),
        "requested_reviewers": [simple_user(login, frame) for login in pull.reviewers],
        "requested_teams": [],
        "auto_merge": None,
        **_issue_part(issue, frame),
    }


@shape(Issue, "pull_full", kept=False)
def full_pull(issue: Issue, frame: Frame) -> dict[str, Any]:
    """A pull request on its own."""
    pull = pull_of(issue, frame)
    opened = issue.state == "open"
    return {
        **short_pull(issue, frame),
        "merged": pull.merged_at is not None,
        "mergeable": pull.mergeable if opened else None,
        "rebaseable": pull.mergeable if opened else None,
        "mergeable_state": pull_standing.mergeable_state(frame.tables, issue, pull),
        "merged_by": simple_user(pull.merged_by, frame) if pull.merged_by else None,
        "comments": issue.comments,
        "review_comments": pull.review_comments,
        "maintainer_can_modify": pull.maintainer_can_modify,
        "commits": pull.size.commits,
        "additions": pull.size.additions,
        "deletions": pull.size.deletions,
        "changed_files": pull.size.files,
    }


def pull_of(issue: Issue, frame: Frame) -> Pull:
    """The pull request that an issue is."""
    pull = frame.tables.find(Pull, "issue", issue.id)
    assert pull is not None, "an issue says that it is a pull request, and is none"
    return pull


def _issue_part(issue: Issue, frame: Frame) -> dict[str, Any]:
    assignees = [simple_user(login, frame) for login in issue.assignees]
    return {
        "number": issue.number,
        "title": issue.title,
        "body": issue.body,
        "state": issue.state,
        "locked": issue.locked,
        "active_lock_reason": issue.lock_reason,
        "draft": bool(issue.pull and issue.pull.draft),
        "user": simple_user(issue.user, frame),
        "labels": labels_of(issue, frame),
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees,
        "milestone": None,
        "author_association": issue.association,
        "created_at": iso(issue.created_at),
        "updated_at": iso(issue.updated_at),
        "closed_at": iso_or_none(issue.closed_at),
    }


def _urls(pull: Pull, base: str) -> dict[str, str]:
    url = f"{base}/pulls/{pull.number}"
    return {
        "issue": f"{base}/issues/{pull.number}",
        "comments": f"{base}/issues/{pull.number}/comments",
        "review_comments": f"{url}/comments",
        "review_comment": base + "/pulls/comments{/number}",
        "commits": f"{url}/commits",
        "statuses": f"{base}/statuses/{pull.head_sha}",
    }


def _owner(pull: Pull, frame: Frame) -> str:
    repo = frame.tables.get(Repo, pull.repo_id)
    return repo.owner if repo else "ghost"


def _side(owner: str, ref: str, sha: str, repo_id: int, frame: Frame) -> dict[str, Any]:
    repo = frame.tables.get(Repo, repo_id)
    return {
        "label": f"{owner}:{ref}",
        "ref": ref,
        "sha": sha,
        "user": simple_user(owner, frame),
        "repo": shaped(repo, frame) if repo else None,
    }


@shape(Pull, "minimal", kept=False)
def minimal_pull(pull: Pull, frame: Frame) -> dict[str, Any]:
    """A pull request inside a check or workflow run."""
    base = repo_url(pull.repo_id, frame)
    repo = frame.tables.get(Repo, pull.repo_id)
    where = {"id": pull.repo_id, "url": base, "name": repo.name if repo else "ghost"}
    return {
        "id": pull.id,
        "number": pull.number,
        "url": f"{base}/pulls/{pull.number}",
        "head": {"ref": pull.head_ref, "sha": pull.head_sha, "repo": where},
        "base": {"ref": pull.base_ref, "sha": pull.base_sha, "repo": where},
    }


@payload("pull_request")
def _pull_request(item: Pull, _action: str, frame: Frame) -> dict[str, Any]:
    issue = frame.tables.get(Issue, item.issue_id)
    return {"number": item.number, "pull_request": full_pull(issue, frame) if issue else None}


@payload("push")
def _push(item: RefPush, _action: str, frame: Frame) -> dict[str, Any]:
    page = page_url(item.repo_id, frame)
    commits = [
        {"id": sha, "message": message, "url": f"{page}/commit/{sha}", "distinct": True}
        for sha, message in item.commits
    ]
    return {
        "ref": item.ref,
        "before": item.before,
        "after": item.after,
        "created": set(item.before) == {"0"},
        "deleted": set(item.after) == {"0"},
        "forced": item.forced,
        "base_ref": None,
        "compare": f"{page}/compare/{item.before[:12]}...{item.after[:12]}",
        "commits": commits,
        "head_commit": commits[-1] if commits else None,
        "pusher": {"name": item.pusher},
    }


@payload("create")
@payload("delete")
def _ref_event(item: RefPush, _action: str, _frame: Frame) -> dict[str, Any]:
    _, kind, name = item.ref.split("/", 2)
    return {"ref": name, "ref_type": "tag" if kind == "tags" else "branch", "pusher_type": "user"}
