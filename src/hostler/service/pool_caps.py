"""An operator's word on a pool: file and database together, or neither."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostler.config import PoolCaps, load_pools
from hostler.config.pools import FILE_NAME
from hostler.config.settings import Settings
from hostler.governor import pool_key, read_policy, reseed
from hostler.governor.caps import move_state, set_caps
from hostler.store import Store


def change_pool(
    home: Path, settings: Settings, store: Store, pool: str, caps: Mapping[str, Any]
) -> None:
    """Change some of what a pool is set to. Agents at work go on."""
    known = load_pools(home / FILE_NAME).get(pool_key(pool), PoolCaps())
    kept = known.model_dump(include=set(PoolCaps.model_fields), exclude_unset=True)
    set_pool(home, settings, store, pool, {**kept, **caps})


def set_pool(
    home: Path, settings: Settings, store: Store, pool: str, caps: Mapping[str, Any]
) -> None:
    """Set a pool anew: what is not named goes back to its default. Agents at work go on."""
    read_policy(home, settings)  # a damaged file is said before anything else
    move_state(home, store)
    with store.write("admission") as tx:
        set_caps(home, pool, caps)
        reseed(tx, pool, read_policy(home, settings).cap(pool))
