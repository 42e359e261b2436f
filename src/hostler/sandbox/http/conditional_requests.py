"""ETags and dates: when an answer is 304."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from hashlib import blake2b

from hostler.sandbox.auth import Identity
from hostler.sandbox.http.requests import SandboxRequest, SandboxResponse
from hostler.sandbox.state.clock import http_date


def _etag_of(response: SandboxResponse, viewer: Identity, root: str) -> str:
    """Return the weak ETag of a representation for one token. It ignores `Link`."""
    seed = f"{viewer.key} {root} ".encode()
    return f'W/"{blake2b(seed + (response.digest or response.body), digest_size=32).hexdigest()}"'


def apply_conditions(
    request: SandboxRequest, response: SandboxResponse, viewer: Identity
) -> SandboxResponse:
    """Return the answer with its tag, or a 304 if the caller has it already."""
    if response.status != 200 or request.method not in ("GET", "HEAD"):
        return response
    tag = _etag_of(response, viewer, request.root)
    response.headers["ETag"] = tag
    response.headers["Cache-Control"] = (
        "public, max-age=60, s-maxage=60"
        if viewer.anonymous
        else "private, max-age=60, s-maxage=60"
    )
    response.headers["Vary"] = "Accept, Authorization, Cookie, X-GitHub-OTP"
    if response.modified is not None:
        response.headers["Last-Modified"] = http_date(response.modified)
    if _is_unchanged(request, response, tag):
        response.status, response.body = 304, b""
    return response


def _is_unchanged(request: SandboxRequest, response: SandboxResponse, tag: str) -> bool:
    known = request.headers.get("if-none-match")
    if known is not None:
        tags = [part.strip() for part in known.split(",")]
        return "*" in tags or _strong_tag(tag) in map(_strong_tag, tags)
    since = request.headers.get("if-modified-since")
    if since is None or response.modified is None:
        return False
    try:
        return parsedate_to_datetime(since).timestamp() >= response.modified
    except (ValueError, TypeError, OverflowError):
        return False


def _strong_tag(tag: str) -> str:
    return tag.removeprefix("W/")
