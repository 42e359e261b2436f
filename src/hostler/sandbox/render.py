"""Entities as JSON bytes: one shape function per kind, kept per version and joined into pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeVar

from hostler.sandbox.http import encode
from hostler.sandbox.identity import Identity
from hostler.sandbox.tables import Entity, Tables

E = TypeVar("E", bound=Entity)


@dataclass(frozen=True, slots=True)
class Frame:
    """What a shape may look at: the URLs' beginning, the tables, and who looks."""

    root: str
    tables: Tables
    viewer: Identity


Shape = Callable[[Any, Frame], dict[str, Any]]
Kept = bool | Callable[[Any, Frame], bool]
_shapes: dict[tuple[str, str], tuple[Shape, Kept]] = {}


def shape(
    kind: type[Entity], variant: str = "", *, kept: Kept = True
) -> Callable[[Callable[[E, Frame], dict[str, Any]]], Callable[[E, Frame], dict[str, Any]]]:
    """Register a kind's JSON. `kept=False` where it depends on the viewer or other entities;

    where only some of a kind do, `kept` is asked for each.
    """

    def register(
        function: Callable[[E, Frame], dict[str, Any]],
    ) -> Callable[[E, Frame], dict[str, Any]]:
        _shapes[(kind.kind, variant)] = (function, kept)
        return function

    return register


def shaped(item: Entity, frame: Frame, variant: str = "") -> dict[str, Any]:
    """An entity's JSON as a dictionary."""
    return _shapes[(item.kind, variant)][0](item, frame)


class Renderer:
    """Bytes of what readers see, made once per version of an entity."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str, int], tuple[Entity, bytes, bytes]] = {}
        self._epoch = -1

    def one(self, item: Entity, frame: Frame, variant: str = "") -> bytes:
        """The JSON of one entity."""
        return self._bytes(item, frame, variant)[0]

    def many(self, items: Iterable[Entity], frame: Frame, variant: str = "") -> tuple[bytes, bytes]:
        """The JSON list of several, and a digest that stands for it."""
        parts = [self._bytes(item, frame, variant) for item in items]
        body = b"[" + b",".join([part[0] for part in parts]) + b"]"
        return body, b"".join([part[1] for part in parts]) or b"[]"

    def forget(self) -> None:
        """Drop everything kept."""
        self._kept.clear()

    def _bytes(self, item: Entity, frame: Frame, variant: str) -> tuple[bytes, bytes]:
        if frame.tables.epoch != self._epoch:
            self._kept.clear()
            self._epoch = frame.tables.epoch
        function, kept = _shapes[(item.kind, variant)]
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
