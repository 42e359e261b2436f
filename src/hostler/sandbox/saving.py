"""The whole state as one JSON document, and back."""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from hostler.errors import SandboxError
from hostler.sandbox import statecheck
from hostler.sandbox.moments import VirtualClock
from hostler.sandbox.settings import BadInput, Settings
from hostler.sandbox.tables import Entity
from hostler.sandbox.world import World

FORMAT = 2
PRODUCT = "hostler-sandbox"


def pack(world: World) -> dict[str, Any]:
    """Everything that is true, without what is only on its way to readers."""
    entities: dict[str, list[dict[str, Any]]] = {}
    for item in world.truth.everything():
        if not item.saved:
            continue
        entities.setdefault(item.kind, []).append(asdict(item))
    return {
        "product": PRODUCT,
        "format": FORMAT,
        "clock": _packed_clock(world.clock),
        "settings": world.settings.as_dict(),
        "counters": dict(world.counters),
        "entities": entities,
    }


def unpack(world: World, state: Any) -> None:
    """Replace a world's content by a packed one; nothing changes if it cannot be read."""
    _check_head(state)
    entities = _part(state, "entities", dict)
    items = [_entity(kind, row) for kind in entities for row in _part(entities, kind, list)]
    double = statecheck.twins(items)
    if double is not None:
        raise _broken(double)
    items = statecheck.connected(items)
    counters = _part(state, "counters", dict)
    if not all(type(value) is int for value in counters.values()):
        raise _broken("counters: must be whole numbers")
    settings = Settings()
    try:
        settings.change(_part(state, "settings", dict))
    except BadInput as error:
        raise _broken(f"settings.{error}") from None
    offset, frozen_at = _clock(state)
    world.reset()
    world.settings.change(settings.as_dict())
    world.counters.update(statecheck.raised(counters, items))
    world.clock.real()
    if frozen_at is not None:
        world.clock.freeze()
    world.clock.set(time.time() + offset if frozen_at is None else frozen_at)
    with world.hiding(0):
        for item in items:
            world.put(item)


@cache
def _kinds() -> dict[str, TypeAdapter[Any]]:
    # With slots a dataclass is made twice; the later class is the real one.
    found = {kind.kind: kind for kind in _below(Entity)}
    return {name: TypeAdapter(kind) for name, kind in found.items() if name}


def _below(kind: type[Entity]) -> list[type[Entity]]:
    return [one for below in kind.__subclasses__() for one in (below, *_below(below))]


def _entity(kind: str, values: Any) -> Entity:
    adapter = _kinds().get(kind)
    if adapter is None:
        raise _broken(f"entities.{kind}: unknown kind")
    try:
        item = adapter.validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise _broken(f"entities.{kind}.{where}: {first['msg']}") from None
    assert isinstance(item, Entity)
    return item


def _check_head(state: Any) -> None:
    if not isinstance(state, dict) or state.get("product") != PRODUCT:
        raise SandboxError(
            "This is not a state of the sandbox.",
            safe="Nothing was changed.",
            remedy="Name a file that `hostler sandbox --state` has written, or a new one.",
        )
    if state.get("format") != FORMAT:
        raise SandboxError(
            f"The state has format {state.get('format')!r}; this program reads {FORMAT}.",
            safe="Nothing was changed.",
            remedy="Use the Hostler that wrote it, or a new file.",
        )


def _part(state: dict[str, Any], name: str, wanted: type) -> Any:
    value = state.get(name)
    if not isinstance(value, wanted):
        raise _broken(f"{name}: is missing or has the wrong type")
    return value


def _packed_clock(clock: VirtualClock) -> dict[str, Any]:
    """How far it is from the machine's, which runs on while we are away; or where it stands."""
    if clock.frozen:
        return {"offset": 0.0, "frozen_at": clock.now()}
    return {"offset": round(clock.now() - time.time(), 3), "frozen_at": None}


def _clock(state: dict[str, Any]) -> tuple[float, float | None]:
    clock = _part(state, "clock", dict)
    offset, frozen_at = clock.get("offset"), clock.get("frozen_at")
    moved = type(offset) in (int, float) and 0 <= time.time() + offset < 1e11
    stands = type(frozen_at) in (int, float) and 0 <= frozen_at < 1e11
    if not moved or not (frozen_at is None or stands):
        raise _broken("clock: needs `offset` in seconds, and `frozen_at` in seconds or null")
    return float(offset), None if frozen_at is None else float(frozen_at)


def _broken(detail: str) -> SandboxError:
    return SandboxError(
        f"The sandbox's state cannot be read: {detail}",
        safe="Nothing was changed.",
        remedy="Restore the file from a copy, or start with a new one.",
    )
