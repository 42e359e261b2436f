"""The dashboard's files, as they are in the package; whatever else is asked for is not there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

FOLDER = Path(__file__).parent / "static"
INDEX = "index.html"
LOGIN = "login.html"
# What a file is, by its name; others are not served.
KINDS: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class File:
    """One file as a browser gets it."""

    body: bytes
    kind: str
    etag: str


@cache
def files() -> Mapping[str, File]:
    """All of them, by their names below the folder. Read once: no name ever reaches the disk."""
    found = (path for path in sorted(FOLDER.rglob("*")) if path.suffix in KINDS)
    return {path.relative_to(FOLDER).as_posix(): _read(path) for path in found}


def _read(path: Path) -> File:
    body = path.read_bytes()
    return File(body, KINDS[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def answer(name: str, known: str = "") -> Response:
    """A file, or that it has not changed since `known`."""
    found = files().get(name)
    if found is None:
        raise HTTPException(404)
    # Asked for each time: after an upgrade no page is half old.
    headers = {"Cache-Control": "no-cache", "ETag": found.etag}
    if known and found.etag in (one.strip() for one in known.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(found.body, headers={**headers, "Content-Type": found.kind})


@router.get("/")
def index() -> Response:
    """The dashboard."""
    return answer(INDEX)


@router.get("/static/{name:path}")
def static(request: Request, name: str) -> Response:
    """One of its files."""
    return answer(name, request.headers.get("if-none-match", ""))
