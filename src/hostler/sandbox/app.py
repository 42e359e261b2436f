"""The ASGI application: the API at / and /api/v3, git at /{owner}/{repo}.git, test controls."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import Any

from hostler.sandbox.api import all_routes, attach_all
from hostler.sandbox.auth import identify
from hostler.sandbox.control.endpoints import CiControls, ControlEndpoints, WorldControls
from hostler.sandbox.git.http_backend import ClientGone, read_body
from hostler.sandbox.git.repository import RepoStore
from hostler.sandbox.git.smart_http import GitAccess, GitBridge, GitCall
from hostler.sandbox.http.errors import ApiError
from hostler.sandbox.http.pipeline import ConnectionCut, Pipeline
from hostler.sandbox.http.requests import SandboxRequest, SandboxResponse, json_response
from hostler.sandbox.http.server import ABORT
from hostler.sandbox.pulls.pushes import announce_push
from hostler.sandbox.state.entities import Repo
from hostler.sandbox.state.world import World
from hostler.sandbox.webhooks import WebhookSender

_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """Return whether a `Host` header names this machine by one of its own names."""
    return _LOOPBACK.fullmatch(host) is not None


def refusal_reason(path: str, headers: Mapping[str, str]) -> str | None:
    """Return why a request is refused; None if it is not.

    A page can make its own name point to this machine, but then the browser sends that name
    as `Host`; and what it sends across, it marks with `Origin`.
    """
    if not is_loopback(headers.get("host", "")):
        return "The sandbox answers to 127.0.0.1 and localhost only"
    controls = path == "/_sandbox" or path.startswith("/_sandbox/")
    if controls and "origin" in headers:
        return "Web pages may not use the controls"
    return None


def _git_bridge(world: World, repo_store: RepoStore) -> GitBridge:
    """Return the smart-HTTP side of a world's repositories."""

    def look_up(call: GitCall, token: str | None) -> GitAccess:
        return _git_access(world, call, token)

    return GitBridge(
        repo_store,
        look_up,
        partial(announce_push, world),
        lambda: world.settings.git_idle_seconds or None,
    )


def _git_access(world: World, call: GitCall, token: str | None) -> GitAccess:
    """Return what the owner of a token may do with the repository that a git client names."""
    try:
        viewer = identify(world, None if token is None else f"Bearer {token}")
    except ApiError:
        return GitAccess(None, bad_credentials=True)
    tables = world.truth
    name = f"{call.owner}/{call.name}".lower()
    repo = tables.find(Repo, name)
    moved = None if repo else tables.find(Repo, "former", name)
    found = repo or moved
    if found is None:
        return GitAccess(None, login=viewer.login or None)
    return GitAccess(
        number=found.id,
        login=viewer.login or None,
        can_read=viewer.can(tables, found, "read"),
        can_write=viewer.can(tables, found, "write") and not found.archived,
        moved_to=found.full_name if moved else None,
    )


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_BODY_BYTES = 8 * 1024 * 1024


class SandboxApp:
    """A whole GitHub. Everything happens on the event loop that calls it."""

    def __init__(self, world: World | None = None, repo_store: RepoStore | None = None) -> None:
        self.world = world or World()
        self.world.repo_store = repo_store
        self.git = _git_bridge(self.world, repo_store) if repo_store else None
        self.pipeline = Pipeline(self.world, all_routes())
        self.webhook_sender = WebhookSender(self.world)
        self.control = ControlEndpoints(self)
        WorldControls(self)
        CiControls(self)
        attach_all(self.world)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await _answer_lifespan(receive, send)
        if scope["type"] != "http":
            return None
        raw = scope.get("raw_path") or scope["path"].encode()
        path = raw.decode("ascii", "replace")
        headers = _headers(scope)
        if refused := refusal_reason(path, headers):
            return await _send_response(send, json_response({"message": refused}, 403), False)
        if self.git is not None and self.git.wants(scope):
            return await self.git(scope, receive, send)
        try:
            request = await _read_request(scope, path, headers, receive)
        except ClientGone:
            # Half a request is none: nothing of it is done.
            return None
        if request is None:
            return await _send_response(
                send, SandboxResponse(413, b'{"message":"Payload too large"}'), False
            )
        await self._reply(scope, request, send)
        return None

    async def respond(self, request: SandboxRequest) -> SandboxResponse:
        """Return the response to a request, without a socket."""
        if request.path == "/_sandbox" or request.path.startswith("/_sandbox/"):
            return await self.control.answer(request)
        return await self.pipeline.answer(request)

    async def _reply(self, scope: Scope, request: SandboxRequest, send: Send) -> None:
        try:
            response = await self.respond(request)
        except ConnectionCut as cut:
            await _cut_connection(scope, cut, send)
        else:
            await _send_response(send, response, request.method == "HEAD")


async def _answer_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


async def _read_request(
    scope: Scope, path: str, headers: dict[str, str], receive: Receive
) -> SandboxRequest | None:
    """Return the request with its body; None if the body is too large."""
    chunks: list[bytes] = []
    size = 0
    if "content-length" in headers or "transfer-encoding" in headers:
        async for chunk in read_body(receive):
            size += len(chunk)
            if size > MAX_BODY_BYTES and not path.startswith("/_sandbox/"):
                return None
            chunks.append(chunk)
    root = f"http://{headers['host']}"
    if path == "/api/v3" or path.startswith("/api/v3/"):
        path, root = path[len("/api/v3") :] or "/", root + "/api/v3"
    query = scope["query_string"].decode("ascii", "replace")
    client = (scope.get("client") or ("",))[0]
    return SandboxRequest(scope["method"], path, query, headers, b"".join(chunks), root, client)


async def _send_response(send: Send, response: SandboxResponse, head: bool) -> None:
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in response.headers.items()
    ]
    if response.status not in (204, 304):
        headers.append((b"content-type", response.content_type.encode()))
        headers.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else response.body})


async def _cut_connection(scope: Scope, cut: ConnectionCut, send: Send) -> None:
    """Cut the connection, after half of the body or before the response."""
    abort = scope.get("extensions", {}).get(ABORT)
    if abort is None:
        raise cut
    if cut.partial is not None:
        half = cut.partial.body[: len(cut.partial.body) // 2]
        headers = [(b"content-length", str(len(cut.partial.body)).encode())]
        await send(
            {"type": "http.response.start", "status": cut.partial.status, "headers": headers}
        )
        await send({"type": "http.response.body", "body": half, "more_body": True})
    abort(cut.partial is not None)
