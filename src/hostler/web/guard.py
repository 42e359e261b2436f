"""The edge of the doors: every request passes here first, and every answer last."""

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
from hostler.web.client.line import BY
from hostler.web.doors import API, LOGIN, LOOKING, STATIC, Door, Knock, Locks, is_open, judge
from hostler.web.refusals import answer, shut
from hostler.web.sessions import Session, Sessions

COOKIE = "hostler_session"
LARGEST_BODY = 2 * 1024 * 1024
BODY_SECONDS = 30.0
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With `no-referrer`, browsers would name the origin of our own forms `null`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Judges requests, bounds their bodies, and puts the headers of safety on every answer."""

    def __init__(
        self, app: ASGIApp, locks: Locks, sessions: Sessions, body_seconds: float = BODY_SECONDS
    ) -> None:
        self._app = app
        self._locks = locks
        self._sessions = sessions
        self._body_seconds = body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # we have no other business: the server closes it
        headers = Headers(scope=scope)
        name = session_id(headers)
        session = self._sessions.find(name) if name else None
        guarded = _with_headers(send, scope["path"])
        knock = knock_of(scope, headers)
        door = judge(knock, self._locks, session)
        if door is not None:
            await _refusal(door, scope, headers)(scope, receive, guarded)
            return
        # Where everybody may come, nobody's word on a name counts.
        by = "" if is_open(knock.path) else unquote(knock.by)
        scope["hostler.session"], scope["hostler.by"] = session, by
        if session is not None and not knock.bearer:
            scope["hostler.lasts"] = partial(self._sessions.lasts, name)
        await self._let_in(scope, receive, _counted(guarded, knock, session), headers)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        said = headers.get("content-length", "0")
        if not (said.isascii() and said.isdigit()) or len(said) > 12:
            await _bad_length()(scope, receive, send)
            return
        body = None
        if int(said) <= LARGEST_BODY:
            try:
                async with asyncio.timeout(self._body_seconds):
                    body = await _body(receive)
            except TimeoutError:
                await _too_slow()(scope, receive, send)
                return
            except _CutOff:
                return  # half a command is none, and nobody is there to be told
        if body is None:
            await _too_large()(scope, receive, send)
            return
        await self._app(scope, _replayed(body, receive), send)


def knock_of(scope: Scope, headers: Headers) -> Knock:
    """What the doors must know of a request."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return Knock(
        method=scope["method"],
        path=scope["path"],
        host=headers.get("host", ""),
        origin=headers.get("origin", ""),
        bearer=given.strip() if scheme.lower() == "bearer" else "",
        csrf=headers.get("x-csrf-token", ""),
        by=headers.get(BY.lower(), ""),
    )


def session_id(headers: Headers) -> str:
    """The session that a browser names; empty: none."""
    # By hand: cookies of all ports of a host come together, and one that a strict parser dislikes
    # must not take ours with it.
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def session_of(scope: Scope) -> Session | None:
    """The session of a request that was let in."""
    found = scope.get("hostler.session")
    return found if isinstance(found, Session) else None


def lasts_of(scope: Scope) -> Callable[[], bool]:
    """Tells whether a request that was let in would be let in still; a token always is."""
    found: Callable[[], bool] = scope.get("hostler.lasts", lambda: True)
    return found


def asker_of(scope: Scope) -> str:
    """Whose name a request that was let in says; empty: none."""
    return str(scope.get("hostler.by", ""))


def _refusal(door: Door, scope: Scope, headers: Headers) -> Response:
    """People who want a page are shown the way; programs get the one shape."""
    page = "text/html" in headers.get("accept", "") and not scope["path"].startswith(API)
    if door is Door.TOKEN and page and scope["method"] == "GET":
        return RedirectResponse(f"{LOGIN}?next={quote(scope['path'], safe='/')}", 303)
    return shut(door)


class _CutOff(Exception):
    """Whoever asked is gone, in the middle of a word."""


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None where it is too large."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _CutOff
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST_BODY:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again


def _with_headers(send: Send, path: str) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            if not path.startswith(STATIC):
                headers["Cache-Control"] = "no-store"
        await send(message)

    return guarded


def _counted(send: Send, knock: Knock, session: Session | None) -> Send:
    """Count what was answered to those who want to change something."""
    if knock.method in LOOKING:
        return send
    door = "token" if knock.bearer else "session" if session else "open"

    async def counting(message: Message) -> None:
        if message["type"] == "http.response.start":
            metrics.count(names.API_CHANGES, door=door, status=str(message["status"]))
        await send(message)

    return counting


def _too_large() -> Response:
    what = f"The body is larger than {LARGEST_BODY:,} bytes."
    return answer(413, what, kind="too_large", headers={"Connection": "close"})


def _too_slow() -> Response:
    return answer(408, "The body came too slowly.", kind="too_slow")


def _bad_length() -> Response:
    return answer(400, "The length of the body is no number.", kind="bad_length")
