"""The registries of JSON functions, for entities and webhooks, and the cache of rendered bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeVar

from hostler.sandbox.auth import Identity
from hostler.sandbox.http.requests import encode
from hostler.sandbox.state.entities import Comment, Issue
from hostler.sandbox.state.tables import Entity, Tables

E = TypeVar("E", bound=Entity)


@dataclass(frozen=True, slots=True)
class RenderContext:
    """What a shape may look at: the URLs' beginning, the tables, and who looks."""

    root: str
    tables: Tables
    viewer: Identity


Serializer = Callable[[Any, RenderContext], dict[str, Any]]
Cacheable = bool | Callable[[Any, RenderContext], bool]
_serializers: dict[tuple[str, str], tuple[Serializer, Cacheable]] = {}


def serializer(
    kind: type[Entity], variant: str = "", *, kept: Cacheable = True
) -> Callable[
    [Callable[[E, RenderContext], dict[str, Any]]], Callable[[E, RenderContext], dict[str, Any]]
]:
    """Register a kind's JSON. `kept=False` where it depends on the viewer or other entities;

    where only some of a kind do, `kept` is asked for each.
    """

    def register(
        function: Callable[[E, RenderContext], dict[str, Any]],
    ) -> Callable[[E, RenderContext], dict[str, Any]]:
        _serializers[(kind.kind, variant)] = (function, kept)
        return function

    return register


def serialize(item: Entity, frame: RenderContext, variant: str = "") -> dict[str, Any]:
    """Return an entity's JSON as a dictionary."""
    return _serializers[(item.kind, variant)][0](item, frame)


class Renderer:
    """Bytes of what readers see, made once per version of an entity."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str, int], tuple[Entity, bytes, bytes]] = {}
        self._epoch = -1

    def one(self, item: Entity, frame: RenderContext, variant: str = "") -> bytes:
        """Return the JSON of one entity."""
        return self._bytes(item, frame, variant)[0]

    def many(
        self, items: Iterable[Entity], frame: RenderContext, variant: str = ""
    ) -> tuple[bytes, bytes]:
        """Return the JSON list of several, and a digest that stands for it."""
        parts = [self._bytes(item, frame, variant) for item in items]
        body = b"[" + b",".join([part[0] for part in parts]) + b"]"
        return body, b"".join([part[1] for part in parts]) or b"[]"

    def forget(self) -> None:
        """Drop everything kept."""
        self._kept.clear()

    def _bytes(self, item: Entity, frame: RenderContext, variant: str) -> tuple[bytes, bytes]:
        if frame.tables.epoch != self._epoch:
            self._kept.clear()
            self._epoch = frame.tables.epoch
        function, kept = _serializers[(item.kind, variant)]
        if not isinstance(kept, bool):
            kept = kept(item, frame)
        key = (item.kind, variant, frame.root, item.id)
        found = self._kept.get(key)
        if kept and found is not None and found[0] is item:
            return found[1], found[2]
        body = encode(function(item, frame))
        digest = blake2b(body, digest_size=12).digest()
        if kept:
            self._kept[key] = (item, body, digest)
        return body, digest


PayloadFunction = Callable[[Any, str, RenderContext], dict[str, Any]]
_payloads: dict[str, PayloadFunction] = {}


def webhook_payload(event: str) -> Callable[[PayloadFunction], PayloadFunction]:
    """Register what an event's delivery says."""

    def register(function: PayloadFunction) -> PayloadFunction:
        _payloads[event] = function
        return function

    return register


def render_payload(event: str, item: Entity, action: str, frame: RenderContext) -> dict[str, Any]:
    """Return the event's own part of a delivery."""
    function = _payloads.get(event)
    return function(item, action, frame) if function else {item.kind: serialize(item, frame)}


@webhook_payload("issues")
def _issues(item: Issue, _action: str, frame: RenderContext) -> dict[str, Any]:
    return {"issue": serialize(item, frame)}


@webhook_payload("issue_comment")
def _issue_comment(item: Comment, _action: str, frame: RenderContext) -> dict[str, Any]:
    issue = frame.tables.get(Issue, item.issue_id)
    return {"comment": serialize(item, frame), "issue": serialize(issue, frame) if issue else None}
