"""One request, its JSON fields, and one response, as handlers see them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from hostler.sandbox.http.errors import bad_request, invalid, unprocessable, wrong_type

if TYPE_CHECKING:
    from hostler.sandbox.auth import Identity


MAX_BODY_LENGTH = 65_536


class JsonFields:
    """A JSON object that knows which resource it describes."""

    def __init__(self, resource: str, values: dict[str, Any]) -> None:
        self.resource = resource
        self.values = values

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def text(
        self, name: str, *, required: bool = False, limit: int = 0, null: bool = True
    ) -> str | None:
        """Return a string, or None where it is absent or null."""
        value = self.values.get(name)
        if value is None:
            if required:
                raise invalid(self.resource, name, "missing_field")
            if name in self.values and not null:
                raise wrong_type(name, value, "a string")
            return None
        if not isinstance(value, str):
            raise wrong_type(name, value, "a string")
        if required and not value.strip():
            raise invalid(self.resource, name, "missing_field")
        if limit and len(value) > limit:
            raise _too_long(self.resource, name, limit)
        return value

    def body(self, name: str = "body", *, required: bool = False) -> str | None:
        """Return a text of at most 65,536 characters."""
        return self.text(name, required=required, limit=MAX_BODY_LENGTH)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise wrong_type(name, value, "a boolean")
        return value

    def number(self, name: str, *, required: bool = False) -> int | None:
        """Return an integer."""
        value = self.values.get(name)
        if value is None:
            if required:
                raise invalid(self.resource, name, "missing_field")
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong_type(name, value, "an integer")
        return value

    def texts(self, name: str) -> list[str] | None:
        """Return a list of strings; a single string counts as a list of one."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, str):
            return [value]
        if not isinstance(value, list):
            raise wrong_type(name, value, "an array")
        for item in value:
            if not isinstance(item, str):
                raise wrong_type(f"{name}/items", item, "a string")
        return list(value)

    def choice(self, name: str, allowed: tuple[str, ...]) -> str | None:
        """Return one of the allowed values, or None if absent."""
        value = self.text(name)
        if value is not None and value not in allowed:
            raise invalid(self.resource, name, "invalid")
        return value


def _too_long(resource: str, name: str, limit: int) -> Exception:
    """Return the answer to an overlong text."""
    message = f"{name} is too long (maximum is {limit} characters)"
    return unprocessable(
        "Validation Failed",
        [{"resource": resource, "field": name, "code": "custom", "message": message}],
    )


@dataclass(slots=True)
class SandboxResponse:
    """A response. `digest` stands for the body in its ETag; empty means hash the body itself."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    digest: bytes = b""
    modified: int | None = None
    content_type: str = "application/json; charset=utf-8"


def encode(value: Any) -> bytes:
    """Return a value as compact JSON bytes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def json_response(value: Any, status: int = 200, **headers: str) -> SandboxResponse:
    """Return an answer with a JSON body; header names are written with underscores."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return SandboxResponse(status, encode(value), named)


def no_content() -> SandboxResponse:
    """Return an empty 204."""
    return SandboxResponse(204)


@dataclass
class SandboxRequest:
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
        """Return the body as a JSON object; an empty body is an empty object."""
        value = self.json_value()
        if not isinstance(value, dict):
            raise bad_request("Body should be a JSON object")
        return value

    def json_value(self) -> Any:
        """Return the body as any JSON; an empty body is an empty object."""
        if not self.body.strip():
            return {}
        try:
            value = json.loads(self.body, parse_constant=_refuse_constant)
            return _replace_surrogates(value) if b"\\u" in self.body else value
        except (ValueError, RecursionError):
            raise bad_request() from None


def _refuse_constant(constant: str) -> None:
    raise ValueError(constant)


def _replace_surrogates(value: Any) -> Any:
    """Return the value without halves of surrogate pairs, which no encoding can write."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_replace_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_replace_surrogates(key): _replace_surrogates(item) for key, item in value.items()}
    return value
