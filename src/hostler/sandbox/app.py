"""The ASGI application: the API at / and /api/v3, git at /{owner}/{repo}.git, test controls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from hostler.sandbox.action_controls import ActionControls
from hostler.sandbox.control import Control
from hostler.sandbox.controls import WorldControls
from hostler.sandbox.git.streams import ClientGone, body
from hostler.sandbox.git.vault import Vault
from hostler.sandbox.gitweb import bridge
from hostler.sandbox.http import Request, Response, json_response
from hostler.sandbox.loopback import objection
from hostler.sandbox.pipeline import Cut, Pipeline
from hostler.sandbox.routes import all_routes, attach_all
from hostler.sandbox.webhooks import Postman
from hostler.sandbox.world import World

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LARGEST_BODY = 8 * 1024 * 1024
ABORT = "hostler.abort"


class SandboxApp:
    """A whole GitHub. Everything happens on the event loop that calls it."""

    def __init__(self, world: World | None = None, vault: Vault | None = None) -> None:
        self.world = world or World()
        self.world.vault = vault
        self.git = bridge(self.world, vault) if vault else None
        self.pipeline = Pipeline(self.world, all_routes())
        self.postman = Postman(self.world)
        self.control = Control(self)
        WorldControls(self)
        ActionControls(self)
        attach_all(self.world)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await _lifespan(receive, send)
        if scope["type"] != "http":
            return None
        raw = scope.get("raw_path") or scope["path"].encode()
        path = raw.decode("ascii", "replace")
        headers = _headers(scope)
        if refused := objection(path, headers):
            return await _write(send, json_response({"message": refused}, 403), False)
        if self.git is not None and self.git.wants(scope):
            return await self.git(scope, receive, send)
        try:
            request = await _read(scope, path, headers, receive)
        except ClientGone:
            # Half a request is none: nothing of it is done.
            return None
        if request is None:
            return await _write(send, Response(413, b'{"message":"Payload too large"}'), False)
        await self._reply(scope, request, send)
        return None

    async def respond(self, request: Request) -> Response:
        """The answer to a request, without any socket."""
        if request.path == "/_sandbox" or request.path.startswith("/_sandbox/"):
            return await self.control.answer(request)
        return await self.pipeline.answer(request)

    async def _reply(self, scope: Scope, request: Request, send: Send) -> None:
        try:
            response = await self.respond(request)
        except Cut as cut:
            await _cut(scope, cut, send)
        else:
            await _write(send, response, request.method == "HEAD")


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


async def _read(
    scope: Scope, path: str, headers: dict[str, str], receive: Receive
) -> Request | None:
    """The request with its body; None if the body is too large."""
    chunks: list[bytes] = []
    size = 0
    if "content-length" in headers or "transfer-encoding" in headers:
        async for chunk in body(receive):
            size += len(chunk)
            if size > LARGEST_BODY and not path.startswith("/_sandbox/"):
                return None
            chunks.append(chunk)
    root = f"http://{headers['host']}"
    if path == "/api/v3" or path.startswith("/api/v3/"):
        path, root = path[len("/api/v3") :] or "/", root + "/api/v3"
    query = scope["query_string"].decode("ascii", "replace")
    client = (scope.get("client") or ("",))[0]
    return Request(scope["method"], path, query, headers, b"".join(chunks), root, client)


async def _write(send: Send, response: Response, head: bool) -> None:
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in response.headers.items()
    ]
    if response.status not in (204, 304):
        headers.append((b"content-type", response.content_type.encode()))
        headers.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else response.body})


async def _cut(scope: Scope, cut: Cut, send: Send) -> None:
    """End the connection, with half of the body said or without a word."""
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
