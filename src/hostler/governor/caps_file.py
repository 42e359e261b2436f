"""The file of caps that operators change at run time, and its older format."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hostler.config.pools import (
    DEFAULT_POOL,
    POOLS_FILE_NAME,
    PoolCaps,
    canonical_key,
    parse_pools,
    read_pools_json,
)
from hostler.errors import ConfigError, HostlerError, Problem, StoreError
from hostler.governor.adaptive.model import PoolState
from hostler.governor.adaptive.state import dump_state, load_table
from hostler.governor.policy import pool_key
from hostler.store import Store
from hostler.store.engine.locks import part_of, private_folder, written
from hostler.store.governor import find_overlay, put_overlay

LOCK_NAME = "governor.lock"


def set_caps(home: Path, pool: str, caps: Mapping[str, Any]) -> PoolCaps:
    """Write one pool's keys anew; the pool as it is now. All or nothing is written.

    What is not named goes back to its default. Keys of other programs stay, and so do other pools.
    """
    path, pool = home / POOLS_FILE_NAME, pool_key(pool)
    with _alone(home):
        content = read_pools_json(path)
        if content is not None:
            parse_pools(path, content)  # a damaged file is an error, and stays
        content = changed_caps(content or {}, pool, caps)
        # What could not be read again is not written.
        known = parse_pools(path, content)[pool]
        _refuse_nonsense(path, pool, known)
        _write(path, content)
    return known


def _refuse_nonsense(path: Path, pool: str, caps: PoolCaps) -> None:
    """A hard max below the cap is read as it stands, and holds; but nobody means to write it."""
    if 0 < caps.hard_max < caps.max_global_agents:
        allowed = f"{caps.max_global_agents} or more (max_global_agents)"
        raise ConfigError(path, [Problem(f"pools.{pool}.hard_max", str(caps.hard_max), allowed)])


def changed_caps(content: Mapping[str, Any], pool: str, caps: Mapping[str, Any]) -> dict[str, Any]:
    """A file's content with the keys of one pool written anew, in the shape with pools."""
    if "pools" not in content:
        content = {"pools": {DEFAULT_POOL: dict(content)} if content else {}}
    tables = content["pools"].items()
    others = {name: table for name, table in tables if pool_key(name) != pool}
    theirs: dict[str, Any] = {}
    for name, table in tables:
        if pool_key(name) == pool:
            theirs |= {key: value for key, value in table.items() if canonical_key(key) is None}
    # The cap starts again from here, also where its state still stands in the file.
    return {**content, "pools": {**others, pool: {**caps, **without_cap(theirs)}}}


def move_state(home: Path, store: Store) -> bool:
    """Move the state that an older program kept in the file to the database; whether there was any.

    What the database knows is newer. It is stored before the file forgets it, and neither waits for
    the other: whoever sets caps holds the database while the file is written.
    """
    found = _states(home)
    if not found:
        return False
    with store.write("admission") as tx:
        for pool, overlay in found.items():
            if not find_overlay(tx, pool):
                put_overlay(tx, pool, dump_state(overlay))
    with _alone(home):
        # Whatever somebody wrote meanwhile is looked at next time.
        if _states(home) == found:
            _write(home / POOLS_FILE_NAME, without_state(read_pools_json(home / POOLS_FILE_NAME)))
    return True


def _states(home: Path) -> dict[str, PoolState]:
    """The state in a file, by pool; none without a file. A damaged file is an error."""
    content = read_pools_json(home / POOLS_FILE_NAME)
    if content is None:
        return {}
    parse_pools(home / POOLS_FILE_NAME, content)
    return states_in(content)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    try:
        with part_of(path) as part, written(path):
            part.write_text(text, encoding="utf-8")
    except StoreError as error:
        raise HostlerError(
            error.what, safe="The caps are as they were.", remedy=error.remedy
        ) from error


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Two who change the file at once do it one after another."""
    try:
        private_folder(home)
        descriptor = os.open(home / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HostlerError(
            f"The home {home} cannot be written: {error.strerror}.",
            safe="Nothing was changed.",
            remedy="Look at its owner and permissions, or use another one with --home.",
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# As an older program named them, without its underscores and capitals.
_ALIKE = (
    "dynamic_cap",
    "settle_until",
    "last_decrease_at",
    "last_rate_limit_at",
    "last_probe_at",
    "rate_limit_events",
    "recent_rate_limit_events",
    "recent_decreases",
    "breaker_state",
    "breaker_open_at",
    "breaker_break_seconds",
    "breaker_reopen_count",
    "probe_admitted_at",
    "last_dispatch_at",
    "next_dispatch_at",
)
_PROBE = {"probeproject": "project", "probebead": "task", "probetask": "task"}
_NAMES = {name.replace("_", ""): name for name in _ALIKE}
_CAP = frozenset({"dynamiccap", "lastprobeat"})
# How a program that has no empty moment writes one.
_NEVER = "0001-01-01T00:00:00"


def states_in(content: Mapping[str, Any]) -> dict[str, PoolState]:
    """By pool, what a file says of its state; pools of which it says nothing are not there."""
    tables = _tables(content)
    found = {name: _state(table) for name, table in tables.items()}
    return {name: state for name, state in found.items() if state is not None}


def without_state(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same in the shape with pools: what is the operator's, and what is of other programs."""
    if "pools" not in content:
        return {"pools": {DEFAULT_POOL: _kept(content)}}
    pools = {
        name: _kept(table) if isinstance(table, Mapping) else table
        for name, table in content["pools"].items()
    }
    return {**content, "pools": pools}


def without_cap(table: Mapping[str, Any]) -> dict[str, Any]:
    """One pool's table without the cap that was learned, and since when it grows."""
    return {key: value for key, value in table.items() if _plain(key) not in _CAP}


def _tables(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    raw = content.get("pools", {DEFAULT_POOL: content})
    return {
        name.strip() or DEFAULT_POOL: table
        for name, table in raw.items()
        if isinstance(table, Mapping)
    }


def _plain(key: str) -> str:
    return key.replace("_", "").lower()


def _is_state(key: str) -> bool:
    return _plain(key) in _NAMES or _plain(key) in _PROBE


def _kept(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if not _is_state(key)}


def _state(table: Mapping[str, Any]) -> PoolState | None:
    said = {_plain(key): value for key, value in table.items() if _is_state(key)}
    if not said:
        return None
    known = {name: _value(said[key]) for key, name in _NAMES.items() if key in said}
    known = {name: value for name, value in known.items() if value is not None}
    if known.get("breaker_state") == "closed":
        known["breaker_state"] = ""
    if isinstance(reports := known.get("recent_rate_limit_events"), list):
        known["recent_rate_limit_events"] = [_report(one) for one in reports]
    probe = {_PROBE[key]: value for key, value in said.items() if key in _PROBE and value}
    if "project" in probe:
        known["probe"] = probe
    return load_table(known)


def _value(value: Any) -> Any:
    """None where there was nothing."""
    never = isinstance(value, str) and value.startswith(_NEVER)
    return None if never else value


def _report(raw: Any) -> Any:
    """One remembered report: when, and whose."""
    if not isinstance(raw, Mapping):
        return raw
    said = {_plain(key): value for key, value in raw.items()}
    slot = {"project": said.get("project"), "task": said.get("task", said.get("bead", ""))}
    return {"at": said.get("at"), "slot": slot}
