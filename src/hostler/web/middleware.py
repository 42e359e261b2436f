"""ASGI middleware that authenticates requests, limits their bodies and sets security headers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import quote, unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hostler.telemetry import names
from hostler.telemetry.metrics import metrics
from hostler.web.auth import (
    API_ROOT,
    LOGIN_PATH,
    SAFE_METHODS,
    STATIC_ROOT,
    AuthFailure,
    AuthPolicy,
    BrowserSession,
    RequestCredentials,
    SessionStore,
    check_request,
    is_public_path,
)
from hostler.web.client.connection import CALLER_HEADER
from hostler.web.errors import build_denial, build_error_response

SESSION_COOKIE = "hostler_session"
MAX_BODY_BYTES = 2 * 1024 * 1024
BODY_TIMEOUT_SECONDS = 30.0
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With `no-referrer`, browsers would name the origin of our own forms `null`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class AuthMiddleware:
    """Judges requests, bounds their bodies, and puts the headers of safety on every answer."""

    def __init__(
        self,
        app: ASGIApp,
        policy: AuthPolicy,
        sessions: SessionStore,
        body_seconds: float = BODY_TIMEOUT_SECONDS,
    ) -> None:
        self._app = app
        self._locks = policy
        self._sessions = sessions
        self._body_seconds = body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # we have no other business: the server closes it
        headers = Headers(scope=scope)
        name = read_session_id(headers)
        session = self._sessions.find(name) if name else None
        guarded = _add_headers(send, scope["path"])
        credentials = read_credentials(scope, headers)
        door = check_request(credentials, self._locks, session)
        if door is not None:
            await _deny(door, scope, headers)(scope, receive, guarded)
            return
        # Where everybody may come, nobody's word on a name counts.
        by = "" if is_public_path(credentials.path) else unquote(credentials.by)
        scope["hostler.session"], scope["hostler.by"] = session, by
        if session is not None and not credentials.bearer:
            scope["hostler.lasts"] = partial(self._sessions.lasts, name)
        await self._let_in(scope, receive, _count_changes(guarded, credentials, session), headers)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        said = headers.get("content-length", "0")
        if not (said.isascii() and said.isdigit()) or len(said) > 12:
            await _bad_length()(scope, receive, send)
            return
        body = None
        if int(said) <= MAX_BODY_BYTES:
            try:
                async with asyncio.timeout(self._body_seconds):
                    body = await _read_body(receive)
            except TimeoutError:
                await _too_slow()(scope, receive, send)
                return
            except _ClientDisconnected:
                return  # half a command is none, and nobody is there to be told
        if body is None:
            await _too_large()(scope, receive, send)
            return
        await self._app(scope, _replay_body(body, receive), send)


def read_credentials(scope: Scope, headers: Headers) -> RequestCredentials:
    """What the doors must know of a request."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return RequestCredentials(
        method=scope["method"],
        path=scope["path"],
        host=headers.get("host", ""),
        origin=headers.get("origin", ""),
        bearer=given.strip() if scheme.lower() == "bearer" else "",
        csrf=headers.get("x-csrf-token", ""),
        by=headers.get(CALLER_HEADER.lower(), ""),
    )


def read_session_id(headers: Headers) -> str:
    """The session that a browser names; empty: none."""
    # By hand: cookies of all ports of a host come together, and one that a strict parser dislikes
    # must not take ours with it.
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == SESSION_COOKIE:
            return value
    return ""


def get_session(scope: Scope) -> BrowserSession | None:
    """The session of a request that was let in."""
    found = scope.get("hostler.session")
    return found if isinstance(found, BrowserSession) else None


def get_access_check(scope: Scope) -> Callable[[], bool]:
    """Tells whether a request that was let in would be let in still; a token always is."""
    found: Callable[[], bool] = scope.get("hostler.lasts", lambda: True)
    return found


def get_caller_name(scope: Scope) -> str:
    """Whose name a request that was let in says; empty: none."""
    return str(scope.get("hostler.by", ""))


def _deny(door: AuthFailure, scope: Scope, headers: Headers) -> Response:
    """People who want a page are shown the way; programs get the one shape."""
    page = "text/html" in headers.get("accept", "") and not scope["path"].startswith(API_ROOT)
    if door is AuthFailure.TOKEN and page and scope["method"] == "GET":
        return RedirectResponse(f"{LOGIN_PATH}?next={quote(scope['path'], safe='/')}", 303)
    return build_denial(door)


class _ClientDisconnected(Exception):
    """Whoever asked is gone, in the middle of a word."""


async def _read_body(receive: Receive) -> bytes | None:
    """The whole body; None where it is too large."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _ClientDisconnected
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again


def _add_headers(send: Send, path: str) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
            if not path.startswith(STATIC_ROOT):
                headers["Cache-Control"] = "no-store"
        await send(message)

    return guarded


def _count_changes(
    send: Send, credentials: RequestCredentials, session: BrowserSession | None
) -> Send:
    """Count what was answered to those who want to change something."""
    if credentials.method in SAFE_METHODS:
        return send
    door = "token" if credentials.bearer else "session" if session else "open"

    async def counting(message: Message) -> None:
        if message["type"] == "http.response.start":
            metrics.count(names.API_CHANGES, door=door, status=str(message["status"]))
        await send(message)

    return counting


def _too_large() -> Response:
    what = f"The body is larger than {MAX_BODY_BYTES:,} bytes."
    return build_error_response(413, what, kind="too_large", headers={"Connection": "close"})


def _too_slow() -> Response:
    return build_error_response(408, "The body came too slowly.", kind="too_slow")


def _bad_length() -> Response:
    return build_error_response(400, "The length of the body is no number.", kind="bad_length")
