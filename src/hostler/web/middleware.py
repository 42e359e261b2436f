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
_BODY_TIMEOUT_SECONDS = 30.0
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With `no-referrer`, browsers would send `Origin: null` for the login form.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class AuthMiddleware:
    """Checks requests, limits their bodies, and sets security headers on every response."""

    def __init__(
        self,
        app: ASGIApp,
        policy: AuthPolicy,
        sessions: SessionStore,
        body_seconds: float = _BODY_TIMEOUT_SECONDS,
    ) -> None:
        self._app = app
        self._policy = policy
        self._sessions = sessions
        self._body_seconds = body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # only HTTP is served
        headers = Headers(scope=scope)
        name = read_session_id(headers)
        session = self._sessions.find(name) if name else None
        send_with_headers = _add_headers(send, scope["path"])
        credentials = _read_credentials(scope, headers)
        failure = check_request(credentials, self._policy, session)
        if failure is not None:
            await _deny(failure, scope, headers)(scope, receive, send_with_headers)
            return
        # Without authentication, the caller's name is not trusted.
        by = "" if is_public_path(credentials.path) else unquote(credentials.by)
        scope["hostler.session"], scope["hostler.by"] = session, by
        if session is not None and not credentials.bearer:
            scope["hostler.has_access"] = partial(self._sessions.is_open, name)
        counted = _count_changes(send_with_headers, credentials, session)
        await self._forward(scope, receive, counted, headers)

    async def _forward(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or len(length) > 12:
            await _bad_length()(scope, receive, send)
            return
        body = None
        if int(length) <= MAX_BODY_BYTES:
            try:
                async with asyncio.timeout(self._body_seconds):
                    body = await _read_body(receive)
            except TimeoutError:
                await _too_slow()(scope, receive, send)
                return
            except _ClientDisconnected:
                return  # the body is incomplete, and the client is gone
        if body is None:
            await _too_large()(scope, receive, send)
            return
        await self._app(scope, _replay_body(body, receive), send)


def _read_credentials(scope: Scope, headers: Headers) -> RequestCredentials:
    """Return the credentials of a request."""
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
    """Return the session id in the cookies, or an empty text."""
    # Parsed here, because the cookies of all ports of a host come together, and a strict parser
    # would drop all of them for one invalid cookie.
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == SESSION_COOKIE:
            return value
    return ""


def get_session(scope: Scope) -> BrowserSession | None:
    """Return the browser session of an authenticated request."""
    found = scope.get("hostler.session")
    return found if isinstance(found, BrowserSession) else None


def get_access_check(scope: Scope) -> Callable[[], bool]:
    """Return a function that tells whether the caller still has access; a token always has."""
    found: Callable[[], bool] = scope.get("hostler.has_access", lambda: True)
    return found


def get_caller_name(scope: Scope) -> str:
    """Return the caller's name of an authenticated request, or an empty text."""
    return str(scope.get("hostler.by", ""))


def _deny(failure: AuthFailure, scope: Scope, headers: Headers) -> Response:
    """Redirect browsers to the login page; return an error body to programs."""
    wants_page = "text/html" in headers.get("accept", "") and not scope["path"].startswith(API_ROOT)
    if failure is AuthFailure.TOKEN and wants_page and scope["method"] == "GET":
        return RedirectResponse(f"{LOGIN_PATH}?next={quote(scope['path'], safe='/')}", 303)
    return build_denial(failure)


class _ClientDisconnected(Exception):
    """The client disconnected before it had sent the whole body."""


async def _read_body(receive: Receive) -> bytes | None:
    """Return the whole body, or None if it is too large."""
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
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _add_headers(send: Send, path: str) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
            if not path.startswith(STATIC_ROOT):
                headers["Cache-Control"] = "no-store"
        await send(message)

    return send_with_headers


def _count_changes(
    send: Send, credentials: RequestCredentials, session: BrowserSession | None
) -> Send:
    """Count the responses to requests that change something."""
    if credentials.method in SAFE_METHODS:
        return send
    auth = "token" if credentials.bearer else "session" if session else "open"

    async def counting(message: Message) -> None:
        if message["type"] == "http.response.start":
            metrics.count(names.API_CHANGES, auth=auth, status=str(message["status"]))
        await send(message)

    return counting


def _too_large() -> Response:
    what = f"The body is larger than {MAX_BODY_BYTES:,} bytes."
    return build_error_response(413, what, kind="body_too_large", headers={"Connection": "close"})


def _too_slow() -> Response:
    return build_error_response(408, "The body was sent too slowly.", kind="request_timeout")


def _bad_length() -> Response:
    return build_error_response(400, "`Content-Length` is not a number.", kind="bad_content_length")
