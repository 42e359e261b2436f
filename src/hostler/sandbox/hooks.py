"""Webhooks: what is subscribed, and the deliveries that were made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from hostler.sandbox.moments import iso
from hostler.sandbox.render import Frame, shape
from hostler.sandbox.shapes.issues import repo_url
from hostler.sandbox.tables import Entity, Key

EVENTS = frozenset(
    (
        "*", "branch_protection_configuration", "branch_protection_rule", "check_run",
        "check_suite", "code_scanning_alert", "commit_comment", "create",
        "custom_property_values", "delete", "dependabot_alert", "deploy_key", "deployment",
        "deployment_protection_rule", "deployment_review", "deployment_status",
        "discussion", "discussion_comment", "fork", "gollum", "issue_comment",
        "issue_dependencies", "issues", "label", "member", "merge_group", "meta",
        "milestone", "package", "page_build", "project", "project_card", "project_column",
        "public", "pull_request", "pull_request_review", "pull_request_review_comment",
        "pull_request_review_thread", "push", "registry_package", "release", "repository",
        "repository_advisory", "repository_import", "repository_ruleset",
        "repository_vulnerability_alert", "secret_scanning_alert",
        "secret_scanning_alert_location", "secret_scanning_scan", "security_and_analysis",
        "star", "status", "sub_issues", "team_add", "watch", "workflow_dispatch",
        "workflow_job", "workflow_run",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hook(Entity):
    """A subscription of a URL to a repository's events."""

    kind: ClassVar[str] = "hook"
    repo_id: int
    url: str
    created_at: int
    updated_at: int
    secret: str = ""
    content_type: str = "json"
    insecure_ssl: str = "0"
    events: tuple[str, ...] = ("push",)
    active: bool = True

    def groups(self) -> tuple[Key, ...]:
        return (("repo", self.repo_id),)

    def wants(self, event: str) -> bool:
        """Whether it is told of an event."""
        return event == "ping" or (self.active and ("*" in self.events or event in self.events))


@dataclass(frozen=True, slots=True)
class Delivery(Entity):
    """One attempt to tell a hook something. `status_code` 0: nobody answered."""

    kind: ClassVar[str] = "delivery"
    saved: ClassVar[bool] = False
    repo_id: int
    hook_id: int
    guid: str
    event: str
    action: str | None
    delivered_at: int
    body: str
    status: str = "pending"
    status_code: int = 0
    duration: float = 0.0
    redelivery: bool = False

    def groups(self) -> tuple[Key, ...]:
        return (("hook", self.hook_id),)


@shape(Hook)
def hook(item: Hook, frame: Frame) -> dict[str, Any]:
    """A hook; its secret is never told."""
    url = f"{repo_url(item.repo_id, frame)}/hooks/{item.id}"
    config = {
        "url": item.url,
        "content_type": item.content_type,
        "insecure_ssl": item.insecure_ssl,
        **({"secret": "********"} if item.secret else {}),
    }
    return {
        "type": "Repository",
        "id": item.id,
        "name": "web",
        "active": item.active,
        "events": list(item.events),
        "config": config,
        "created_at": iso(item.created_at),
        "updated_at": iso(item.updated_at),
        "url": url,
        "test_url": f"{url}/test",
        "ping_url": f"{url}/pings",
        "deliveries_url": f"{url}/deliveries",
        "last_response": {"code": None, "status": "unused", "message": None},
    }


@shape(Delivery, "bare", kept=False)
def delivery_item(item: Delivery, _frame: Frame) -> dict[str, Any]:
    """A delivery in a list."""
    return {
        "id": item.id,
        "guid": item.guid,
        "delivered_at": iso(item.delivered_at),
        "redelivery": item.redelivery,
        "duration": item.duration,
        "status": item.status,
        "status_code": item.status_code,
        "event": item.event,
        "action": item.action,
        "installation_id": None,
        "repository_id": item.repo_id,
        "throttled_at": None,
    }


@shape(Delivery, kept=False)
def delivery(item: Delivery, frame: Frame) -> dict[str, Any]:
    """A delivery with what was said."""
    headers = {"X-GitHub-Event": item.event, "X-GitHub-Delivery": item.guid}
    return {
        **delivery_item(item, frame),
        "url": "",
        "request": {"headers": headers, "payload": json.loads(item.body)},
        "response": {"headers": {}, "payload": ""},
    }
