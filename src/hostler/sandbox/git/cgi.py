"""HTTP request → CGI environment for `git http-backend`; CGI answer → HTTP answer. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hostler.sandbox.git.gate import Call

HEAD_END = b"\r\n\r\n"

# No content-length: http-backend would then never notice that its input ended early.
_FORWARDED = {
    b"content-type": "CONTENT_TYPE",
    b"content-encoding": "HTTP_CONTENT_ENCODING",
    b"git-protocol": "GIT_PROTOCOL",
}


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers of an answer."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]


def environment(
    call: Call, repository: Path, login: str | None, headers: Iterable[tuple[bytes, bytes]]
) -> dict[str, str]:
    """What `git http-backend` reads about a request."""
    given = {
        name: value.decode("latin-1")
        for key, value in headers
        if (name := _FORWARDED.get(key.lower()))
    }
    return given | {
        "GIT_PROJECT_ROOT": str(repository.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": f"/{repository.name}/{call.action}",
        "REQUEST_METHOD": "GET" if call.action == "info/refs" else "POST",
        "QUERY_STRING": call.query,
        "REMOTE_USER": login or "",
        "REMOTE_ADDR": "127.0.0.1",
    }


def read_head(raw: bytes) -> Head:
    """The CGI header block; without a Status line it means 200."""
    status = 200
    headers: list[tuple[bytes, bytes]] = []
    for line in raw.strip().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"status":
            status = int(value.split()[0])
        elif name:
            headers.append((name.strip().lower(), value.strip()))
    return Head(status, tuple(headers))


def split_answer(raw: bytes) -> tuple[Head, bytes]:
    """A whole CGI answer as head and body; nonsense becomes a 500."""
    head, found, body = raw.partition(HEAD_END)
    if not found:
        return Head(500, ((b"content-type", b"text/plain"),)), b"git gave no answer\n"
    return read_head(head), body
