"""Write `governor.json`, the file of caps, and import state that older programs kept in it."""

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
from hostler.store.governor import find_pool_state, put_pool_state

LOCK_NAME = "governor.lock"


def set_caps(home: Path, pool: str, caps: Mapping[str, Any]) -> PoolCaps:
    """Replace one pool's settings in the file atomically, and return them as read back.

    Settings that are not given return to their defaults. Keys of other programs and other pools
    stay.
    """
    path, pool = home / POOLS_FILE_NAME, pool_key(pool)
    with _locked(home):
        content = read_pools_json(path)
        if content is not None:
            parse_pools(path, content)  # raise if the file is damaged
        content = changed_caps(content or {}, pool, caps)
        # Parse the result before writing it: the file must stay readable.
        known = parse_pools(path, content)[pool]
        _require_hard_max(path, pool, known)
        _write(path, content)
    return known


def _require_hard_max(path: Path, pool: str, caps: PoolCaps) -> None:
    """Raise ConfigError if `hard_max` is below the cap. A file that already says so is accepted."""
    if 0 < caps.hard_max < caps.max_global_agents:
        allowed = f"{caps.max_global_agents} or more (max_global_agents)"
        raise ConfigError(path, [Problem(f"pools.{pool}.hard_max", str(caps.hard_max), allowed)])


def changed_caps(content: Mapping[str, Any], pool: str, caps: Mapping[str, Any]) -> dict[str, Any]:
    """Return the file's content with one pool's settings replaced, in the shape with `pools`."""
    if "pools" not in content:
        content = {"pools": {DEFAULT_POOL: dict(content)} if content else {}}
    tables = content["pools"].items()
    others = {name: table for name, table in tables if pool_key(name) != pool}
    foreign: dict[str, Any] = {}
    for name, table in tables:
        if pool_key(name) == pool:
            foreign |= {key: value for key, value in table.items() if canonical_key(key) is None}
    # Drop the learned cap too, in case older state is still in the file.
    return {**content, "pools": {**others, pool: {**caps, **without_cap(foreign)}}}


def move_state(home: Path, store: Store) -> bool:
    """Move the state that an older program kept in the file to the database.

    Return True if there was any. State already in the database is newer and stays. The database is
    written first. The two locks are never held together, because `set_caps` is called with the
    database locked.
    """
    found = _states(home)
    if not found:
        return False
    with store.write("admission") as tx:
        for pool, state in found.items():
            if not find_pool_state(tx, pool):
                put_pool_state(tx, pool, dump_state(state))
    with _locked(home):
        # If the file changed meanwhile, the next call moves the rest.
        if _states(home) == found:
            _write(home / POOLS_FILE_NAME, without_state(read_pools_json(home / POOLS_FILE_NAME)))
    return True


def _states(home: Path) -> dict[str, PoolState]:
    """Return the state in the file by pool. A missing file has none; a damaged one is an error."""
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
            error.what, safe="The caps were not changed.", remedy=error.remedy
        ) from error


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Hold the lock of the file, so that two writers run one after another."""
    try:
        private_folder(home)
        descriptor = os.open(home / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HostlerError(
            f"Cannot write to the home {home}: {error.strerror}.",
            safe="Nothing was changed.",
            remedy="Check its owner and permissions, or use another home with --home.",
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# State keys of the older format, compared without underscores and capitals.
_STATE_KEYS = (
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
_NAMES = {name.replace("_", ""): name for name in _STATE_KEYS}
_CAP = frozenset({"dynamiccap", "lastprobeat"})
# How Go programs write an unset time.
_UNSET_TIME = "0001-01-01T00:00:00"


def states_in(content: Mapping[str, Any]) -> dict[str, PoolState]:
    """Return the state in a file's content, by pool. Pools without state are left out."""
    tables = _tables(content)
    found = {name: _state(table) for name, table in tables.items()}
    return {name: state for name, state in found.items() if state is not None}


def without_state(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content without state, in the shape with `pools`; foreign keys stay."""
    if "pools" not in content:
        return {"pools": {DEFAULT_POOL: _without_state_keys(content)}}
    pools = {
        name: _without_state_keys(table) if isinstance(table, Mapping) else table
        for name, table in content["pools"].items()
    }
    return {**content, "pools": pools}


def without_cap(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return one pool's table without its learned cap and the time from which it grows."""
    return {key: value for key, value in table.items() if _normalize_key(key) not in _CAP}


def _tables(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    raw = content.get("pools", {DEFAULT_POOL: content})
    return {
        name.strip() or DEFAULT_POOL: table
        for name, table in raw.items()
        if isinstance(table, Mapping)
    }


def _normalize_key(key: str) -> str:
    return key.replace("_", "").lower()


def _is_state(key: str) -> bool:
    return _normalize_key(key) in _NAMES or _normalize_key(key) in _PROBE


def _without_state_keys(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if not _is_state(key)}


def _state(table: Mapping[str, Any]) -> PoolState | None:
    found = {_normalize_key(key): value for key, value in table.items() if _is_state(key)}
    if not found:
        return None
    known = {name: _value(found[key]) for key, name in _NAMES.items() if key in found}
    known = {name: value for name, value in known.items() if value is not None}
    if known.get("breaker_state") == "closed":
        known["breaker_state"] = ""
    if isinstance(events := known.get("recent_rate_limit_events"), list):
        known["recent_rate_limit_events"] = [_event(one) for one in events]
    probe = {_PROBE[key]: value for key, value in found.items() if key in _PROBE and value}
    if "project" in probe:
        known["probe"] = probe
    return load_table(known)


def _value(value: Any) -> Any:
    """Return None for an unset time, else the value."""
    is_unset = isinstance(value, str) and value.startswith(_UNSET_TIME)
    return None if is_unset else value


def _event(raw: Any) -> Any:
    """Return one remembered rate-limit event in our shape: time, project and task."""
    if not isinstance(raw, Mapping):
        return raw
    found = {_normalize_key(key): value for key, value in raw.items()}
    slot = {"project": found.get("project"), "task": found.get("task", found.get("bead", ""))}
    return {"at": found.get("at"), "slot": slot}
