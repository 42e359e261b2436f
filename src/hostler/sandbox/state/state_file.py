"""Save and load the state: a JSON file, replaced atomically, with the repositories beside it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from hostler.errors import SandboxError
from hostler.sandbox.ci.entities import CiRun, CiScript
from hostler.sandbox.state.clock import VirtualClock
from hostler.sandbox.state.entities import Issue, Label, MovedIssue
from hostler.sandbox.state.tables import Entity
from hostler.sandbox.state.world import InvalidInput, SandboxSettings, World

# Fields that name an entity, and its kind. Without it, what holds the field means nothing.
_NEEDS = {
    "repo_id": "repo",
    "issue_id": "issue",
    "pull_id": "pull",
    "review_id": "review",
    "hook_id": "hook",
    "workflow_id": "workflow",
    "run_id": "run",
}


def _find_duplicate(items: Iterable[Entity]) -> str | None:
    """Describe two entities with the same id or name; None if there are none."""
    keys: Counter[tuple[object, ...]] = Counter()
    for item in items:
        # Old names may be shared: the latest to give one up has it.
        names = [name for name in item.names() if name[0] != "former"]
        keys.update([(item.kind, "id", item.id), *((item.kind, "name", *name) for name in names)])
    double = next((key for key, count in keys.items() if count > 1), None)
    if double is None:
        return None
    return f"entities.{double[0]}: two have the {double[1]} {'/'.join(map(str, double[2:]))}"


def _drop_orphans(items: list[Entity]) -> list[Entity]:
    """Return the entities whose repository, issue and so on exist, without missing labels."""
    while True:
        there = {(item.kind, item.id) for item in items}
        kept = [item for item in items if _has_owners(item, there)]
        if len(kept) == len(items):
            return [_with_known_labels(item, there) for item in kept]
        items = kept


def _raise_counters(counters: dict[str, int], items: Iterable[Entity]) -> dict[str, int]:
    """Counters that give no id and no number a second time."""
    found = {name: max(value, 0) for name, value in counters.items()}
    for item in items:
        for name, value in _used_numbers(item):
            if value > found.get(name, 0):
                found[name] = value
    return found


def _has_owners(item: Entity, there: set[tuple[str, int]]) -> bool:
    needs = ((kind, getattr(item, field, None)) for field, kind in _NEEDS.items())
    return all(number is None or (kind, number) in there for kind, number in needs)


def _with_known_labels(item: Entity, there: set[tuple[str, int]]) -> Entity:
    if not isinstance(item, Issue):
        return item
    kept = tuple(number for number in item.labels if (Label.kind, number) in there)
    return item if kept == item.labels else replace(item, labels=kept)


def _used_numbers(item: Entity) -> Iterable[tuple[str, int]]:
    if not isinstance(item, CiScript):  # it has its repository's id
        yield f"id:{item.kind}", item.id
    if isinstance(item, Issue | MovedIssue):
        yield f"number:{item.repo_id}", item.number
    if isinstance(item, CiRun):
        yield f"run:{item.workflow_id}", item.run_number


FORMAT = 2
PRODUCT = "hostler-sandbox"


def dump_state(world: World) -> dict[str, Any]:
    """Return everything that is true, without what is only on its way to readers."""
    entities: dict[str, list[dict[str, Any]]] = {}
    for item in world.truth.everything():
        if not item.saved:
            continue
        entities.setdefault(item.kind, []).append(asdict(item))
    return {
        "product": PRODUCT,
        "format": FORMAT,
        "clock": _dump_clock(world.clock),
        "settings": world.settings.as_dict(),
        "counters": dict(world.counters),
        "entities": entities,
    }


def load_state(world: World, state: Any) -> None:
    """Replace a world's content by a packed one; nothing changes if it cannot be read."""
    _check_format(state)
    entities = _require(state, "entities", dict)
    items = [
        _parse_entity(kind, row) for kind in entities for row in _require(entities, kind, list)
    ]
    double = _find_duplicate(items)
    if double is not None:
        raise _unreadable(double)
    items = _drop_orphans(items)
    counters = _require(state, "counters", dict)
    if not all(type(value) is int for value in counters.values()):
        raise _unreadable("counters: must be whole numbers")
    settings = SandboxSettings()
    try:
        settings.change(_require(state, "settings", dict))
    except InvalidInput as error:
        raise _unreadable(f"settings.{error}") from None
    offset, frozen_at = _parse_clock(state)
    world.reset()
    world.settings.change(settings.as_dict())
    world.counters.update(_raise_counters(counters, items))
    world.clock.real()
    if frozen_at is not None:
        world.clock.freeze()
    world.clock.set(time.time() + offset if frozen_at is None else frozen_at)
    with world.hiding(0):
        for item in items:
            world.put(item)


@cache
def _entity_adapters() -> dict[str, TypeAdapter[Any]]:
    # With slots a dataclass is made twice; the later class is the real one.
    found = {kind.kind: kind for kind in _subclasses(Entity)}
    return {name: TypeAdapter(kind) for name, kind in found.items() if name}


def _subclasses(kind: type[Entity]) -> list[type[Entity]]:
    return [one for below in kind.__subclasses__() for one in (below, *_subclasses(below))]


def _parse_entity(kind: str, values: Any) -> Entity:
    adapter = _entity_adapters().get(kind)
    if adapter is None:
        raise _unreadable(f"entities.{kind}: unknown kind")
    try:
        item = adapter.validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise _unreadable(f"entities.{kind}.{where}: {first['msg']}") from None
    assert isinstance(item, Entity)
    return item


