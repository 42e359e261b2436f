"""Pages for people without a session: the login."""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from hostler.web.doors import LOGIN, same
from hostler.web.guard import COOKIE, session_id

router = APIRouter(include_in_schema=False)
HOME = "/"
STYLE = """\
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; }
form { width: min(22rem, 92vw); display: grid; gap: 0.75rem; }
h1 { margin: 0; font-size: 1.5rem; }
p { margin: 0; }
input, button { font: inherit; padding: 0.5rem 0.75rem; border: 1px solid; border-radius: 0.4rem; }
.wrong { color: light-dark(#b00020, #ff8a80); }
"""
PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Hostler: log in</title>
<link rel="stylesheet" href="/static/login.css">
</head>
<body>
<form method="post" action="/login">
<h1>Hostler</h1>
<label for="token">Access token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<input name="next" type="hidden" value="{next}">
{wrong}<button>Log in</button>
<p>On its machine, <code>hostler web token</code> prints it.</p>
</form>
</body>
</html>
"""
WRONG = '<p class="wrong" role="alert">This is not the token.</p>\n'


@router.get(HOME)
def house() -> Response:
    """Whoever is logged in, and wants nothing else."""
    return RedirectResponse("/api/v1/status", 303)


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


@router.get("/static/login.css")
def style() -> Response:
    """How the login looks."""
    return Response(STYLE, media_type="text/css")


def page(then: str, *, wrong: bool = False) -> str:
    """The login, leading to a page of ours."""
    return PAGE.format(next=escape(local(then), quote=True), wrong=WRONG if wrong else "")


def local(then: str) -> str:
    """A path on this server, whatever was asked for. Pure."""
    plain = then.isascii() and then.isprintable() and len(then) <= 200
    inside = then.startswith("/") and not then.startswith(("//", "/\\", LOGIN))
    return then if plain and inside and "\\" not in then else HOME
