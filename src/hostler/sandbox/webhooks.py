"""Delivering webhooks: signed, asynchronous, in order per hook, to this machine alone."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
import uuid
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx

from hostler.sandbox.entities import Repo, User
from hostler.sandbox.hooks import Delivery, Hook
from hostler.sandbox.http import encode
from hostler.sandbox.identity import ANONYMOUS
from hostler.sandbox.payloads import payload_of
from hostler.sandbox.render import Frame, shaped
from hostler.sandbox.shapes.people import simple_user
from hostler.sandbox.tables import Entity
from hostler.sandbox.world import World

PATIENCE = 10.0
# How many deliveries of a hook are remembered.
MEMORY = 100
CONTENT_TYPES = {"json": "application/json", "form": "application/x-www-form-urlencoded"}
HERE = ("127.0.0.1", "localhost", "::1")


def signature(secret: str, body: bytes) -> str:
    """The X-Hub-Signature-256 of a body."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class Postman:
    """Takes events of a world to the hooks that want them. Never holds up a write."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns: dict[int, asyncio.Lock] = {}
        self._client: httpx.AsyncClient | None = None
        world.listeners.append(self.tell)

    def tell(self, event: str, item: Entity, action: str, actor: str, **more: Any) -> None:
        """Queue an event for every hook of its repository that wants it."""
        tables = self._world.truth
        repo_id = getattr(item, "repo_id", item.id)
        hooks = [hook for hook in tables.group(Hook, "repo", repo_id).select() if hook.wants(event)]
        if event == "ping" and isinstance(item, Hook):
            hooks = [item]
        if not hooks:
            return
        frame = Frame(self._world.root, tables, ANONYMOUS)
        said = self._said(event, item, action, actor, frame)
        body = encode(said | {name: _plain(value, frame) for name, value in more.items()})
        for hook in hooks:
            self.queue(hook, event, action, body)

    def queue(self, hook: Hook, event: str, action: str, body: bytes) -> None:
        """Record a delivery and set it on its way."""
        world = self._world
        delivery = world.put(
            Delivery(
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
        """Wait until nothing is on its way."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def close(self) -> None:
        """Give up what is on its way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    def _said(
        self, event: str, item: Entity, action: str, actor: str, frame: Frame
    ) -> dict[str, Any]:
        repo = frame.tables.get(Repo, getattr(item, "repo_id", item.id))
        return {
            **({"action": action} if action else {}),
            **payload_of(event, item, action, frame),
            "repository": shaped(repo, frame) if repo else None,
            "sender": simple_user(actor, frame),
        }

    def _forget(self, hook: Hook) -> None:
        made = self._world.truth.group(Delivery, "hook", hook.id).select()
        for old in made.cut(0, len(made) - MEMORY) if len(made) > MEMORY else ():
            self._world.remove(old)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            task = asyncio.get_running_loop().create_task(work)
        except RuntimeError:
            # Nobody runs us: a world that is being set up tells nobody.
            work.close()
            return
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, hook: Hook, delivery: Delivery, body: bytes) -> None:
        async with self._turns.setdefault(hook.id, asyncio.Lock()):
            started = time.monotonic()
            code, status = await self._post(hook, delivery, body)
            duration = round(time.monotonic() - started, 3)
            after = replace(delivery, status=status, status_code=code, duration=duration)
            # It may have been forgotten meanwhile, or its hook be gone.
            if self._world.truth.get(Delivery, delivery.id) is delivery:
                self._world.put(after)

    async def _post(self, hook: Hook, delivery: Delivery, body: bytes) -> tuple[int, str]:
        if not _is_here(hook.url):
            return 0, "not sent: the sandbox delivers to this machine only"
        wire = urlencode({"payload": body}).encode() if hook.content_type == "form" else body
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=PATIENCE, trust_env=False)
        try:
            answer = await self._client.post(
                hook.url, content=wire, headers=_headers(hook, delivery, wire)
            )
        # Whatever an address does, the delivery must have an end.
        except Exception as error:
            return 0, f"failed to connect: {type(error).__name__}"
        return answer.status_code, "OK" if answer.is_success else answer.reason_phrase


def _plain(value: Any, frame: Frame) -> Any:
    if isinstance(value, User):
        return simple_user(value.login, frame)
    return shaped(value, frame) if isinstance(value, Entity) else value


def _headers(hook: Hook, delivery: Delivery, body: bytes) -> dict[str, str]:
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


def _is_here(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme == "http" and parts.hostname in HERE
    except ValueError:
        return False
