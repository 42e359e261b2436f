"""ETags and dates: when an answer is 304."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from hashlib import blake2b

from hostler.sandbox.http import Request, Response
from hostler.sandbox.identity import Identity
from hostler.sandbox.moments import http_date


def tag_of(response: Response, viewer: Identity, root: str) -> str:
    """The weak tag of a representation for one token. It knows nothing of the `Link` header."""
    seed = f"{viewer.key} {root} ".encode()
    return f'W/"{blake2b(seed + (response.digest or response.body), digest_size=32).hexdigest()}"'


def with_condition(request: Request, response: Response, viewer: Identity) -> Response:
    """The answer with its tag, or a 304 if the caller has it already."""
    if response.status != 200 or request.method not in ("GET", "HEAD"):
        return response
    tag = tag_of(response, viewer, request.root)
    response.headers["ETag"] = tag
    response.headers["Cache-Control"] = (
        "public, max-age=60, s-maxage=60"
        if viewer.anonymous
        else "private, max-age=60, s-maxage=60"
    )
    response.headers["Vary"] = "Accept, Authorization, Cookie, X-GitHub-OTP"
    if response.modified is not None:
        response.headers["Last-Modified"] = http_date(response.modified)
    if _unchanged(request, response, tag):
        response.status, response.body = 304, b""
    return response


def _unchanged(request: Request, response: Response, tag: str) -> bool:
    known = request.headers.get("if-none-match")
    if known is not None:
        tags = [part.strip() for part in known.split(",")]
        return "*" in tags or _strong(tag) in map(_strong, tags)
    since = request.headers.get("if-modified-since")
    if since is None or response.modified is None:
        return False
    try:
        return parsedate_to_datetime(since).timestamp() >= response.modified
    except (ValueError, TypeError, OverflowError):
        return False


def _strong(tag: str) -> str:
    return tag.removeprefix("W/")
