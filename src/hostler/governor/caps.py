"""Writing `governor.json`, the operator's file: what was not named stays as it was."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hostler.config.pools import DEFAULT_POOL, FILE_NAME, PoolCaps, pools_in, read_content
from hostler.errors import HostlerError, StoreError
from hostler.governor.pools import pool_key
from hostler.store.parts import part_of, private_folder, written

LOCK_NAME = "governor.lock"


def set_caps(home: Path, pool: str, changes: Mapping[str, Any]) -> PoolCaps:
    """Change these keys of one pool; the pool as it is now. All or nothing is written."""
    path, pool = home / FILE_NAME, pool_key(pool)
    with _alone(home):
        content = read_content(path)
        if content is not None:
            pools_in(path, content)  # a damaged file is an error, and stays
        content = changed(content or {}, pool, changes)
        # What could not be read again is not written.
        pools = pools_in(path, content)
        _write(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    return pools[pool]


def changed(content: Mapping[str, Any], pool: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """A file's content with some keys of one pool changed, in the shape with pools."""
    if "pools" not in content:
        content = {"pools": {DEFAULT_POOL: dict(content)} if content else {}}
    pools = {pool_key(name): table for name, table in content["pools"].items()}
    return {**content, "pools": {**pools, pool: {**pools.get(pool, {}), **changes}}}


def _write(path: Path, text: str) -> None:
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