def _check_format(state: Any) -> None:
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


def _require(state: dict[str, Any], name: str, wanted: type) -> Any:
    value = state.get(name)
    if not isinstance(value, wanted):
        raise _unreadable(f"{name}: is missing or has the wrong type")
    return value


def _dump_clock(clock: VirtualClock) -> dict[str, Any]:
    """Return the clock's offset from the machine's clock, or the time at which it is frozen."""
    if clock.frozen:
        return {"offset": 0.0, "frozen_at": clock.now()}
    return {"offset": round(clock.now() - time.time(), 3), "frozen_at": None}


def _parse_clock(state: dict[str, Any]) -> tuple[float, float | None]:
    clock = _require(state, "clock", dict)
    offset, frozen_at = clock.get("offset"), clock.get("frozen_at")
    moved = type(offset) in (int, float) and 0 <= time.time() + offset < 1e11
    stands = type(frozen_at) in (int, float) and 0 <= frozen_at < 1e11
    if not moved or not (frozen_at is None or stands):
        raise _unreadable("clock: needs `offset` in seconds, and `frozen_at` in seconds or null")
    return float(offset), None if frozen_at is None else float(frozen_at)


def _unreadable(detail: str) -> SandboxError:
    return SandboxError(
        f"The sandbox's state cannot be read: {detail}",
        safe="Nothing was changed.",
        remedy="Restore the file from a copy, or start with a new one.",
    )


@contextmanager
def locked_state_file(path: Path) -> Iterator[Path]:
    """Lock a state file for this sandbox and yield its real path; raise if it is not writable."""
    # Behind a link: what is replaced is the file, and the link stays.
    real = path.resolve()
    if not real.parent.is_dir():
        raise SandboxError(
            f"There is no folder for the state file {path}.", remedy="Make the folder first."
        )
    try:
        lock = os.open(real.with_name(f".{real.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _not_saved(path, error) from None
    try:
        _lock_file(lock, path)
        _check_writable(real, path)
        yield real
    finally:
        os.close(lock)


async def save_to_file(world: World, path: Path) -> None:
    """Write the state. Whatever happens meanwhile, the file is the old one or the new one."""
    path = path.resolve()
    state = dump_state(world)
    try:
        if world.repo_store is not None:
            state["git"] = f"{path.name}.git-{uuid.uuid4().hex[:8]}"
            await world.repo_store.export(path.with_name(state["git"]))
            await asyncio.to_thread(_sync_tree, path.with_name(state["git"]))
        write_atomically(path, json.dumps(state, ensure_ascii=False).encode())
    except OSError as error:
        raise _not_saved(path, error) from error
    _remove_old_saves(path, state.get("git"))


async def load_from_file(world: World, path: Path) -> None:
    """Take the state from a file, and the repositories beside it."""
    path = path.resolve()
    state = read_json(path, "state")
    load_state(world, state)
    name = state.get("git") if isinstance(state, dict) else None
    if world.repo_store is None or not isinstance(name, str):
        return
    folder = path.with_name(Path(name).name)
    if not folder.is_dir():
        raise SandboxError(
            f"The repositories of this state are missing: {folder}",
            remedy="Restore that folder beside the state, or start with a new state file.",
        )
    await world.repo_store.load(folder)


def write_atomically(path: Path, content: bytes) -> None:
    """Put a file in place at once, with its content already on the disk."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    # The state holds tokens, if only the sandbox's own.
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    _sync(path.parent)


def read_json(path: Path, what: str) -> Any:
    """Return the JSON in a file; raise SandboxError if it cannot be read."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise SandboxError(f"There is no {what} file {path}.", remedy="Check the path.") from None
    except OSError as error:
        raise SandboxError(
            f"The {what} file {path} cannot be read: {error.strerror or error}.",
            remedy="Check the path and its permissions.",
        ) from None
    except (ValueError, RecursionError):
        raise SandboxError(
            f"The {what} file {path} is not JSON.",
            safe="It was left as it is.",
            remedy="Correct it, or name another file.",
        ) from None


def _lock_file(lock: int, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SandboxError(
            f"Another sandbox is using the state file {path}.",
            safe="Nothing was changed.",
            remedy="Stop the other one, or choose another file with --state.",
        ) from None


def _check_writable(real: Path, path: Path) -> None:
    """Make and remove what a save begins with."""
    trial = real.with_name(f".{real.name}.git-{uuid.uuid4().hex[:8]}.part")
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        raise _not_saved(path, error) from None


def _not_saved(path: Path, error: OSError) -> SandboxError:
    return SandboxError(
        f"The sandbox's state could not be saved to {path}: {error.strerror or error}.",
        safe="An older state there is untouched.",
        remedy="Make room or choose another place with --state.",
    )


def _sync_tree(folder: Path) -> None:
    """Put a folder with all that is in it onto the disk, and its name into its parent."""
    for place, _, files in os.walk(folder):
        for name in files:
            _sync(Path(place, name))
        _sync(Path(place))
    _sync(folder.parent)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _remove_old_saves(path: Path, kept: str | None) -> None:
    """Remove repositories of states that are no longer there, and halves of unfinished saves."""
    # Exactly the names that a save gives; other files with this prefix are not the sandbox's.
    name = re.escape(path.name)
    ours = re.compile(rf"{name}\.git-[0-9a-f]{{8}}|\.{name}\.(git-[0-9a-f]{{8}}|[0-9]+)\.part")
    for old in path.parent.iterdir():
        if old.name == kept or not ours.fullmatch(old.name):
            continue
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                old.unlink()
