"""The JSON of issues, comments, labels and events."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hostler.sandbox.serializers.base import RenderContext, serialize, serializer
from hostler.sandbox.serializers.repos import full_name, html_root, node_id, repo_url, simple_user
from hostler.sandbox.state.clock import iso, iso_or_none
from hostler.sandbox.state.entities import Comment, Issue, Label, Repo, TimelineEvent

REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "eyes", "rocket")


@serializer(Label)
def serialize_label(item: Label, frame: RenderContext) -> dict[str, Any]:
    """Return a label."""
    return {
        "id": item.id,
        "node_id": node_id("Label", item.id),
        "url": f"{repo_url(item.repo_id, frame)}/labels/{item.name}",
        "name": item.name,
        "description": item.description,
        "color": item.color,
        "default": item.default,
        "archived_at": None,
        "archived_by": None,
    }


def labels_of(issue: Issue, frame: RenderContext) -> list[dict[str, Any]]:
    """Return an issue's labels, without those that are gone."""
    found = (frame.tables.get(Label, label_id) for label_id in issue.labels)
    return [serialize_label(item, frame) for item in found if item is not None]


def _is_independent(item: Issue, frame: RenderContext) -> bool:
    """Return whether an issue's JSON depends on no other issue."""
    return not item.blocked_by and not frame.tables.group(Issue, "blocker", item.id).items


@serializer(Issue, kept=_is_independent)
def serialize_issue(item: Issue, frame: RenderContext) -> dict[str, Any]:
    """Return an issue, or a pull request seen as one."""
    base = repo_url(item.repo_id, frame)
    url = f"{base}/issues/{item.number}"
    assignees = [simple_user(login, frame) for login in item.assignees]
    return {
        "id": item.id,
        "node_id": node_id("Issue", item.id),
        "number": item.number,
        "title": item.title,
        "body": item.body,
        "state": item.state,
        "state_reason": item.state_reason,
        "user": simple_user(item.user, frame),
        "labels": labels_of(item, frame),
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees,
        "milestone": None,
        "comments": item.comments,
        "locked": item.locked,
        "active_lock_reason": item.lock_reason,
        "author_association": item.association,
        "created_at": iso(item.created_at),
        "updated_at": iso(item.updated_at),
        "closed_at": iso_or_none(item.closed_at),
        "closed_by": simple_user(item.closed_by, frame) if item.closed_by else None,
        "performed_via_github_app": None,
        "reactions": reaction_counts((), url),
        "issue_dependencies_summary": _dependency_counts(item, frame),
        **_issue_urls(item, base, url, frame),
        **_pull_fields(item, base, frame),
    }


def _dependency_counts(item: Issue, frame: RenderContext) -> dict[str, int]:
    """Return how many issues it waits for and how many wait for it: open ones, and all."""
    found = (frame.tables.get(Issue, number) for number in item.blocked_by)
    blockers = [other.state for other in found if other is not None]
    waiting = frame.tables.group(Issue, "blocker", item.id).items.values()
    blocked = [other.state for other in waiting if isinstance(other, Issue)]
    return {
        "blocked_by": blockers.count("open"),
        "blocking": blocked.count("open"),
        "total_blocked_by": len(blockers),
        "total_blocking": len(blocked),
    }


def _issue_urls(item: Issue, base: str, url: str, frame: RenderContext) -> dict[str, Any]:
    page = "pull" if item.pull else "issues"
    return {
        "url": url,
        "repository_url": base,
        "labels_url": url + "/labels{/name}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "timeline_url": f"{url}/timeline",
        "html_url": f"{html_root(frame)}/{full_name(item.repo_id, frame)}/{page}/{item.number}",
    }


def _pull_fields(item: Issue, base: str, frame: RenderContext) -> dict[str, Any]:
    if item.pull is None:
        return {}
    page = f"{html_root(frame)}/{full_name(item.repo_id, frame)}/pull/{item.number}"
    return {
        "draft": item.pull.draft,
        "pull_request": {
            "url": f"{base}/pulls/{item.number}",
            "html_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "merged_at": iso_or_none(item.pull.merged_at),
        },
    }


@serializer(Comment)
def serialize_comment(item: Comment, frame: RenderContext) -> dict[str, Any]:
    """Return a comment of a conversation."""
    base = repo_url(item.repo_id, frame)
    url = f"{base}/issues/comments/{item.id}"
    page = f"{html_root(frame)}/{full_name(item.repo_id, frame)}/issues/{item.number}"
    return {
        "id": item.id,
        "node_id": node_id("IssueComment", item.id),
        "url": url,
        "html_url": f"{page}#issuecomment-{item.id}",
        "issue_url": f"{base}/issues/{item.number}",
        "user": simple_user(item.user, frame),
        "created_at": iso(item.created_at),
        "updated_at": iso(item.updated_at),
        "body": item.body,
        "author_association": item.association,
        "performed_via_github_app": None,
        "reactions": reaction_counts(item.reactions, url),
    }


def reaction_counts(given: tuple[tuple[int, str, str], ...], url: str) -> dict[str, Any]:
    """Return the roll-up of reactions below a text."""
    counts = Counter(content for _, _, content in given)
    return {
        "url": f"{url}/reactions",
        "total_count": len(given),
        **{content: counts[content] for content in REACTIONS},
    }


@serializer(TimelineEvent, "bare", kept=False)
def serialize_bare_event(item: TimelineEvent, frame: RenderContext) -> dict[str, Any]:
    """Return an event in an issue's own list."""
    base = repo_url(item.repo_id, frame)
    detail = dict(item.detail)
    commit = f"{base}/commits/{item.commit_id}" if item.commit_id else None
    found: dict[str, Any] = {
        "id": item.id,
        "node_id": node_id("IssueEvent", item.id),
        "url": f"{base}/issues/events/{item.id}",
        "actor": simple_user(item.actor, frame),
        "event": item.event,
        "commit_id": item.commit_id,
        "commit_url": commit,
        "created_at": iso(item.created_at),
        "performed_via_github_app": None,
    }
    if "label" in detail:
        found["label"] = {"name": detail["label"], "color": detail.get("color", "ededed")}
    if "assignee" in detail:
        found["assignee"] = simple_user(detail["assignee"], frame)
        found["assigner"] = simple_user(item.actor, frame)
    if "from" in detail:
        found["rename"] = {"from": detail["from"], "to": detail["to"]}
    if item.event == "locked":
        found["lock_reason"] = detail.get("reason")
    if "blocker" in detail:
        found["blocked_by"] = _dependency_reference(int(detail["blocker"]), frame)
    return found


def _dependency_reference(issue_id: int, frame: RenderContext) -> dict[str, Any] | None:
    """Return the short JSON of another issue."""
    other = frame.tables.get(Issue, issue_id)
    repo = frame.tables.get(Repo, other.repo_id) if other else None
    if other is None or repo is None:
        return None
    return {
        "number": other.number,
        "title": other.title,
        "state": other.state,
        "repository": serialize(repo, frame),
        "issue_type": None,
    }


@serializer(TimelineEvent, kept=False)
def serialize_event(item: TimelineEvent, frame: RenderContext) -> dict[str, Any]:
    """Return an event in the repository's list, with its issue."""
    about = frame.tables.get(Issue, item.issue_id)
    return {
        **serialize_bare_event(item, frame),
        "issue": serialize_issue(about, frame) if about else None,
    }
