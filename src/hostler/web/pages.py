"""Pages for people without a session: the login."""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from hostler.web.dashboard import LOGIN as FILE
from hostler.web.dashboard import files
from hostler.web.doors import LOGIN, same
from hostler.web.guard import COOKIE, session_id

router = APIRouter(include_in_schema=False)
HOME = "/"
# What the file says where nothing is known yet.
_NEXT = 'name="next" type="hidden" value="/"'
_NOT_REFUSED = 'role="alert" hidden></p>'
_REFUSED = 'role="alert">This is not the token.</p>'


@router.get(LOGIN)
def show(next: str = HOME) -> Response:
    """Ask for the token."""
    return HTMLResponse(page(next))


@router.post(LOGIN)
async def log_in(request: Request) -> Response:
    """Open a session for whoever knows the token. It comes in the body, never in a URL."""
    body = (await request.body()).decode("utf-8", "replace")
    fields = parse_qs(body, max_num_fields=8) if body.count("&") < 8 else {}
    token, then = (fields.get(name, [""])[0] for name in ("token", "next"))
    state = request.app.state
    if not same(token.strip(), state.locks.token):
        return HTMLResponse(page(then, wrong=True), 401)
    answer = RedirectResponse(local(then), 303)
    answer.set_cookie(
        COOKIE,
        state.sessions.open(),
        path="/",
        httponly=True,
        samesite="strict",
        # Its origin was judged already; behind a proxy, nothing else tells that there is TLS.
        secure=request.headers.get("origin", "").startswith("https://"),
    )
    return answer


@router.post("/logout")
def log_out(request: Request) -> Response:
    """End the session."""
    request.app.state.sessions.close(session_id(request.headers))
    answer = RedirectResponse(LOGIN, 303)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return answer


def page(then: str, *, wrong: bool = False) -> str:
    """The login, leading to a page of ours."""
    text = files()[FILE].body.decode()
    text = text.replace(_NEXT, _NEXT.replace('"/"', f'"{escape(local(then), quote=True)}"'))
    return text.replace(_NOT_REFUSED, _REFUSED) if wrong else text


def local(then: str) -> str:
    """A path on this server, whatever was asked for. Pure."""
    plain = then.isascii() and then.isprintable() and len(then) <= 200
    inside = then.startswith("/") and not then.startswith(("//", "/\\", LOGIN))
    return then if plain and inside and "\\" not in then else HOME
