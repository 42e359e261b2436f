"""One request and one answer, as handlers see them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from hostler.sandbox.errors import bad_request

if TYPE_CHECKING:
    from hostler.sandbox.identity import Identity


@dataclass(slots=True)
class Response:
    """An answer. `digest` stands for the body in its ETag; empty means hash the body itself."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    digest: bytes = b""
    modified: int | None = None
    content_type: str = "application/json; charset=utf-8"


def encode(value: Any) -> bytes:
    """JSON as we send it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def json_response(value: Any, status: int = 200, **headers: str) -> Response:
    """An answer with a JSON body; header names are written with underscores."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Response(status, encode(value), named)


def no_content() -> Response:
    """204."""
    return Response(204)


@dataclass
class Request:
    """What came over the wire. `path` is without any /api/v3; `root` is what URLs begin with."""

    method: str
    path: str
    query_string: str
    headers: dict[str, str]
    body: bytes
    root: str
    client: str
    identity: Identity | None = None

    @cached_property
    def query(self) -> dict[str, str]:
        """The query's parameters; of repeated ones the last counts."""
        return dict(parse_qsl(self.query_string, keep_blank_values=True, errors="replace"))

    @property
    def is_read(self) -> bool:
        """Whether nothing is written."""
        return self.method in ("GET", "HEAD", "OPTIONS")

    def json(self) -> dict[str, Any]:
        """The body as a JSON object; an empty body is an empty object."""
        value = self.json_value()
        if not isinstance(value, dict):
            raise bad_request("Body should be a JSON object")
        return value

    def json_value(self) -> Any:
        """The body as any JSON; an empty body is an empty object."""
        if not self.body.strip():
            return {}
        try:
            value = json.loads(self.body, parse_constant=_refuse)
            return _clean(value) if b"\\u" in self.body else value
        except (ValueError, RecursionError):
            raise bad_request() from None


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _clean(value: Any) -> Any:
    """The value without halves of surrogate pairs, which no encoding can write."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return value
