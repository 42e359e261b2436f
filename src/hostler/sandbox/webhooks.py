"""Webhooks: subscriptions, and signed deliveries in order per hook, to this machine only."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from urllib.parse import urlencode, urlsplit

import httpx

from hostler.sandbox.auth import ANONYMOUS
from hostler.sandbox.http.requests import encode
from hostler.sandbox.serializers.base import RenderContext, render_payload, serialize, serializer
from hostler.sandbox.serializers.repos import repo_url, simple_user
from hostler.sandbox.state.clock import iso
from hostler.sandbox.state.entities import Repo, User
from hostler.sandbox.state.tables import Entity, Key
from hostler.sandbox.state.world import World

WEBHOOK_EVENTS = frozenset(
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
class Webhook(Entity):
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
        """Return whether this hook is subscribed to an event."""
        return event == "ping" or (self.active and ("*" in self.events or event in self.events))


@dataclass(frozen=True, slots=True)
class HookDelivery(Entity):
    """One delivery to a hook. `status_code` 0: no response."""

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


@serializer(Webhook)
def serialize_webhook(item: Webhook, frame: RenderContext) -> dict[str, Any]:
    """Return a hook without its secret."""
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


@serializer(HookDelivery, "bare", kept=False)
def serialize_short_delivery(item: HookDelivery, _frame: RenderContext) -> dict[str, Any]:
    """Return a delivery in a list."""
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


@serializer(HookDelivery, kept=False)
def serialize_delivery(item: HookDelivery, frame: RenderContext) -> dict[str, Any]:
    """Return a delivery with its payload."""
    headers = {"X-GitHub-Event": item.event, "X-GitHub-Delivery": item.guid}
    return {
        **serialize_short_delivery(item, frame),
        "url": "",
        "request": {"headers": headers, "payload": json.loads(item.body)},
        "response": {"headers": {}, "payload": ""},
    }


DELIVERY_TIMEOUT_SECONDS = 10.0
# How many deliveries of a hook are remembered.
MAX_DELIVERIES = 100
CONTENT_TYPES = {"json": "application/json", "form": "application/x-www-form-urlencoded"}
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


def signature(secret: str, body: bytes) -> str:
    """Return the X-Hub-Signature-256 of a body."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class WebhookSender:
    """Takes events of a world to the hooks that want them. Never holds up a write."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns: dict[int, asyncio.Lock] = {}
        self._client: httpx.AsyncClient | None = None
        world.listeners.append(self.publish)

    def publish(self, event: str, item: Entity, action: str, actor: str, **more: Any) -> None:
        """Queue an event for every hook of its repository that wants it."""
        tables = self._world.truth
        repo_id = getattr(item, "repo_id", item.id)
        hooks = [
            hook for hook in tables.group(Webhook, "repo", repo_id).select() if hook.wants(event)
        ]
        if event == "ping" and isinstance(item, Webhook):
            hooks = [item]
        if not hooks:
            return
        frame = RenderContext(self._world.root, tables, ANONYMOUS)
        said = self._payload(event, item, action, actor, frame)
        body = encode(said | {name: _to_json(value, frame) for name, value in more.items()})
        for hook in hooks:
            self.queue(hook, event, action, body)

    def queue(self, hook: Webhook, event: str, action: str, body: bytes) -> None:
        """Record a delivery and start it."""
        world = self._world
        delivery = world.put(
            HookDelivery(
                id=world.new_id("delivery"),
                repo_id=hook.repo_id,
                hook_id=hook.id,
                guid=str(uuid.uuid4()),
                event=event,
                action=action or None,
                delivered_at=world.now(),
                body=body.decode(),
            )
        )
        self._forget(hook)
        self._start(self._deliver(hook, delivery, body))

    async def idle(self) -> None:
        """Wait until all deliveries have ended."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self) -> None:
        """Cancel the deliveries in progress."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    def _payload(
        self, event: str, item: Entity, action: str, actor: str, frame: RenderContext
    ) -> dict[str, Any]:
        repo = frame.tables.get(Repo, getattr(item, "repo_id", item.id))
        return {
            **({"action": action} if action else {}),
            **render_payload(event, item, action, frame),
            "repository": serialize(repo, frame) if repo else None,
            "sender": simple_user(actor, frame),
        }

    def _forget(self, hook: Webhook) -> None:
        made = self._world.truth.group(HookDelivery, "hook", hook.id).select()
        for old in made.cut(0, len(made) - MAX_DELIVERIES) if len(made) > MAX_DELIVERIES else ():
            self._world.remove(old)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            task = asyncio.get_running_loop().create_task(work)
        except RuntimeError:
            # No event loop: a world that is being set up delivers nothing.
            work.close()
            return
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, hook: Webhook, delivery: HookDelivery, body: bytes) -> None:
        async with self._turns.setdefault(hook.id, asyncio.Lock()):
            started = time.monotonic()
            code, status = await self._post(hook, delivery, body)
            duration = round(time.monotonic() - started, 3)
            after = replace(delivery, status=status, status_code=code, duration=duration)
            # It may have been forgotten meanwhile, or its hook be gone.
            if self._world.truth.get(HookDelivery, delivery.id) is delivery:
                self._world.put(after)

    async def _post(self, hook: Webhook, delivery: HookDelivery, body: bytes) -> tuple[int, str]:
        if not _is_local(hook.url):
            return 0, "not sent: the sandbox delivers to this machine only"
        wire = urlencode({"payload": body}).encode() if hook.content_type == "form" else body
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=DELIVERY_TIMEOUT_SECONDS, trust_env=False)
        try:
            answer = await self._client.post(
                hook.url, content=wire, headers=_delivery_headers(hook, delivery, wire)
            )
        # Whatever an address does, the delivery must have an end.
        except Exception as error:
            return 0, f"failed to connect: {type(error).__name__}"
        return answer.status_code, "OK" if answer.is_success else answer.reason_phrase


def _to_json(value: Any, frame: RenderContext) -> Any:
    if isinstance(value, User):
        return simple_user(value.login, frame)
    return serialize(value, frame) if isinstance(value, Entity) else value


def _delivery_headers(hook: Webhook, delivery: HookDelivery, body: bytes) -> dict[str, str]:
    headers = {
        "User-Agent": "GitHub-Hookshot/sandbox",
        "Content-Type": CONTENT_TYPES[hook.content_type],
        "X-GitHub-Event": delivery.event,
        "X-GitHub-Delivery": delivery.guid,
        "X-GitHub-Hook-ID": str(hook.id),
        "X-GitHub-Hook-Installation-Target-Type": "repository",
        "X-GitHub-Hook-Installation-Target-ID": str(hook.repo_id),
    }
    if hook.secret:
        headers["X-Hub-Signature-256"] = signature(hook.secret, body)
    return headers


def _is_local(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS
    except ValueError:
        return False
