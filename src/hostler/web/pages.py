"""The dashboard's static files and the login page."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse

from hostler.web.auth import LOGIN_PATH, is_same_secret
from hostler.web.middleware import SESSION_COOKIE, read_session_id

STATIC_FOLDER = Path(__file__).parent / "static"
INDEX_FILE = "index.html"
_LOGIN_FILE = "login.html"
# Files with other suffixes are not served.
CONTENT_TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
static_router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One static file, ready to send."""

    body: bytes
    content_type: str
    etag: str


@cache
def read_static_files() -> Mapping[str, StaticFile]:
    """Read all static files once, by relative path. Requested names never reach the disk."""
    found = (path for path in sorted(STATIC_FOLDER.rglob("*")) if path.suffix in CONTENT_TYPES)
    return {path.relative_to(STATIC_FOLDER).as_posix(): _read_static_file(path) for path in found}


def _read_static_file(path: Path) -> StaticFile:
    body = path.read_bytes()
    return StaticFile(
        body, CONTENT_TYPES[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    )


def serve_file(name: str, known: str = "") -> Response:
    """Return a file, or 304 if its ETag is among the `known` ones."""
    found = read_static_files().get(name)
    if found is None:
        raise HTTPException(404)
    # Revalidate each time, so that no page mixes files of two versions.
    headers = {"Cache-Control": "no-cache", "ETag": found.etag}
    if known and found.etag in (one.strip() for one in known.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(found.body, headers={**headers, "Content-Type": found.content_type})


@static_router.get("/")
def index() -> Response:
    """Return the dashboard."""
    return serve_file(INDEX_FILE)


@static_router.get("/static/{name:path}")
def static(request: Request, name: str) -> Response:
    """Return a static file."""
    return serve_file(name, request.headers.get("if-none-match", ""))


login_router = APIRouter(include_in_schema=False)
_HOME_PATH = "/"
# Markup of login.html that `render_login` replaces.
_NEXT_FIELD = 'name="next" type="hidden" value="/"'
_NO_ALERT = 'role="alert" hidden></p>'
_WRONG_LOGIN_ALERT = 'role="alert">Wrong token.</p>'


@login_router.get(LOGIN_PATH)
def show_login(next: str = _HOME_PATH) -> Response:
    """Return the login page."""
    return HTMLResponse(_render_login(next))


@login_router.post(LOGIN_PATH)
async def log_in(request: Request) -> Response:
    """Open a session if the token is right. The token is sent in the body, never in a URL."""
    body = (await request.body()).decode("utf-8", "replace")
    fields = parse_qs(body, max_num_fields=8) if body.count("&") < 8 else {}
    token, then = (fields.get(name, [""])[0] for name in ("token", "next"))
    state = request.app.state
    if not is_same_secret(token.strip(), state.policy.token):
        return HTMLResponse(_render_login(then, wrong=True), 401)
    answer = RedirectResponse(safe_redirect_path(then), 303)
    answer.set_cookie(
        SESSION_COOKIE,
        state.sessions.open(),
        path="/",
        httponly=True,
        samesite="strict",
        # The origin was checked already. Behind a proxy, only the origin shows that TLS is used.
        secure=request.headers.get("origin", "").startswith("https://"),
    )
    return answer


@login_router.post("/logout")
def log_out(request: Request) -> Response:
    """Close the session, and go to the login page."""
    request.app.state.sessions.close(read_session_id(request.headers))
    answer = RedirectResponse(LOGIN_PATH, 303)
    answer.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="strict")
    return answer


def _render_login(then: str, *, wrong: bool = False) -> str:
    """Render the login page; it leads to `then` if that is a path on this server."""
    text = read_static_files()[_LOGIN_FILE].body.decode()
    text = text.replace(
        _NEXT_FIELD, _NEXT_FIELD.replace('"/"', f'"{escape(safe_redirect_path(then), quote=True)}"')
    )
    return text.replace(_NO_ALERT, _WRONG_LOGIN_ALERT) if wrong else text


def safe_redirect_path(then: str) -> str:
    """Return `then` if it is a safe path on this server, else the dashboard's path."""
    is_plain = then.isascii() and then.isprintable() and len(then) <= 200
    is_local = then.startswith("/") and not then.startswith(("//", "/\\", LOGIN_PATH))
    return then if is_plain and is_local and "\\" not in then else _HOME_PATH
