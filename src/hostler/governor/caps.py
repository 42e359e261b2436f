"""Writing `governor.json`, the operator's file: one pool's keys anew, or without old state."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hostler.config.pools import DEFAULT_POOL, FILE_NAME, PoolCaps, ours, pools_in, read_content
from hostler.errors import ConfigError, HostlerError, Problem, StoreError
from hostler.governor.older import states_in, without_cap, without_state
from hostler.governor.overlay import Overlay
from hostler.governor.pools import pool_key
from hostler.governor.remembering import as_text
from hostler.store import Store
from hostler.store.engine.locks import part_of, private_folder, written
from hostler.store.governor import find_overlay, put_overlay

LOCK_NAME = "governor.lock"


def set_caps(home: Path, pool: str, caps: Mapping[str, Any]) -> PoolCaps:
    """Write one pool's keys anew; the pool as it is now. All or nothing is written.

    What is not named goes back to its default. Keys of other programs stay, and so do other pools.
    """
    path, pool = home / FILE_NAME, pool_key(pool)
    with _alone(home):
        content = read_content(path)
        if content is not None:
            pools_in(path, content)  # a damaged file is an error, and stays
        content = changed(content or {}, pool, caps)
        # What could not be read again is not written.
        known = pools_in(path, content)[pool]
        _refuse_nonsense(path, pool, known)
        _write(path, content)
    return known


def _refuse_nonsense(path: Path, pool: str, caps: PoolCaps) -> None:
    """A hard max below the cap is read as it stands, and holds; but nobody means to write it."""
    if 0 < caps.hard_max < caps.max_global_agents:
        allowed = f"{caps.max_global_agents} or more (max_global_agents)"
        raise ConfigError(path, [Problem(f"pools.{pool}.hard_max", str(caps.hard_max), allowed)])


def changed(content: Mapping[str, Any], pool: str, caps: Mapping[str, Any]) -> dict[str, Any]:
    """A file's content with the keys of one pool written anew, in the shape with pools."""
    if "pools" not in content:
        content = {"pools": {DEFAULT_POOL: dict(content)} if content else {}}
    tables = content["pools"].items()
    others = {name: table for name, table in tables if pool_key(name) != pool}
    theirs: dict[str, Any] = {}
    for name, table in tables:
        if pool_key(name) == pool:
            theirs |= {key: value for key, value in table.items() if ours(key) is None}
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
                put_overlay(tx, pool, as_text(overlay))
    with _alone(home):
        # Whatever somebody wrote meanwhile is looked at next time.
        if _states(home) == found:
            _write(home / FILE_NAME, without_state(read_content(home / FILE_NAME)))
    return True


def _states(home: Path) -> dict[str, Overlay]:
    """The state in a file, by pool; none without a file. A damaged file is an error."""
    content = read_content(home / FILE_NAME)
    if content is None:
        return {}
    pools_in(home / FILE_NAME, content)
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
